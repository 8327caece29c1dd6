"""The coordinator repeats an assignment that the member does not report as owned for a while."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from groupd.testing.harness import GroupCoordinator
from tests.support.raw_member import RawMember, settle, topic_ids

INTERVAL_MS = 5_000
"""The heartbeat interval; an assignment is repeated after two of them."""


@pytest.fixture
def c() -> Iterator[GroupCoordinator]:
    config = {"group.consumer.heartbeat.interval.ms": INTERVAL_MS}
    with GroupCoordinator.start({"orders": 2}, config, clock="frozen") as started:
        yield started


def test_an_assignment_is_told_again_after_two_heartbeat_intervals(c: GroupCoordinator) -> None:
    ids = topic_ids(c)
    first, second = (RawMember(c, "billing", name, ids) for name in ("c1", "c2"))
    first.join(["orders"])
    settle(first)
    second.join(["orders"])
    assigned = first.beat()["assignment"]
    assert assigned is not None, "c1 has to give a partition up"

    assert {str(first.beat()["assignment"]) for _ in range(50)} == {"None"}
    c.clock.advance(2 * INTERVAL_MS - 1)
    assert {str(first.beat()["assignment"]) for _ in range(50)} == {"None"}
    c.clock.advance(1)
    assert first.beat()["assignment"] == assigned
    assert {str(first.beat()["assignment"]) for _ in range(50)} == {"None"}

    settle(first, second)
    for _ in range(4):
        c.clock.advance(INTERVAL_MS)
        assert [member.beat()["assignment"] for member in (first, second)] == [None, None]
    first.close()
    second.close()


def test_a_reply_that_got_lost_is_made_up_for_although_plain_heartbeats_have_a_stored_reply(
    c: GroupCoordinator,
) -> None:
    ids = topic_ids(c)
    member = RawMember(c, "billing", "c1", ids)
    member.join(["orders"])
    settle(member)
    held = dict(member.owned)
    assert {str(member.beat()["assignment"]) for _ in range(5)} == {"None"}

    # It says everything, and that it owns nothing; suppose that the reply gets lost.
    said = {"subscribed_topic_names": ["orders"], "rebalance_timeout": 60_000}
    assert member.beat(topic_partitions=(), **said)["assignment"] is not None
    member.owned.clear()
    assert {str(member.beat()["assignment"]) for _ in range(5)} == {"None"}
    c.clock.advance(2 * INTERVAL_MS)
    assert member.beat()["assignment"] is not None
    assert member.owned == held
    member.close()
