"""The consumer protocol and a revoke callback that takes its time: the joiner waits, but not longer
than the rebalance timeout."""

from __future__ import annotations

import pytest

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, SETTLE_S, Flavour, Group, Move
from tests.support.daemon import Daemon
from tests.support.peer import Peer
from tests.support.process import wait_until
from tests.support.raw_member import admin_json

FLAVOURS = [BY_NAME[f"{client}-consumer-uniform"] for client in ("confluent", "java")]
every_flavour = pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.client)
BLOCK_MS, POLL_INTERVAL_MS = 2_000, 60_000
TIMEOUT_MS = 3_000


@pytest.fixture
def groupd(peer: Peer) -> Daemon:
    """The peer, if it is groupd: the tests look at its admin port."""
    if not isinstance(peer, Daemon):
        pytest.skip("looks at groupd's admin port")
    return peer


def moved(group: Group, member: int, kind: str) -> list[Move]:
    return [move for move in group.moves if (move.member, move.kind) == (member, kind)]


def ended(groupd: Daemon, group: Group) -> str:
    """The cause for which the first member went. Java's own timer runs as long as the broker's."""
    found: list[str] = []

    def look() -> bool:
        events = admin_json(groupd, f"/groups/{group.group_id}/events")
        found.extend(e["cause"] for e in events if e["event"] in ("member-fenced", "member-left"))
        return bool(found)

    wait_until(look, SETTLE_S, "the slow member is out", group.describe)
    return found[0]


@every_flavour
def test_a_joiner_waits_for_a_slow_revocation(
    groupd: Daemon, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 4})
    group = make_group(flavour)
    group.spawn(counts, max_poll_interval_ms=POLL_INTERVAL_MS, revoke_block_ms=BLOCK_MS)
    group.wait_covered(counts, [0])
    group.spawn(counts)
    wait_until(
        lambda: (admin_json(groupd, f"/groups/{group.group_id}") or {}).get("blocked"),
        SETTLE_S,
        "a blocked member is shown",
        group.describe,
    )
    group.wait_covered(counts, [0, 1])
    (released,) = [move for move in moved(group, 0, "revoked") if move.partitions]
    given = [move for move in moved(group, 1, "assigned") if move.partitions]
    assert len(released.partitions) == 2
    assert all(move.at > released.at for move in given)
    assert group.losses() == []
    shown = admin_json(groupd, f"/groups/{group.group_id}/events")
    assert [event for event in shown if event["event"] == "member-fenced"] == []


@every_flavour
def test_a_revocation_beyond_the_rebalance_timeout_is_fenced(
    groupd: Daemon, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    # max.poll.interval.ms is the rebalance timeout that clients ask for.
    counts = topics({"a": 4})
    everything = {(name, part) for name, count in counts.items() for part in range(count)}
    group = make_group(flavour)
    group.spawn(counts, max_poll_interval_ms=TIMEOUT_MS, revoke_block_ms=2 * TIMEOUT_MS)
    group.wait_covered(counts, [0])
    group.spawn(counts)
    cause = ended(groupd, group)
    own_timer = flavour.client == "java" and cause == "the member asked to leave"
    assert cause == f"partitions not revoked within {TIMEOUT_MS} ms" or own_timer
    group.wait_covered_exactly({1: everything})
    # It comes back once its callback has returned.
    group.wait_covered(counts, [0, 1])
