"""The page of a share group: who holds which records, how often they were delivered, and why some
were given up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.page import Console, group_page
from tests.browser.readers import commit
from tests.browser.test_looks import TELEPHONE, WIDE
from tests.clients.share_scene import records_under_way
from tests.support.admin import create_topics
from tests.support.daemon import Daemon

GROUP = "parcels"


@pytest.fixture(scope="module", autouse=True)
def _records(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    create_topics(daemon.bootstrap, {"parcels": 1})
    directory = tmp_path_factory.mktemp("member")
    with records_under_way(daemon.bootstrap, GROUP, "parcels", directory):
        yield


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_records_of_a_share_group(console: Console, theme: str) -> None:
    console.open(group_page(GROUP), theme=theme)
    console.wait_for("#records", "2 ranges delivered again and again")
    first, again, once = (
        console.text(f"#records {console.row(f'parcels-0@{at}')}") for at in (2, 5, 4)
    )
    assert "parcels-0: 2–3" in first
    assert "2 of 5 acquired" in first
    assert "ago" in first or "just now" in first
    assert "left" in first
    assert "parcels-0: 5–9" in again
    assert "1 of 5 archived: rejected nobody" in once
    offsets = console.text(f"#share-partitions {console.row('parcels-0')}")
    assert offsets.startswith("parcels-0 2 ")
    console.wait_for("#outcomes", "given up: rejected")
    assert console.faults() == []
    for width in (TELEPHONE, WIDE):
        assert not console.wider_than(width), width


def test_other_groups_have_no_such_tables(console: Console, daemon: Daemon) -> None:
    commit(daemon.bootstrap, "plain", "orders", {0: 0})
    console.open(group_page("plain"))
    console.wait_for("#partitions", "orders-0")
    assert console.texts("#records") == console.texts("#outcomes") == []
