"""Transactional producers and read_committed consumers of librdkafka and aiokafka.

Offsets in transactions, fencing of zombies, transactions that time out, and what an operator sees
of them in `__consumer_offsets`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import TopicMaker
from tests.support.peer import Peer, make_peer

WAIT_S = 30.0
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """As elsewhere, but it looks for transactions that time out all the time."""
    started = make_peer(tmp_path_factory.mktemp("peer"), settings=SETTINGS)
    try:
        started.start()
        yield started
        started.stop()
    finally:
        started.close()


def make_producer(peer: Peer, transactional_id: str, **settings: object) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
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


def values(peer: Peer, topic: str, isolation: str = "read_committed") -> list[bytes]:
    """All that such a reader gets from partition 0 up to its end."""
    consumer = make_consumer(peer, "reader", isolation)
    found: list[bytes] = []
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, f"no end of {topic}"
            if message.error() is None:
                found.append(message.value())
                continue
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            return found
    finally:
        consumer.close()


def committed(peer: Peer, group: str, topic: str) -> int:
    """The group's offset of partition 0, as a reader that waits for open transactions gets it."""
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0)])
    found = admin.list_consumer_group_offsets([asked], require_stable=True)[group]
    offset: int = found.result(WAIT_S).topic_partitions[0].offset
    return offset


def send(producer: Producer, topic: str, *texts: bytes) -> None:
    for text in texts:
        producer.produce(topic, text, partition=0)


def test_commit_and_abort(peer: Peer, topics: TopicMaker, unique: str) -> None:
    (topic,) = topics({"t": 1})
    producer = make_producer(peer, f"tx-{unique}")
    for number in range(4):
        producer.begin_transaction()
        send(producer, topic, b"%d-a" % number, b"%d-b" % number)
        producer.flush(WAIT_S)
        if number % 2:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    assert values(peer, topic) == [b"0-a", b"0-b", b"2-a", b"2-b"]
    everything = values(peer, topic, "read_uncommitted")
    assert everything == [b"%d-%s" % (n, c) for n in range(4) for c in (b"a", b"b")]


def test_an_open_transaction_is_waited_for(peer: Peer, topics: TopicMaker, unique: str) -> None:
    (topic,) = topics({"t": 1})
    producer = make_producer(peer, f"tx-{unique}")
    producer.begin_transaction()
    send(producer, topic, b"a")
    producer.flush(WAIT_S)
    plain = Producer({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    send(plain, topic, b"plain")
    plain.flush(WAIT_S)
    assert values(peer, topic) == []
    producer.commit_transaction(WAIT_S)
    assert values(peer, topic) == [b"a", b"plain"]


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
    assert committed(peer, group, source) == (3 if commit else -1001)


def test_a_zombie_is_fenced(peer: Peer, topics: TopicMaker, unique: str) -> None:
    (topic,) = topics({"t": 1})
    zombie = make_producer(peer, f"tx-{unique}")
    zombie.begin_transaction()
    send(zombie, topic, b"zombie")
    zombie.flush(WAIT_S)
    heir = make_producer(peer, f"tx-{unique}")
    heir.begin_transaction()
    send(heir, topic, b"heir")
    heir.commit_transaction(WAIT_S)
    with pytest.raises(KafkaException) as refused:
        zombie.commit_transaction(WAIT_S)
    assert refused.value.args[0].code() in (
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
    )
    assert values(peer, topic) == [b"heir"]


def test_a_transaction_that_times_out(peer: Peer, topics: TopicMaker, unique: str) -> None:
    (topic,) = topics({"t": 1})
    producer = make_producer(peer, f"tx-{unique}", transaction_timeout_ms=1000)
    producer.begin_transaction()
    send(producer, topic, b"late")
    producer.flush(WAIT_S)
    plain = Producer({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    send(plain, topic, b"plain")
    plain.flush(WAIT_S)
    deadline = time.monotonic() + WAIT_S
    while values(peer, topic) != [b"plain"]:
        assert time.monotonic() < deadline, "the transaction is still open"
        time.sleep(0.1)
    with pytest.raises(KafkaException):
        producer.commit_transaction(WAIT_S)
    assert values(peer, topic) == [b"plain"]


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


def test_transactions_survive_a_kill(tmp_path: Path) -> None:
    """An open transaction is still open after a restart, and its producer goes on with it."""
    daemon = make_peer(tmp_path, topics={"t": 1})
    if daemon.kind != "groupd":
        pytest.skip("a restart of the real broker is none of our business")
    try:
        daemon.start()
        producer = make_producer(daemon, "tx")
        producer.begin_transaction()
        send(producer, "t", b"a")
        producer.flush(WAIT_S)
        daemon.restart()
        assert values(daemon, "t") == []
        send(producer, "t", b"b")
        producer.commit_transaction(WAIT_S)
        assert values(daemon, "t") == [b"a", b"b"]
        daemon.restart()
        assert values(daemon, "t") == [b"a", b"b"]
        daemon.stop()
    finally:
        daemon.close()
