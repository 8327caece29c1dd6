"""Metrics that clients push (KIP-714), over TCP.

Holds for a real broker too (GROUPD_PEER=kafka), but for what says so.
"""

from __future__ import annotations

import io
import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from groupd.protocol.errors import ErrorCode
from tests.support.admin import create_topics, produce
from tests.support.daemon import Daemon, ends_well
from tests.support.peer import Peer
from tests.support.process import wait_until
from tests.support.raw_member import admin_json
from tests.support.wire_client import WireClient

CLIENT_METRICS = 16
NOBODY = bytes(16)


@pytest.fixture
def client(peer: Peer) -> Iterator[WireClient]:
    """A client with a client id of its own."""
    with WireClient(peer.host, peer.port, f"wire-{uuid.uuid4().hex}") as made:
        yield made


def alter(client: WireClient, name: str, **values: str | None) -> tuple[int, str | None]:
    """Sets the configs of a subscription; None deletes one."""
    configs = [
        {"name": key.replace("_", "."), "config_operation": int(value is None), "value": value}
        for key, value in values.items()
    ]
    asked = {"resource_type": CLIENT_METRICS, "resource_name": name, "configs": configs}
    (found,) = client.call("IncrementalAlterConfigs", 1, resources=[asked])["responses"]
    return found["error_code"], found["error_message"]


def subscribe(client: WireClient) -> str:
    """Subscribes to all metrics of this client, once an hour."""
    name = uuid.uuid4().hex
    match = f"client_id={client.client_id}"
    assert alter(client, name, metrics="*", interval_ms="3600000", match=match) == (0, None)
    return name


def ask(client: WireClient, instance: bytes = NOBODY) -> Any:
    return client.call("GetTelemetrySubscriptions", 0, client_instance_id=instance)


def subscribed(client: WireClient) -> tuple[bytes, int]:
    """(instance, subscription) of a client that was told to push everything."""
    found: list[Any] = []

    def told() -> bool:
        found[:] = [ask(client)]  # as a new instance every time
        return bool(found[0]["requested_metrics"] == ["*"])

    wait_until(told, 10, "the subscription is known", lambda: str(found))
    return found[0]["client_instance_id"], found[0]["subscription_id"]


def push(
    client: WireClient, instance: bytes, subscription: int, metrics: bytes = b"x", **fields: Any
) -> int:
    values = {"terminating": False, "compression_type": 0, **fields}
    reply = client.call(
        "PushTelemetry",
        0,
        client_instance_id=instance,
        subscription_id=subscription,
        metrics=metrics,
        **values,
    )
    code: int = reply["error_code"]
    return code


def test_without_a_subscription_nothing_is_pushed(client: WireClient) -> None:
    found = ask(client)
    assert found["error_code"] == 0
    assert found["client_instance_id"] != NOBODY
    assert found["requested_metrics"] == []
    assert found["push_interval"] == 300_000
    assert found["telemetry_max_bytes"] == 1_048_576
    assert sorted(found["accepted_compression_types"]) == [1, 2, 3, 4]
    assert found["delta_temporality"] is True
    again = ask(client, found["client_instance_id"])
    assert again["error_code"] == ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_a_client_pushes_once_in_its_interval(client: WireClient) -> None:
    subscribe(client)
    instance, subscription = subscribed(client)
    assert push(client, instance, subscription) == 0
    assert push(client, instance, subscription) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    # The last one may come early, and then there are no more.
    assert push(client, instance, subscription, terminating=True) == 0
    assert push(client, instance, subscription, terminating=True) == ErrorCode.INVALID_REQUEST


def test_pushes_that_are_refused(client: WireClient) -> None:
    subscribe(client)
    assert push(client, NOBODY, 1) == ErrorCode.INVALID_REQUEST
    for fields, code in (
        ({"subscription": 1}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes(1_048_577)}, ErrorCode.TELEMETRY_TOO_LARGE),
    ):
        instance, subscription = subscribed(client)
        assert push(client, instance, **{"subscription": subscription, **fields}) == code
    # Who did not know of a new subscription may ask for it at once.
    instance, _ = subscribed(client)
    assert push(client, instance, 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert ask(client, instance)["error_code"] == 0


REFUSED = {
    ("interval.ms", "99"): (
        ErrorCode.INVALID_REQUEST,
        "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
    ),
    ("interval.ms", "x"): (
        ErrorCode.INVALID_CONFIG,
        "Invalid value x for configuration interval.ms: Not a number of type INT",
    ),
    ("no.such", "1"): (
        ErrorCode.INVALID_REQUEST,
        "Unknown client metrics configuration: no.such",
    ),
}


@pytest.mark.parametrize("change", REFUSED, ids=":".join)
def test_refused_subscriptions(client: WireClient, change: tuple[str, str]) -> None:
    key, value = change
    assert alter(client, "refused", **{key.replace(".", "_"): value}) == REFUSED[change]


@pytest.mark.parametrize("pattern", ["client=x", "client_id", "client_id=(", "client_id="])
def test_refused_patterns(client: WireClient, pattern: str) -> None:
    code, text = alter(client, "refused", match=pattern)
    assert code == ErrorCode.INVALID_CONFIG
    assert text is not None
    assert text.startswith(f"Illegal client matching pattern: {pattern}")


def test_subscriptions_are_listed_and_described(client: WireClient) -> None:
    name = subscribe(client)

    def listed() -> list[str]:
        reply = client.call("ListConfigResources", 1, resource_types=(CLIENT_METRICS,))
        return [found["resource_name"] for found in reply["config_resources"]]

    wait_until(lambda: name in listed(), 10, "the subscription is listed")
    asked = {"resource_type": CLIENT_METRICS, "resource_name": name, "configuration_keys": None}
    (found,) = client.call("DescribeConfigs", 4, resources=[asked])["results"]
    values = {entry["name"]: (entry["value"], entry["config_source"]) for entry in found["configs"]}
    assert values == {
        "metrics": ("*", 7),
        "interval.ms": ("3600000", 7),
        "match": (f"client_id={client.client_id}", 7),
    }
    assert alter(client, name, metrics=None, interval_ms=None, match=None) == (0, None)
    wait_until(lambda: name not in listed(), 10, "the subscription is gone")


def test_pushes_are_counted_and_shown(peer: Peer, client: WireClient) -> None:
    if not isinstance(peer, Daemon):
        return  # The admin port is groupd's.
    subscribe(client)
    instance, subscription = subscribed(client)
    assert push(client, instance, subscription, b"x" * 100, compression_type=4) == 0
    shown = [one for one in admin_json(peer, "/telemetry") if one["client_id"] == client.client_id]
    (pushed,) = [one for one in shown if one["pushes"]]
    assert (pushed["pushes"], pushed["bytes"], pushed["host"]) == (1, 100, "127.0.0.1")
    assert pushed["metrics"] == ["*"]
    assert pushed["last_push_ms"] > 0


def test_librdkafka_pushes(peer: Peer, client: WireClient) -> None:
    """confluent-kafka's own producer, which pushes what it is asked for."""
    if not isinstance(peer, Daemon):
        return  # Kafka gives what it gets to a plug-in, and has none here.
    name = uuid.uuid4().hex
    assert alter(client, name, metrics="*", interval_ms="100") == (0, None)
    topic = uuid.uuid4().hex
    create_topics(peer.bootstrap, {topic: 1})

    def pushed() -> list[Any]:
        produce(peer.bootstrap, {topic: 1}, 1)
        return [one for one in admin_json(peer, "/telemetry") if one["pushes"] > 0]

    wait_until(pushed, 20, "a push")
    assert any("librdkafka" in one["client_id"] or one["client_id"] for one in pushed())
    assert alter(client, name, metrics=None, interval_ms=None) == (0, None)


def shown_apis(port: int) -> set[int]:
    """The keys that ApiVersions names to a new client."""
    with WireClient("127.0.0.1", port) as client:
        reply = client.call(
            "ApiVersions", 3, client_software_name="wire", client_software_version="1"
        )
        keys: set[int] = {found["api_key"] for found in reply["api_keys"]}
    assert 74 in keys
    return keys & {71, 72}


def test_clients_hear_of_telemetry_while_there_is_a_subscription(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.start()
    with ends_well(daemon), WireClient(daemon.host, daemon.port) as client:
        assert shown_apis(daemon.port) == set()
        name = subscribe(client)
        assert shown_apis(daemon.port) == {71, 72}
        assert alter(client, name, metrics=None, interval_ms=None, match=None) == (0, None)
        assert shown_apis(daemon.port) == set()


def test_the_log_of_librdkafka_is_silent_about_telemetry(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path)
    daemon.start()
    with ends_well(daemon):
        assert "GETSUBSCRIPTIONS" not in _said_by_librdkafka(daemon.bootstrap)


def _said_by_librdkafka(bootstrap: str) -> str:
    said = io.StringIO()
    log = logging.Logger("librdkafka")
    log.addHandler(logging.StreamHandler(said))
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "silent", "log_level": 7}, logger=log
    )
    try:
        consumer.list_topics(timeout=10)
        consumer.poll(0.5)
    finally:
        consumer.close()
    return said.getvalue()
