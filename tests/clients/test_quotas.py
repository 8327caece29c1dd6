"""Quotas set by Kafka's tools and by the Admin client of Python, and felt by producers."""

from __future__ import annotations

from confluent_kafka import Producer

from tests.clients.conftest import TopicMaker
from tests.clients.group import SETTLE_S
from tests.clients.kafka_tool_calls import Run, shows
from tests.support.peer import Peer
from tests.support.process import wait_until


@shows(
    "kafka-configs",
    "--entity-type users | clients | ips --alter --add-config QUOTA=... | --delete-config QUOTA",
    "--entity-type users --entity-name USER --entity-type clients --entity-default ...",
    "--entity-type users | clients | ips --describe",
)
def test_quotas(run: Run, unique: str) -> None:
    user, client, address = f"u-{unique}", f"c-{unique}", "10.9.8.7"
    entities = {
        ("users", user): "producer_byte_rate=1024",
        ("clients", client): "request_percentage=12.5",
        ("ips", address): "connection_creation_rate=7",
    }
    for (kind, name), value in entities.items():
        entity = ["--entity-type", kind, "--entity-name", name]
        run("kafka-configs", *entity, "--alter", "--add-config", value)
        key, number = value.split("=")
        said = run("kafka-configs", *entity, "--describe").out
        assert name in said
        assert f"{key}={float(number)}" in said
        run("kafka-configs", *entity, "--alter", "--delete-config", key)
        assert key not in run("kafka-configs", *entity, "--describe").out
    both = ["--entity-type", "users", "--entity-name", user]
    both += ["--entity-type", "clients", "--entity-default"]
    run("kafka-configs", *both, "--alter", "--add-config", "consumer_byte_rate=2048")
    assert "consumer_byte_rate=2048.0" in run("kafka-configs", *both, "--describe").out
    run("kafka-configs", *both, "--alter", "--delete-config", "consumer_byte_rate")
    wrong = ["--alter", "--add-config", "producer_byte_rate=-5"]
    assert "must be greater than 0" in run("kafka-configs", *both, *wrong, exits=1).err


def test_producers_are_told_to_wait(run: Run, peer: Peer, unique: str, topics: TopicMaker) -> None:
    (topic,), client = topics({"slow": 1}), f"c-{unique}"
    entity = ["--entity-type", "clients", "--entity-name", client, "--alter"]
    run("kafka-configs", *entity, "--add-config", "producer_byte_rate=10000")
    waits: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "client.id": client,
            "throttle_cb": lambda event: waits.append(event.throttle_time),
        }
    )
    producer.produce(topic, bytes(120_000))
    wait_until(lambda: producer.poll(0.1) >= 0 and bool(waits), SETTLE_S, "told to wait")
    assert 0.5 < waits[0] < 5
    run("kafka-configs", *entity, "--delete-config", "producer_byte_rate")


@shows("kafka-producer-perf-test", "--print-metrics, with a quota")
def test_java_reports_the_wait(run: Run, unique: str, topics: TopicMaker) -> None:
    (topic,), client = topics({"slow": 1}), f"c-{unique}"
    entity = ["--entity-type", "clients", "--entity-name", client, "--alter"]
    run("kafka-configs", *entity, "--add-config", "producer_byte_rate=10000")
    said = run(
        "kafka-producer-perf-test",
        *("--topic", topic, "--num-records", "120", "--record-size", "1000"),
        *("--throughput", "-1", "--print-metrics", "--command-property", f"client.id={client}"),
    )
    (line,) = (line for line in said.lines if "produce-throttle-time-max" in line)
    assert 100 < float(line.rpartition(":")[2]) < 10_000
    run("kafka-configs", *entity, "--delete-config", "producer_byte_rate")
