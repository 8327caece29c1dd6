"""What the Java consumer does when the group changes under it: commits during rebalances, sessions
that end unnoticed, topics that come and go under its pattern. (A coordinator that dies:
test_restart.)"""

from __future__ import annotations

import signal

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, MOVE_S, SETTLE_S
from tests.clients.load import Load
from tests.clients.timeline import Timeline
from tests.support.admin import committed, create_topics, end_offsets, produce
from tests.support.peer import Peer
from tests.support.process import wait_until

PARTITIONS = 6
KINDS = ["classic-range", "classic-cooperative-sticky", "consumer-uniform"]


@pytest.mark.parametrize("kind", KINDS)
def test_auto_commit_keeps_up_with_rebalances(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, kind: str
) -> None:
    """Before partitions are given back, their offsets are committed: nothing is lost, and nothing
    comes twice, except with the cooperative assignor, where clients read on while they join
    again."""
    (topic,) = counts = topics({"auto": PARTITIONS})
    group = make_group(BY_NAME[f"java-{kind}"])
    java = group.spawn(counts, members=2, commit="auto")
    group.wait_covered(counts, [0, 1])
    load = Load(peer.bootstrap, topic, PARTITIONS)
    try:
        wait_until(lambda: len(group.polled) > PARTITIONS, SETTLE_S, "records flow", group.describe)
        third = group.spawn(counts, commit="auto", flavour=BY_NAME[f"confluent-{kind}"])
        group.wait_covered(counts, [0, 1, 2])
        group.leave(java, 1)
        group.wait_covered(counts, [0, 2])
        group.leave(third, 2)
        group.wait_covered(counts, [0])
    finally:
        load.stop()
    group.wait_seen(load.written)
    group.stop(java)
    line = Timeline.of(group)
    assert group.errors == []
    assert line.double_owners() == []
    assert line.strangers() == []
    assert group.twice() == set() or "cooperative" in kind
    assert committed(peer.bootstrap, group.group_id, counts) == end_offsets(peer.bootstrap, counts)


@pytest.mark.parametrize("kind", ["classic-range", "consumer-uniform"])
def test_a_consumer_that_slept_through_its_session_joins_again(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, kind: str
) -> None:
    """Its heartbeat gets UNKNOWN_MEMBER_ID; another member has its partitions meanwhile."""
    counts = topics({"sleeps": PARTITIONS})
    group = make_group(BY_NAME[f"java-{kind}"])
    sleeper = group.spawn(counts, commit="each")
    group.spawn(counts, commit="each", flavour=BY_NAME[f"confluent-{kind}"])
    group.wait_covered(counts, [0, 1])
    # A consumer that has yet to ask for its offsets would be told there, and its poll raises that.
    group.wait_seen(produce(peer.bootstrap, counts, 60))
    sleeper.send_signal(signal.SIGSTOP)
    try:
        group.wait_covered(counts, [1], MOVE_S)
        meanwhile = produce(peer.bootstrap, counts, 60)
        group.wait_seen(meanwhile)
    finally:
        sleeper.send_signal(signal.SIGCONT)
    wait_until(
        lambda: any(move.kind == "lost" and move.member == 0 for move in group.moves),
        MOVE_S,
        "the sleeper hears of its loss",
        group.describe,
    )
    group.wait_covered(counts, [0, 1], MOVE_S)
    later = produce(peer.bootstrap, counts, 60)
    group.wait_seen(later)
    assert group.twice() & later == set()
    assert set(group.members[1].seen) >= meanwhile
    assert set(group.members[0].seen) & later


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
def test_topics_come_and_go_under_a_pattern(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, unique: str, assignor: str
) -> None:
    counts = topics({"re-a": 2, "re-b": 2})
    gone = f"re-b-{unique}"
    group = make_group(BY_NAME[f"java-classic-{assignor}"])
    group.spawn(f"re-.*{unique}.*", members=2, commit="each")
    group.wait_covered(counts, [0, 1])
    late = {f"re-c-{unique}": 4}
    create_topics(peer.bootstrap, late)
    group.wait_covered({**counts, **late}, [0, 1])
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    admin.delete_topics([gone])[gone].result()
    left = {name: count for name, count in {**counts, **late}.items() if name != gone}
    group.wait_covered(left, [0, 1])
    group.wait_seen(produce(peer.bootstrap, left, 60))
