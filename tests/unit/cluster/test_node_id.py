"""The file with a node's id."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupd.coordinator.cluster.node_id import NODES_MAX, NodeIdFile
from groupd.storage.log import StoreRefused


def test_an_id_is_kept_for_the_next_process(tmp_path: Path) -> None:
    first = NodeIdFile(tmp_path / "new" / "data")
    assert first.node_id is None
    first.keep(1234567, "a-cluster")
    first.keep(17, "b")
    first.close()
    first.close()
    again = NodeIdFile(tmp_path / "new" / "data")
    assert (again.node_id, again.cluster_id) == (17, "b")
    again.close()


def test_nodes_of_one_directory_have_files_of_their_own(tmp_path: Path) -> None:
    first, second = NodeIdFile(tmp_path), NodeIdFile(tmp_path)
    first.keep(1, "c")
    second.keep(2, "c")
    first.close()
    # Whoever comes first takes the first file that is free.
    again = NodeIdFile(tmp_path)
    assert again.node_id == 1
    again.close()
    second.close()


def test_a_directory_has_room_for_so_many_nodes(tmp_path: Path) -> None:
    nodes = [NodeIdFile(tmp_path) for _ in range(NODES_MAX)]
    with pytest.raises(StoreRefused, match="in use by 64 nodes: give this one its own --data-dir"):
        NodeIdFile(tmp_path)
    for one in nodes:
        one.close()


@pytest.mark.parametrize("text", ["seven", "-1", "2147483648", "1 2", "\xff"])
def test_a_file_that_holds_no_id_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "node-id").write_text(text)
    with pytest.raises(StoreRefused, match="holds no node id: remove it"):
        NodeIdFile(tmp_path)
    # It is not locked by the try that was refused.
    (tmp_path / "node-id").unlink()
    NodeIdFile(tmp_path).close()


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreRefused, match="cannot be used"):
        NodeIdFile(tmp_path / "file")
