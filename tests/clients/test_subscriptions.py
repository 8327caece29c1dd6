"""Subscriptions by pattern, topics that grow or appear, and static members that come back."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, MOVE_S, ONE_CHANGE_AT_A_TIME, Flavour
from tests.support.admin import create_topics, produce
from tests.support.peer import Peer
from tests.support.process import ChildProcess

PATTERN_FLAVOURS = [
    BY_NAME[name]
    for name in (
        "confluent-classic-range",
        "java-consumer-uniform",
        "java-classic-range",
        "aiokafka-classic-range",
        "kafka_python-classic-range",
        "franz-consumer-uniform",
        "franz-classic-range",
        "kafkajs-classic-roundrobin",
    )
]
STATIC_FLAVOURS = [
    BY_NAME[name]
    for name in (
        "confluent-consumer-uniform",
        "confluent-classic-range",
        "java-consumer-uniform",
        "java-classic-range",
        "aiokafka-classic-range",
        "kafka_python-classic-range",
        "franz-consumer-uniform",
        "franz-classic-range",
        "sarama-classic-range",
        "platformatic-classic-roundrobin",
    )
]
GROW_FLAVOURS = [
    BY_NAME["confluent-consumer-uniform"],
    *(one for one in PATTERN_FLAVOURS if one.client not in ONE_CHANGE_AT_A_TIME),
    BY_NAME["sarama-classic-range"],
]
# Left out is what a client cannot do against any broker, Apache Kafka included. @platformatic/kafka
# does not notice growth (with the consumer protocol it crashes on a partition that its cached
# metadata lacks), and as a static member of the consumer protocol it leaves for good (epoch -1).
# kafkajs resolves a pattern once; kafka-python may hang when its topics change.
PATTERN_ONCE = ("kafkajs", *ONE_CHANGE_AT_A_TIME)


def named(flavour: Flavour) -> str:
    return flavour.name


@pytest.mark.parametrize("flavour", PATTERN_FLAVOURS, ids=named)
def test_a_pattern_covers_topics_that_are_there_and_those_that_come_later(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, unique: str, flavour: Flavour
) -> None:
    counts = topics({"re-a": 2, "re-b": 2})
    topics({"other": 2})
    group = make_group(flavour)
    group.spawn(f"^re-[ab]-{unique}.*", members=2)
    group.wait_covered(counts, [0, 1])

    if flavour.protocol == "consumer" or flavour.client in PATTERN_ONCE:
        return  # The broker resolves patterns again after minutes: a unit test's matter.
    late = {f"re-a-{unique}-late": 2}
    create_topics(peer.bootstrap, late)
    group.wait_covered({**counts, **late}, [0, 1])


@pytest.mark.parametrize("flavour", GROW_FLAVOURS, ids=named)
def test_new_partitions_of_a_subscribed_topic_are_assigned(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"grows": 2})
    (name,) = counts
    group = make_group(flavour)
    group.spawn(counts, members=2)
    group.wait_covered(counts, [0, 1])
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(name, 6)])[name].result()
    group.wait_covered({name: 6}, [0, 1])
    group.wait_seen(produce(peer.bootstrap, {name: 6}, 60))


@pytest.mark.parametrize("flavour", STATIC_FLAVOURS, ids=named)
def test_a_static_member_that_comes_back_gets_its_partitions_and_disturbs_nobody(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 6})
    group = make_group(flavour)
    group.spawn(counts, commit="each", instance_prefix="static-")
    # One by one: franz-go's static members do not leave, so its group starts anew with who stayed.
    # That one keeps the first partitions, which are its own again if it was here first.
    group.wait_covered(counts, [0])
    returns = group.spawn(counts, commit="each", instance_prefix="static-")
    group.wait_covered(counts, [0, 1])
    kept, had = set(group.members[0].owned), set(group.members[1].owned)

    if flavour.protocol == "classic":
        group.kill(returns, [1])
    else:
        group.stop(returns)  # A killed one keeps its instance id until its session ends.
    group.spawn(counts, commit="each", instance_prefix="static-", first=1)
    group.wait_covered(counts, [0, 1], MOVE_S)
    assert group.members[0].owned == kept
    assert group.members[1].owned == had
    group.wait_seen(produce(peer.bootstrap, counts, 60))


@pytest.mark.parametrize(
    ("stays", "dies"),
    [
        (
            "confluent-classic-range",
            ["confluent-classic-range", "java-classic-range", "aiokafka-classic-range"],
        ),
        ("confluent-consumer-uniform", ["confluent-consumer-uniform", "java-consumer-uniform"]),
    ],
    ids=["classic", "consumer"],
)
def test_static_members_that_come_back_after_their_session_start_anew(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, stays: str, dies: list[str]
) -> None:
    counts = topics({"a": 6})
    group = make_group(BY_NAME[stays])
    group.spawn(counts, commit="each", instance_prefix="static-")
    numbers = range(1, 1 + len(dies))

    def spawn(number: int) -> ChildProcess:
        flavour = BY_NAME[dies[number - 1]]
        return group.spawn(
            counts, commit="each", instance_prefix="static-", first=number, flavour=flavour
        )

    processes = {number: spawn(number) for number in numbers}
    group.wait_covered(counts, [0, *numbers])
    for number, process in processes.items():
        group.kill(process, [number])
    group.wait_covered(counts, [0], MOVE_S)
    group.wait_seen(produce(peer.bootstrap, counts, 60))
    for number in numbers:
        spawn(number)
    group.wait_covered(counts, [0, *numbers], MOVE_S)
    later = produce(peer.bootstrap, counts, 60)
    group.wait_seen(later)
    assert group.twice() & later == set()
