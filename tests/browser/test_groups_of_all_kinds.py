"""Groups of every size and name, and groups that come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka.admin import AdminClient

from tests.browser.page import Console, group_page
from tests.browser.readers import commit
from tests.support.daemon import Daemon, ends_well
from tests.support.raw_member import RawMember, topic_ids

MEMBERS = 21
SETTINGS = {
    "groupd.lag.interval.ms": "100",
    "group.consumer.session.timeout.ms": "60000",
    "group.consumer.max.session.timeout.ms": "60000",
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """In the place of the one of all files: members need not send heartbeats for a while."""
    directory = tmp_path_factory.mktemp("kinds")
    running = Daemon(directory, topics={"orders": MEMBERS}, settings=SETTINGS)
    running.start()
    with ends_well(running):
        yield running


def test_a_group_is_shown_whatever_its_size(console: Console, daemon: Daemon) -> None:
    """The pages of small groups are indented, those of large ones are not."""
    ids = topic_ids(daemon)
    with ExitStack() as members:
        for number in range(1, MEMBERS + 1):
            one = RawMember(daemon, "growing", f"member-{number:014d}", ids)
            members.enter_context(closing(one)).join(["orders"])
            if number == 1:
                console.open(group_page("growing"))
            console.wait_for(".headline", f"Members {number} ")


def test_a_page_goes_on_when_its_group_is_back(console: Console, daemon: Daemon) -> None:
    commit(daemon.bootstrap, "phoenix", "orders", {0: 5})
    console.open(group_page("phoenix"))
    console.wait_for(f"#partitions {console.row('orders-0')}", " 5 ")
    admin = AdminClient({"bootstrap.servers": daemon.bootstrap})
    admin.delete_consumer_groups(["phoenix"])["phoenix"].result(10)
    console.wait_for(".notice", "The group has been deleted.")
    commit(daemon.bootstrap, "phoenix", "orders", {0: 7})
    console.wait_for(f"#partitions {console.row('orders-0')}", " 7 ")
    assert "deleted" not in console.text("main")
    console.wait_for(".stream", "Live")


@pytest.mark.parametrize("group", [".", "..", "a/../b", "%2E%2E"])
def test_names_that_look_like_paths(console: Console, daemon: Daemon, group: str) -> None:
    commit(daemon.bootstrap, group, "orders", {0: 5})
    console.to_group(group)
    console.wait_for("h1", group)
    console.wait_for(f"#partitions {console.row('orders-0')}", " 5 ")
    console.click(".tabs a", "Offsets")
    console.wait_for("#move", "All 1")
    console.click("#move .targets label", "Shift")
    console.write("#move input[inputmode=numeric]", "-2")
    console.click("#move button", "Preview")
    console.wait_for("#preview", "1 partition to move")
