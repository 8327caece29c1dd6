"""The consumer protocol with real clients when things go less than smoothly: subscriptions that
change, instances that clash, clients that freeze."""

from __future__ import annotations

import signal

import pytest

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, SETTLE_S, Flavour, Group, Move
from tests.support.admin import produce
from tests.support.daemon import Daemon
from tests.support.peer import Peer
from tests.support.process import wait_until
from tests.support.raw_member import wait_for_events

FLAVOURS = [BY_NAME[f"{client}-consumer-uniform"] for client in ("confluent", "java")]
every_flavour = pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.client)


@pytest.fixture
def groupd(peer: Peer) -> Daemon:
    """The peer, for a test that looks at its admin port."""
    if not isinstance(peer, Daemon):
        pytest.skip("looks at groupd's admin port")
    return peer


def moved(group: Group, member: int, kind: str) -> list[Move]:
    return [move for move in group.moves if (move.member, move.kind) == (member, kind)]


@every_flavour
def test_a_subscription_that_changes_after_joining(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 4, "b": 2})
    first, second = sorted(counts)
    group = make_group(flavour)
    process = group.spawn({first: 4}, members=2)
    group.wait_covered({first: 4}, [0, 1])

    # Only one of them wants the other topic, too.
    process.write_line(f"subscribe 1 {first},{second}")
    wait_until(
        lambda: {(second, 0), (second, 1)} <= group.members[1].owned,
        SETTLE_S,
        "the new topic",
        group.describe,
    )
    wait_until(
        lambda: len(group.members[0].owned | group.members[1].owned) == 6,
        SETTLE_S,
        "both topics covered",
        group.describe,
    )
    # And now only that one: the first topic is the other member's.
    process.write_line(f"subscribe 1 {second}")
    group.wait_covered_exactly({0: {(first, part) for part in range(4)}})
    group.wait_covered_exactly({1: {(second, 0), (second, 1)}})
    group.wait_seen(produce(peer.bootstrap, counts, 60))
    assert group.errors == []


@every_flavour
def test_a_second_consumer_with_a_live_instance_id_is_refused(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 4})
    group = make_group(flavour)
    group.spawn(counts, instance_prefix="same-")
    group.wait_covered(counts, [0])
    clashing = make_group(flavour)
    clashing.group_id = group.group_id
    process = clashing.spawn(counts, instance_prefix="same-")
    wait_until(lambda: clashing.errors, SETTLE_S, "the second one fails", clashing.describe)
    shown = " ".join(clashing.errors).lower().replace("_", "").replace(" ", "")
    assert "unreleasedinstanceid" in shown or "stillused" in shown, clashing.errors
    assert clashing.members[0].owned == set()

    # The first one has not noticed anything.
    group.wait_seen(produce(peer.bootstrap, counts, 40))
    assert len(moved(group, 0, "assigned")) == 1
    assert moved(group, 0, "revoked") == moved(group, 0, "lost") == []
    assert group.errors == []
    process.kill()


@every_flavour
def test_a_frozen_client_loses_its_session_and_comes_back(
    groupd: Daemon, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 4})
    group = make_group(flavour)
    group.spawn(counts)
    freezes = group.spawn(counts)
    group.wait_covered(counts, [0, 1])
    # A consumer that has yet to ask for its offsets would be told there, and its poll raises that.
    group.wait_seen(produce(groupd.bootstrap, counts, 40))
    freezes.send_signal(signal.SIGSTOP)
    try:
        (event,) = wait_for_events(groupd, group.group_id, "member-fenced")
        assert event["cause"] == "no heartbeat within the session timeout"
        everything = {(name, part) for name, count in counts.items() for part in range(count)}
        group.wait_covered_exactly({0: everything})
    finally:
        freezes.send_signal(signal.SIGCONT)
    group.wait_covered(counts, [0, 1])
    assert moved(group, 1, "lost"), group.moves
    group.wait_seen(produce(groupd.bootstrap, counts, 40))
