"""The file with a node's id."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupd.coordinator.cluster.node_id import NodeIdFile
from groupd.storage.log import StoreRefused


def test_an_id_is_kept_for_the_next_process(tmp_path: Path) -> None:
    first = NodeIdFile(tmp_path / "new" / "data")
    assert first.node_id is None
    first.keep(1234567)
    first.keep(17)
    first.close()
    first.close()
    assert NodeIdFile(tmp_path / "new" / "data").node_id == 17


def test_two_nodes_cannot_have_one_directory(tmp_path: Path) -> None:
    first = NodeIdFile(tmp_path)
    with pytest.raises(StoreRefused, match="in use by another node: give this one its own"):
        NodeIdFile(tmp_path)
    first.close()
    NodeIdFile(tmp_path).close()


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
