"""Preparation through librdkafka's admin client: topics, records, watermarks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.support.process import POLL_S, ChildProcess, WaitTimeout

REQUEST_TIMEOUT_S = 20.0
CREATED_AT_ONCE_MAX = 4000
"""The most partitions in one request; Kafka refuses 10,000."""
PARTITIONS_A_SECOND = 100
QUIET = {"log_level": 0, "allow.auto.create.topics": False}
T = TypeVar("T")


def retrying(call: Callable[[], T]) -> T:
    """Calls again while a broker that has just started answers with an error that passes."""
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        try:
            return call()
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)


def wait_for_broker(bootstrap: str, process: ChildProcess, timeout_s: float) -> None:
    """Waits until a broker answers Metadata with itself in it and its group coordinator has
    loaded."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    deadline = time.monotonic() + timeout_s
    while True:
        assert process.running, f"the broker ended\n{process.output()}"
        try:
            if client.list_topics(timeout=1).brokers:
                committed(bootstrap, "warm-up", {"warm-up": 1})
                return
        except KafkaException:
            time.sleep(POLL_S)
        if time.monotonic() > deadline:
            raise WaitTimeout(f"no broker within {timeout_s} s\n{process.output()}")


def create_topics(
    bootstrap: str, topics: Mapping[str, int], login: Mapping[str, Any] | None = None
) -> None:
    """Create topics and wait until their metadata is served. `login`: further settings of the
    client."""
    client = AdminClient({**(login or {}), "bootstrap.servers": bootstrap, "log_level": 0})
    new = [
        NewTopic(name, num_partitions=min(count, CREATED_AT_ONCE_MAX))
        for name, count in topics.items()
    ]
    for future in client.create_topics(new, request_timeout=REQUEST_TIMEOUT_S).values():
        future.result()
    for name, count in topics.items():
        for size in (*range(2 * CREATED_AT_ONCE_MAX, count, CREATED_AT_ONCE_MAX), count):
            if size > CREATED_AT_ONCE_MAX:
                grown = [NewPartitions(name, size)]
                for future in client.create_partitions(
                    grown, request_timeout=REQUEST_TIMEOUT_S
                ).values():
                    future.result()
    # A leader for each of thousands of partitions takes its time.
    deadline = time.monotonic() + REQUEST_TIMEOUT_S + sum(topics.values()) / PARTITIONS_A_SECOND
    while True:
        known = client.list_topics(timeout=5).topics
        ready = {
            name
            for name, count in topics.items()
            if name in known
            and known[name].error is None
            and len(known[name].partitions) == count
            and all(part.leader >= 0 for part in known[name].partitions.values())
        }
        if len(ready) == len(topics):
            return
        if time.monotonic() > deadline:
            raise WaitTimeout(f"topics not ready: {sorted(set(topics) - ready)}")
        time.sleep(POLL_S)


def broker_ids(bootstrap: str) -> list[int]:
    """The ids of the brokers of a cluster, in order."""
    return sorted(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).brokers)


def leader(bootstrap: str, topic: str, partition: int = 0) -> int:
    """The id of the broker that leads a partition."""
    found = AdminClient({"bootstrap.servers": bootstrap}).list_topics(topic, timeout=10)
    return int(found.topics[topic].partitions[partition].leader)


def produce(
    bootstrap: str, topics: Mapping[str, int], count: int, *, prefix: str = "v"
) -> set[tuple[str, int, int]]:
    """Spread `count` records round-robin over the partitions: {(topic, partition, offset)}."""
    places = [(name, part) for name, parts in sorted(topics.items()) for part in range(parts)]
    written: set[tuple[str, int, int]] = set()
    errors: list[str] = []

    def delivered(error: object, message: object) -> None:
        if error is not None:
            errors.append(str(error))
            return
        written.add((message.topic(), message.partition(), message.offset()))  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    for number in range(count):
        topic, partition = places[number % len(places)]
        producer.produce(
            topic, value=f"{prefix}{number}".encode(), partition=partition, on_delivery=delivered
        )
        producer.poll(0)
    left = producer.flush(60)
    assert not left, f"{left} records were not delivered in 60 s"
    assert not errors, errors[:3]
    return written


def end_offsets(bootstrap: str, topics: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """The high watermark of every partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watermarks", **QUIET})
    try:
        ends: dict[tuple[str, int], int] = {}
        for name, count in topics.items():
            for part in range(count):
                at = TopicPartition(name, part)
                ends[(name, part)] = retrying(
                    lambda at=at: consumer.get_watermark_offsets(at, timeout=10)[1]
                )
        return ends
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, topics: Mapping[str, int]) -> dict[tuple[str, int], int]:
    """The committed offsets of a group; -1 where there is none."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    asked = [TopicPartition(name, part) for name in sorted(topics) for part in range(topics[name])]
    try:
        found = retrying(lambda: consumer.committed(asked, timeout=10))
        return {(at.topic, at.partition): max(at.offset, -1) for at in found}
    finally:
        consumer.close()


def commit(bootstrap: str, group: str, offsets: Mapping[tuple[str, int], int]) -> None:
    """Commit offsets for a group without members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    places = [TopicPartition(*place, offset) for place, offset in offsets.items()]
    try:
        done = retrying(lambda: consumer.commit(offsets=places, asynchronous=False))
        assert [at for at in done if at.error is not None] == []
    finally:
        consumer.close()


def group_type(bootstrap: str, group: str) -> str:
    """`classic` or `consumer`, as ListGroups says."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    listed = client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
    return next(found.type.name.lower() for found in listed.valid if found.group_id == group)
