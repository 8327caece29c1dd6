"""Offsets in transactions: what stable and committed readers get, also of `__consumer_offsets`."""

from __future__ import annotations

import struct
import time
from itertools import cycle

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from groupd.coordinator.core.partitioning import partition_for
from tests.clients.conftest import TopicMaker
from tests.support.peer import Peer

WAIT_S = 30.0
OFFSETS = "__consumer_offsets"


def make_producer(peer: Peer, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
        }
    )
    producer.init_transactions(WAIT_S)
    return producer


def make_consumer(peer: Peer, group: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )


def messages(peer: Peer, topic: str, isolation: str, partition: int = 0) -> list[Message]:
    """All that such a reader gets of a partition up to its end."""
    consumer = make_consumer(peer, "reader", isolation)
    found: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"no end of {topic}"
            if message.error() is None:
                found.append(message)
                continue
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            return found
    finally:
        consumer.close()


def values(peer: Peer, topic: str) -> list[bytes]:
    return [message.value() for message in messages(peer, topic, "read_committed")]


def stable_offset(peer: Peer, group: str, topic: str) -> TopicPartition:
    """The group's offset of partition 0, for a reader that does not want to miss any."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    found = admin.list_consumer_group_offsets([asked], require_stable=True)[group]
    place: TopicPartition = found.result(WAIT_S).topic_partitions[0]
    return place


def send(producer: Producer, topic: str, *texts: bytes) -> None:
    for text in texts:
        producer.produce(topic, text, partition=0)


def test_a_consumer_that_waits_gets_what_is_committed(
    peer: Peer, topics: TopicMaker, unique: str
) -> None:
    (topic,) = topics({"t": 1})
    producer = make_producer(peer, f"tx-{unique}")
    consumer = make_consumer(peer, f"g-{unique}")
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        end = consumer.poll(WAIT_S)
        assert end is not None
        assert end.error().code() == KafkaError._PARTITION_EOF
        producer.begin_transaction()
        send(producer, topic, b"a")
        producer.commit_transaction(WAIT_S)
        message = consumer.poll(WAIT_S)
        assert message is not None
        assert message.value() == b"a"
    finally:
        consumer.close()


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_in_a_transaction(
    peer: Peer, topics: TopicMaker, unique: str, commit: bool
) -> None:
    source, target = topics({"in": 1, "out": 1})
    plain = Producer({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    send(plain, source, b"1", b"2", b"3")
    plain.flush(WAIT_S)
    group = f"g-{unique}"
    consumer = make_consumer(peer, group)
    producer = make_producer(peer, f"tx-{unique}")
    try:
        consumer.subscribe([source])
        producer.begin_transaction()
        taken = 0
        while taken < 3:
            message = consumer.poll(WAIT_S)
            assert message is not None
            if message.error() is None:
                producer.produce(target, b"x" + message.value(), partition=0)
                taken += 1
        position = consumer.position(consumer.assignment())
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(position, metadata, WAIT_S)
        if commit:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
    finally:
        consumer.close()
    assert values(peer, target) == ([b"x1", b"x2", b"x3"] if commit else [])
    assert stable_offset(peer, group, source).offset == (3 if commit else -1001)


async def test_aiokafka(peer: Peer, topics: TopicMaker, unique: str) -> None:
    """Transaction version 1: partitions and offsets are added by requests of their own."""
    (topic,) = topics({"t": 1})
    group, place = f"g-{unique}", AioTopicPartition(topic, 0)
    producer = AIOKafkaProducer(bootstrap_servers=peer.bootstrap, transactional_id=f"tx-{unique}")
    await producer.start()
    try:
        async with producer.transaction():
            await producer.send_and_wait(topic, b"a", partition=0)
            await producer.send_offsets_to_transaction({place: 7}, group)
        await producer.begin_transaction()
        await producer.send_and_wait(topic, b"b", partition=0)
        await producer.send_offsets_to_transaction({place: 8}, group)
        await producer.abort_transaction()
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=peer.bootstrap, group_id=group, isolation_level="read_committed"
    )
    await consumer.start()
    try:
        consumer.assign([place])
        assert await consumer.committed(place) == 7
        assert (await consumer.end_offsets([place]))[place] == 4
        consumer.seek(place, 0)
        message = await consumer.getone()
        assert message.value == b"a"
    finally:
        await consumer.stop()
    assert values(peer, topic) == [b"a"]


def test_the_offsets_topic_shows_transactions(peer: Peer, topics: TopicMaker, unique: str) -> None:
    """`__consumer_offsets` is read with isolation levels like any other topic."""
    (topic,) = topics({"t": 1})
    group = f"g-{unique}"
    producer, consumer = make_producer(peer, f"tx-{unique}"), make_consumer(peer, group)
    metadata = consumer.consumer_group_metadata()
    for offset in (7, 8, 9):
        producer.begin_transaction()
        place = TopicPartition(topic, 0, offset)
        producer.send_offsets_to_transaction([place], metadata, WAIT_S)
        if offset == 7:
            producer.commit_transaction(WAIT_S)
        elif offset == 8:
            producer.abort_transaction(WAIT_S)
    assert offset_records(peer, group, "read_uncommitted") == [7, 8, 9]
    assert offset_records(peer, group, "read_committed") == [7]
    unstable = stable_offset(peer, group, topic).error
    assert unstable is not None
    assert unstable.code() == KafkaError.UNSTABLE_OFFSET_COMMIT
    producer.abort_transaction(WAIT_S)
    assert stable_offset(peer, group, topic).offset == 7
    consumer.close()


def offset_records(peer: Peer, group: str, isolation: str) -> list[int]:
    """The offsets in the records of a group, as such a reader of its partition sees them."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    count = len(admin.list_topics(OFFSETS, WAIT_S).topics[OFFSETS].partitions)
    found = []
    for message in messages(peer, OFFSETS, isolation, partition_for(group, count)):
        _, length = struct.unpack_from(">hh", message.key())
        if message.key()[4 : 4 + length] == group.encode():
            found.append(struct.unpack_from(">hq", message.value())[1])
    return found


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_librdkafka_resets_what_a_transaction_holds_back_when_it_gets_another_partition(
    peer: Peer, topics: TopicMaker, unique: str, protocol: str
) -> None:
    """A fault of librdkafka 2.16 with every broker; docs/clients.md says how to live with it. If
    this fails, the fault is mended, and what is said there is no longer true."""
    held, other = topics({"held": 1, "other": 1})
    group, deadline = f"held-{unique}", time.monotonic() + WAIT_S
    plain = make_consumer(peer, group)
    plain.commit(offsets=[TopicPartition(held, 0, 0)], asynchronous=False)
    producer = make_producer(peer, f"tx-{unique}")
    producer.begin_transaction()
    send(producer, held, b"a", b"b")
    producer.send_offsets_to_transaction(
        [TopicPartition(held, 0, 1)], plain.consumer_group_metadata(), WAIT_S
    )
    config: dict[str, str | bool | int] = {
        "bootstrap.servers": peer.bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "error",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    if protocol == "classic":
        config["partition.assignment.strategy"] = "cooperative-sticky"
    consumer = Consumer(config)
    told: Message | None = None
    try:
        # It must ask for its offset while it gets or loses another partition.
        for subscription in cycle([[held], [held, other]]):
            consumer.subscribe(subscription)
            told = consumer.poll(1.0)
            if told is not None or time.monotonic() > deadline:
                break
        assert told is not None
        assert (told.topic(), told.error().code()) == (held, KafkaError._AUTO_OFFSET_RESET)
    finally:
        consumer.close()
    producer.commit_transaction(WAIT_S)
    consumer = Consumer(config)
    try:
        consumer.subscribe([held])
        read = consumer.poll(WAIT_S)
        assert read is not None
        assert (read.error(), read.offset(), read.value()) == (None, 1, b"b")
    finally:
        consumer.close()
        plain.close()
