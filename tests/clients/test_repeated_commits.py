"""Real clients commit the same partitions again and again: the last commit is what is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition

from tests.clients.conftest import TopicMaker
from tests.support.peer import Peer

WAIT_S = 30.0
PARTITIONS = 3
ROUNDS = 12


def offsets_of(round_: int) -> list[int]:
    """By partition: forward, back, and the same again."""
    return [round_, 1000 - round_, 7]


def with_confluent(bootstrap: str, group: str, topic: str, protocol: str) -> list[int]:
    """What another member reads afterwards."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "log_level": 0,
    }
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([topic])
    while len(consumer.assignment()) < PARTITIONS:
        consumer.poll(0.1)
    for round_ in range(ROUNDS):
        places = [
            confluent_kafka.TopicPartition(topic, partition, offset)
            for partition, offset in enumerate(offsets_of(round_))
        ]
        consumer.commit(offsets=places, asynchronous=False)
    found = consumer.committed(
        [confluent_kafka.TopicPartition(topic, p) for p in range(PARTITIONS)], WAIT_S
    )
    consumer.close()
    return [place.offset for place in found]


def with_confluent_classic(bootstrap: str, group: str, topic: str) -> list[int]:
    return with_confluent(bootstrap, group, topic, "classic")


def with_confluent_consumer(bootstrap: str, group: str, topic: str) -> list[int]:
    return with_confluent(bootstrap, group, topic, "consumer")


def with_kafka_python(bootstrap: str, group: str, topic: str) -> list[int]:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
    )
    while len(consumer.assignment()) < PARTITIONS:
        consumer.poll(100)
    places = [kafka.TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    for round_ in range(ROUNDS):
        consumer.commit(
            {
                place: kafka.OffsetAndMetadata(offset, "", -1)
                for place, offset in zip(places, offsets_of(round_), strict=True)
            }
        )
    found = [consumer.committed(place) for place in places]
    consumer.close()
    return found


def with_aiokafka(bootstrap: str, group: str, topic: str) -> list[int]:
    async def commit() -> list[int]:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False
        )
        await consumer.start()
        while len(consumer.assignment()) < PARTITIONS:
            await consumer.getmany(timeout_ms=100)
        places = [AioTopicPartition(topic, partition) for partition in range(PARTITIONS)]
        for round_ in range(ROUNDS):
            await consumer.commit(dict(zip(places, offsets_of(round_), strict=True)))
        found = [await consumer.committed(place) for place in places]
        await consumer.stop()
        return found

    return asyncio.run(commit())


CLIENTS = (with_confluent_classic, with_confluent_consumer, with_kafka_python, with_aiokafka)


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__[5:])
def test_commits_of_the_same_partitions(
    peer: Peer,
    topics: TopicMaker,
    unique: str,
    client: Callable[[str, str, str], list[int]],
) -> None:
    (topic,) = topics({"t": PARTITIONS})
    found = client(peer.bootstrap, f"g-{unique}", topic)
    assert found == offsets_of(ROUNDS - 1)
