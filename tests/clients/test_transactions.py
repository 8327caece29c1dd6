"""Transactions of librdkafka: all or nothing, offsets inside them, zombies, timeouts, kills."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.clients.conftest import TopicMaker
from tests.support.daemon import Daemon
from tests.support.peer import Peer, running
from tests.support.process import wait_until

TIMEOUT_S = 20.0
PARTITIONS = 3


def transactional(bootstrap: str, name: str, timeout_ms: int = 60_000) -> Producer:
    """A producer that has fenced every earlier one of the same name."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": timeout_ms,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def consumer(bootstrap: str, group: str, isolation: str = "read_committed") -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )


def send(producer: Producer, topic: str, values: range, partitions: int = PARTITIONS) -> None:
    for number in values:
        producer.produce(topic, str(number).encode(), partition=number % partitions)


def readable(bootstrap: str, topic: str, isolation: str, partitions: int = PARTITIONS) -> list[int]:
    """Every record up to the ends that this isolation level is told of, as numbers."""
    return sorted(int(value) for value in read_all(bootstrap, topic, isolation, partitions))


def readable_count(bootstrap: str, topic: str, isolation: str) -> int:
    return len(read_all(bootstrap, topic, isolation, PARTITIONS))


def read_all(bootstrap: str, topic: str, isolation: str, partitions: int) -> list[bytes]:
    reader = consumer(bootstrap, "reader", isolation)
    try:
        ends = {}
        for part in range(partitions):
            _, ends[part] = reader.get_watermark_offsets(TopicPartition(topic, part), TIMEOUT_S)
        reader.assign([TopicPartition(topic, part, 0) for part in range(partitions)])
        found: list[bytes] = []

        def at_the_ends() -> bool:
            for message in reader.consume(500, 0.2):
                assert message.error() is None, message.error()
                found.append(message.value())
            at = {place.partition: place.offset for place in reader.position(reader.assignment())}
            return all(end == 0 or at[part] >= end for part, end in ends.items())

        wait_until(at_the_ends, TIMEOUT_S, f"{isolation} reader at {ends}", lambda: repr(found))
        return found
    finally:
        reader.close()


def committed(bootstrap: str, group: str, topic: str) -> list[int]:
    reader = consumer(bootstrap, group)
    try:
        places = [TopicPartition(topic, part) for part in range(PARTITIONS)]
        return [place.offset for place in reader.committed(places, TIMEOUT_S)]
    finally:
        reader.close()


# All or nothing -----------------------------------------------------------------------------


def test_committed_records_are_seen_and_aborted_ones_are_not(
    peer: Peer, topics: TopicMaker, unique: str
) -> None:
    (topic,) = topics({"t": PARTITIONS})
    producer = transactional(peer.bootstrap, f"x-{unique}")
    for first, commit in ((0, True), (100, False), (200, True), (300, False)):
        producer.begin_transaction()
        send(producer, topic, range(first, first + 100))
        if commit:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
    wanted = [*range(100), *range(200, 300)]
    assert readable(peer.bootstrap, topic, "read_committed") == wanted
    assert readable(peer.bootstrap, topic, "read_uncommitted") == list(range(400))


def test_an_open_transaction_holds_back_what_follows(
    peer: Peer, topics: TopicMaker, unique: str
) -> None:
    (topic,) = topics({"t": 1})
    first = transactional(peer.bootstrap, f"a-{unique}")
    first.begin_transaction()
    send(first, topic, range(3), 1)
    first.flush(TIMEOUT_S)
    second = transactional(peer.bootstrap, f"b-{unique}")
    second.begin_transaction()
    send(second, topic, range(3, 6), 1)
    second.commit_transaction(TIMEOUT_S)
    reader = consumer(peer.bootstrap, f"r-{unique}")
    reader.assign([TopicPartition(topic, 0, 0)])
    assert reader.consume(10, 1.0) == []
    first.commit_transaction(TIMEOUT_S)
    assert [int(found.value()) for found in reader.consume(6, TIMEOUT_S)] == list(range(6))
    reader.close()


# Offsets in transactions --------------------------------------------------------------------


def test_offsets_are_committed_with_the_transaction(
    peer: Peer, topics: TopicMaker, unique: str
) -> None:
    source, target = topics({"in": PARTITIONS, "out": PARTITIONS})
    plain = Producer({"bootstrap.servers": peer.bootstrap})
    send(plain, source, range(90))
    assert plain.flush(TIMEOUT_S) == 0
    group = f"g-{unique}"
    reader = consumer(peer.bootstrap, group)
    reader.subscribe([source])
    producer = transactional(peer.bootstrap, f"x-{unique}")
    done, aborted = 0, False
    until = time.monotonic() + 60
    while done < 90:
        assert time.monotonic() < until, f"{done} of 90"
        messages = reader.consume(20, 1.0)
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            assert message.error() is None, message.error()
            producer.produce(target, message.value(), partition=message.partition())
        producer.send_offsets_to_transaction(
            reader.position(reader.assignment()), reader.consumer_group_metadata(), TIMEOUT_S
        )
        if not aborted and done >= 20:
            # Nothing of this one counts: back to what is committed.
            aborted = True
            producer.abort_transaction(TIMEOUT_S)
            for place in reader.committed(reader.assignment(), TIMEOUT_S):
                reader.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))
            continue
        producer.commit_transaction(TIMEOUT_S)
        done += len(messages)
    reader.close()
    assert aborted
    assert readable(peer.bootstrap, target, "read_committed") == list(range(90))
    assert committed(peer.bootstrap, group, source) == [30, 30, 30]


# Zombies ------------------------------------------------------------------------------------


def test_a_second_producer_of_the_same_name_fences_the_first(
    peer: Peer, topics: TopicMaker, unique: str
) -> None:
    (topic,) = topics({"t": PARTITIONS})
    old = transactional(peer.bootstrap, f"x-{unique}")
    old.begin_transaction()
    send(old, topic, range(10))
    old.flush(TIMEOUT_S)
    new = transactional(peer.bootstrap, f"x-{unique}")
    with pytest.raises(KafkaException) as raised:
        old.commit_transaction(TIMEOUT_S)
    assert raised.value.args[0].fatal()
    assert raised.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    new.begin_transaction()
    send(new, topic, range(10, 20))
    new.commit_transaction(TIMEOUT_S)
    assert readable(peer.bootstrap, topic, "read_committed") == list(range(10, 20))


# Restarts and timeouts ----------------------------------------------------------------------


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(
        Daemon(
            tmp_path_factory.mktemp("daemon"),
            topics={"t": PARTITIONS},
            settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"},
        )
    ) as made:
        yield made


def test_transactions_survive_kills(daemon: Daemon) -> None:
    """The open one goes on after the restart, the acknowledged ones are there."""
    producer = transactional(daemon.bootstrap, "x")
    for round_ in range(2):
        producer.begin_transaction()
        send(producer, "t", range(20 * round_, 20 * round_ + 10))
        producer.flush(TIMEOUT_S)
        daemon.restart()
        send(producer, "t", range(20 * round_ + 10, 20 * round_ + 20))
        producer.commit_transaction(TIMEOUT_S)
    daemon.restart()
    assert readable(daemon.bootstrap, "t", "read_committed") == list(range(40))


def test_a_transaction_that_is_left_open_is_aborted(daemon: Daemon) -> None:
    left = transactional(daemon.bootstrap, "left", timeout_ms=1_000)
    left.begin_transaction()
    send(left, "t", range(3))
    left.flush(TIMEOUT_S)
    other = transactional(daemon.bootstrap, "other")
    other.begin_transaction()
    send(other, "t", range(3, 6))
    other.commit_transaction(TIMEOUT_S)
    wait_until(
        lambda: readable(daemon.bootstrap, "t", "read_committed") == [3, 4, 5],
        TIMEOUT_S,
        "the abort",
        daemon.logs,
    )
    with pytest.raises(KafkaException):
        left.commit_transaction(TIMEOUT_S)
