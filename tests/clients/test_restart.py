"""`kill -9` of the broker under a working group: commits stay, and the group goes on."""

from __future__ import annotations

import threading

import pytest

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, SETTLE_S, Flavour
from tests.support.admin import committed, end_offsets, produce
from tests.support.peer import Peer
from tests.support.process import wait_until

# Not sarama: it tells of failed commits later and elsewhere, so what is committed is not known.
FLAVOURS = [
    BY_NAME[name]
    for name in (
        "confluent-consumer-uniform",
        "confluent-classic-range",
        "confluent-classic-cooperative-sticky",
        "java-consumer-uniform",
        "java-classic-cooperative-sticky",
        "aiokafka-classic-range",
        "kafka_python-classic-range",
        "franz-consumer-uniform",
        "franz-classic-cooperative-sticky",
        "kafkajs-classic-roundrobin",
        "platformatic-consumer-uniform",
    )
]
every_flavour = pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)
RECOVER_S = 60.0


@pytest.mark.crash
@every_flavour
def test_a_live_group_goes_on_after_the_broker_was_killed(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 2, "b": 4})
    group = make_group(flavour)
    process = group.spawn(counts, members=2, commit="each")
    group.wait_covered(counts, [0, 1])
    before = produce(peer.bootstrap, counts, 3000)
    writer = threading.Thread(target=produce, args=(peer.bootstrap, counts, 3000))
    writer.start()
    wait_until(lambda: group.acknowledged, SETTLE_S, "a first commit", group.describe)

    peer.kill()
    acknowledged = dict(group.acknowledged)
    seen_before = len(group.seen())
    peer.restart()
    writer.join(90)
    assert not writer.is_alive()
    ends = end_offsets(peer.bootstrap, counts)
    everything = {(topic, part, at) for (topic, part), end in ends.items() for at in range(end)}
    assert before <= everything
    group.wait_seen(everything, RECOVER_S)
    group.wait_committed(ends, RECOVER_S)

    # Nothing that was acknowledged as committed comes again.
    assert seen_before > 0
    again = {place for place in group.twice() if place[2] < acknowledged.get(place[:2], 0)}
    assert again == set()
    group.stop(process)
    assert committed(peer.bootstrap, group.group_id, counts) == ends


@pytest.mark.crash
@every_flavour
def test_a_new_member_starts_at_the_commits_from_before_the_kill(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 3})
    group = make_group(flavour)
    process = group.spawn(counts, commit="each")
    produce(peer.bootstrap, counts, 300)
    ends = end_offsets(peer.bootstrap, counts)
    group.wait_committed(ends, RECOVER_S)

    peer.kill()
    group.kill(process, [0])
    peer.restart()
    assert committed(peer.bootstrap, group.group_id, counts) == ends

    later = produce(peer.bootstrap, counts, 90)
    group.spawn(counts, commit="each")
    group.wait_seen(later, RECOVER_S)
    assert sorted(group.members[1].seen) == sorted(later)
