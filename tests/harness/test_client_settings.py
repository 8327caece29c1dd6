"""Client settings for tests: a commit that meets NOT_COORDINATOR is quick with each library."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.client_settings import client_config
from groupd.testing.harness import GroupCoordinator
from tests.harness.test_transactional_records import ask

QUICK_S = 2.0
GROUP = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}


def seconds_of_a_refused_commit(c: GroupCoordinator, commit: Callable[[], object]) -> float:
    with c.fault("error", api="OffsetCommit", code="NOT_COORDINATOR", count=2) as fault:
        began = time.monotonic()
        commit()
        took = time.monotonic() - began
        assert fault.hits == 2
    c.wait_committed("billing", "orders", 0, 1)
    return took


def refused_commit_of_confluent(c: GroupCoordinator, config: dict[str, Any]) -> float:
    c.create_topic("orders")
    c.produce("orders", ["a"])
    consumer = Consumer({"bootstrap.servers": c.bootstrap_servers, **GROUP, **config})
    consumer.subscribe(["orders"])
    assert consumer.poll(10) is not None
    took = seconds_of_a_refused_commit(c, lambda: consumer.commit(asynchronous=False))
    consumer.close()
    return took


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluent_kafka_as_it_comes(groupd: GroupCoordinator, protocol: str) -> None:
    config = {"group.protocol": protocol}
    assert refused_commit_of_confluent(groupd, config) < QUICK_S


@pytest.mark.groupd(profile="default", config={"group.initial.rebalance.delay.ms": 0})
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_confluent_kafka_with_its_settings(groupd: GroupCoordinator, protocol: Any) -> None:
    config = groupd.client_config("confluent-kafka", protocol=protocol)
    assert refused_commit_of_confluent(groupd, config) < QUICK_S


@pytest.mark.groupd(profile="default", config={"group.initial.rebalance.delay.ms": 0})
async def test_aiokafka_with_its_settings(groupd: GroupCoordinator) -> None:
    await groupd.aio.create_topic("orders")
    async with AIOKafkaProducer(**groupd.client_config("aiokafka", role="producer")) as producer:
        await producer.send_and_wait("orders", b"a")
    async with AIOKafkaConsumer(
        "orders",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **groupd.client_config("aiokafka"),
    ) as consumer:
        await consumer.getone()
        number = await groupd.aio.add_fault(
            "error", api="OffsetCommit", code="NOT_COORDINATOR", count=2
        )
        began = time.monotonic()
        await consumer.commit()
        assert time.monotonic() - began < QUICK_S
        assert (await groupd.aio.fault(number))["hits"] == 2


@pytest.mark.groupd(profile="default", config={"group.initial.rebalance.delay.ms": 0})
def test_kafka_python_with_its_settings(groupd: GroupCoordinator) -> None:
    groupd.create_topic("orders")
    producer = KafkaProducer(**groupd.client_config("kafka-python", role="producer"))
    producer.send("orders", b"a").get(10)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **groupd.client_config("kafka-python"),
    )
    assert consumer.poll(timeout_ms=10_000)
    assert seconds_of_a_refused_commit(groupd, consumer.commit) < QUICK_S
    consumer.close()


def test_a_producer_of_librdkafka_knows_its_settings(groupd: GroupCoordinator) -> None:
    config = groupd.client_config("confluent-kafka", role="producer")
    assert "group.protocol" not in config
    assert config["metadata.recovery.strategy"] == "none"
    producer = Producer({**config, "transactional.id": "t"})
    producer.init_transactions(10)


def test_settings_of_the_chosen_protocol_alone() -> None:
    consumer = client_config("java", "a:1", protocol="consumer")
    assert consumer["group.protocol"] == "consumer"
    assert "heartbeat.interval.ms" not in consumer
    assert client_config("java", "a:1")["heartbeat.interval.ms"] == 50
    assert client_config("kafkajs", "a:1")["brokers"] == ["a:1"]
    assert client_config("franz-go", "a:1", protocol="consumer")["ServerSideBalancer"] is True


@pytest.mark.parametrize(
    ("arguments", "options", "said"),
    [
        (("confluent_kafka",), {}, "no library 'confluent_kafka'; did you mean confluent-kafka"),
        (("aiokafka",), {"protocol": "consumer"}, "aiokafka does not speak the consumer protocol"),
        (
            ("java",),
            {"protocol": "queue"},
            "protocol 'queue': must be classic or consumer or share",
        ),
        (("aiokafka",), {"protocol": "share"}, "aiokafka has no share consumer"),
        (("java",), {"role": "admin"}, "role 'admin': must be consumer or producer"),
    ],
)
def test_what_is_not_there(arguments: tuple[str], options: dict[str, Any], said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        client_config(*arguments, "a:1", **options)


def test_other_languages_ask_for_them(groupd_factory: Any) -> None:
    c = groupd_factory(control=True)
    status, config = ask(c, "GET", "/control/clients/kafkajs")
    assert (status, config) == (200, c.client_config("kafkajs"))
    status, config = ask(c, "GET", "/control/clients/java?protocol=consumer&role=consumer")
    assert config["group.protocol"] == "consumer"
    assert ask(c, "GET", "/control/clients/cobol")[0] == 400
    assert ask(c, "GET", "/control/clients/java?role=admin")[0] == 400
