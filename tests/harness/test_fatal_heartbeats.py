"""`fatal_heartbeat_error`: what each client shows its program, as docs/testing.md says."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import GroupAuthorizationFailedError
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError
from kafka import KafkaConsumer
from kafka.errors import FencedInstanceIdError
from kafka.errors import GroupAuthorizationFailedError as PyNotAuthorized
from kafka.structs import OffsetAndMetadata, TopicPartition

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import settings

PLACE = {TopicPartition("orders", 0): OffsetAndMetadata(1, "", -1)}


@pytest.fixture
def c(groupd: GroupCoordinator) -> Iterator[GroupCoordinator]:
    groupd.create_topic("orders", 6)
    return groupd


def joined(c: GroupCoordinator, protocol: str, **more: str | int) -> Consumer:
    consumer = Consumer({**settings(c.bootstrap_servers, "billing", protocol), **more})
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + 20
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.05)
    assert consumer.assignment()
    return consumer


def first_error(consumer: Consumer, timeout_s: float = 20) -> KafkaError:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        message = consumer.poll(0.05)
        if message is not None and (error := message.error()) is not None:
            assert isinstance(error, KafkaError)
            return error
    raise AssertionError("no error")


def of_aiokafka(c: GroupCoordinator, instance: str | None = None) -> AIOKafkaConsumer:
    return AIOKafkaConsumer(
        "orders",
        bootstrap_servers=c.bootstrap_servers,
        group_id="billing",
        group_instance_id=instance,
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
    )


POLL_MS = 1000
"""If a poll ends in the middle of a join, kafka-python gives the join up and begins another one. A
join never takes this long."""


def of_kafka_python(c: GroupCoordinator, instance: str | None = None) -> KafkaConsumer:
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=c.bootstrap_servers,
        group_id="billing",
        group_instance_id=instance,
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
    )
    deadline = time.monotonic() + 20
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(timeout_ms=POLL_MS)
    assert consumer.assignment()
    return consumer


@pytest.mark.parametrize("code", [None, "INVALID_REQUEST", "UNSUPPORTED_ASSIGNOR"])
def test_confluent_kafkas_consumer_protocol_gives_up(c: GroupCoordinator, code: str | None) -> None:
    consumer = joined(c, "consumer")
    with c.recipes.fatal_heartbeat_error("billing", code) as incident:
        assert incident.result["code"] == (code or "GROUP_AUTHORIZATION_FAILED")
        error = first_error(consumer)
        assert incident.hits == 1
    assert error.code() == KafkaError._FATAL
    assert consumer.assignment() == []
    consumer.close()


def test_confluent_kafkas_classic_protocol_is_told_when_it_joins_anew(c: GroupCoordinator) -> None:
    """A Kafka broker that takes a group's READ away looks the same to it: heartbeats are refused
    without a word to the program, until the client's own session timeout."""
    consumer = joined(c, "classic", **{"session.timeout.ms": 1000})
    with c.recipes.fatal_heartbeat_error("billing") as incident:
        assert incident.result["code"] == "GROUP_AUTHORIZATION_FAILED"
        began = time.monotonic()
        error = first_error(consumer)
        took_s = time.monotonic() - began
        assert took_s > 0.4, "a heartbeat alone stopped it"
        assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        assert "JoinGroup failed" in str(error)
        assert incident.hits > 2
        assert consumer.assignment() == []
    deadline = time.monotonic() + 20  # it goes on trying, so it comes back with its permission
    while not consumer.assignment() and time.monotonic() < deadline:
        consumer.poll(0.05)
    assert len(consumer.assignment()) == 6
    consumer.close()


def test_one_refused_heartbeat_is_nothing_to_confluent_kafkas_classic_protocol(
    c: GroupCoordinator,
) -> None:
    consumer = joined(c, "classic")
    with c.recipes.fatal_heartbeat_error("billing", "GROUP_AUTHORIZATION_FAILED") as incident:
        incident.faults[0].wait()
        beats = c.faults.add("twice", api="heartbeat")
        while beats.hits < 2:
            assert consumer.poll(0.05) is None
    assert len(consumer.assignment()) == 6
    consumer.close()


def test_a_static_member_of_confluent_kafkas_classic_protocol_is_fenced(
    c: GroupCoordinator,
) -> None:
    consumer = joined(c, "classic", **{"group.instance.id": "node-1"})
    with c.recipes.fatal_heartbeat_error("billing") as incident:
        assert incident.result["code"] == "FENCED_INSTANCE_ID"
        assert first_error(consumer).code() == KafkaError._FATAL
        consumer.close()


def test_only_who_has_an_instance_id_can_be_fenced_by_it(c: GroupCoordinator) -> None:
    """librdkafka's close() never returns after a FENCED_INSTANCE_ID that nobody can send it."""
    consumer = joined(c, "classic")
    with pytest.raises(HarnessError, match=r"no group\.instance\.id"):
        c.recipes.fatal_heartbeat_error("billing", "FENCED_INSTANCE_ID")
    assert c._call("faults") == []
    consumer.close()


async def test_aiokafka_raises_it_from_its_reads(groupd: GroupCoordinator) -> None:
    await groupd.aio.create_topic("orders", 6)
    consumer = of_aiokafka(groupd)
    await consumer.start()
    incident = await groupd.aio.fatal_heartbeat_error("billing")
    with pytest.raises(GroupAuthorizationFailedError):
        await consumer.getone()
    await consumer.stop()
    (fault,) = incident["faults"]
    assert (await groupd.aio.fault(fault))["hits"] >= 1


async def test_aiokafka_knows_no_fenced_instance_but_fails_all_the_same(
    groupd: GroupCoordinator,
) -> None:
    await groupd.aio.create_topic("orders", 6)
    consumer = of_aiokafka(groupd, "node-1")
    await consumer.start()
    incident = await groupd.aio.fatal_heartbeat_error("billing")
    assert incident["code"] == "FENCED_INSTANCE_ID"
    with pytest.raises(AioKafkaError, match="Unexpected exception in heartbeat task"):
        await consumer.getone()
    await consumer.stop()


def test_kafka_python_tells_it_to_commits_only(c: GroupCoordinator) -> None:
    consumer = of_kafka_python(c)
    with c.recipes.fatal_heartbeat_error("billing") as incident:
        while incident.hits < 3:
            assert consumer.poll(timeout_ms=POLL_MS) == {}
        with pytest.raises(PyNotAuthorized):
            consumer.commit(PLACE)
    consumer.close()


def test_a_fenced_kafka_python_stops_its_heartbeats_and_tells_commits(c: GroupCoordinator) -> None:
    consumer = of_kafka_python(c, "node-1")
    with c.recipes.fatal_heartbeat_error("billing") as incident:
        while not incident.hits:
            assert consumer.poll(timeout_ms=POLL_MS) == {}
        with pytest.raises(FencedInstanceIdError):
            consumer.commit(PLACE)
        assert incident.hits == 2, "a heartbeat and the commit"
        consumer.close()
