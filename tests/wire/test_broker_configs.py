"""Configs of brokers that mean little here and that tools set and read all the same: keys that
nobody knows, and min.insync.replicas.

Holds for a real broker too (GROUPD_PEER=kafka), but for what says so.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from tests.support.cluster import ClusterOfDaemons
from tests.support.peer import Peer, peer_kind
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.wire_client import WireClient
from tests.wire.test_configs import APPEND, BROKER, DELETE, SET, TOPIC, alter, describe, replace

MIN_ISR = "min.insync.replicas"
groupd_only = pytest.mark.skipif(peer_kind() == "kafka", reason="Kafka has no such limits")


@pytest.fixture
def broker(client: WireClient) -> str:
    """The id of the broker, as a resource name."""
    return str(client.call("Metadata", 12, topics=[])["brokers"][0]["node_id"])


@pytest.fixture
def key(client: WireClient, broker: str) -> Iterator[str]:
    """A key that nobody knows; it is gone after the test."""
    name = f"no.such.{uuid.uuid4().hex}"
    yield name
    for resource in (broker, ""):
        assert alter(client, BROKER, resource, (name, DELETE, None)) == (0, None)


def shown(client: WireClient, name: str, key: str) -> list[Any]:
    """[value, source, sensitive, read only, type, synonyms] of a key; empty where it is not set."""
    asked = {"resource_type": BROKER, "resource_name": name, "configuration_keys": None}
    fields = {"resources": [asked], "include_synonyms": True}
    (found,) = client.call("DescribeConfigs", 4, **fields)["results"]
    names = [entry["name"] for entry in found["configs"]]
    assert len(names) == len(set(names))
    for entry in found["configs"]:
        if entry["name"] == key:
            synonyms = [(each["name"], each["value"], each["source"]) for each in entry["synonyms"]]
            kind = [entry["is_sensitive"], entry["read_only"], entry["config_type"]]
            return [entry["value"], entry["config_source"], *kind, synonyms]
    return []


def until_shown(client: WireClient, name: str, key: str, wanted: list[Any]) -> None:
    """Waits, because a broker of Kafka hears of a change after the controller has answered."""
    wait_until(
        lambda: shown(client, name, key) == wanted, 10, f"{key} of {name!r}",
        lambda: str(shown(client, name, key)),
    )  # fmt: skip


def test_unknown_keys_are_kept_and_their_values_hidden(
    client: WireClient, broker: str, key: str
) -> None:
    for resource, source in (("", 3), (broker, 2)):
        assert alter(client, BROKER, resource, (key, SET, "value")) == (0, None)
        of_resource = [(key, None, source)]
        if resource == broker:
            of_resource.append((key, None, 3))
        until_shown(client, resource, key, [None, source, True, True, 0, of_resource])
    assert alter(client, BROKER, broker, (key, DELETE, None)) == (0, None)
    until_shown(client, broker, key, [None, 3, True, True, 0, [(key, None, 3)]])
    assert alter(client, BROKER, broker, (key, APPEND, "x"))[0] == ErrorCode.INVALID_CONFIG
    assert alter(client, BROKER, "", (key, DELETE, None)) == (0, None)
    until_shown(client, broker, key, [])


def test_alter_configs_keeps_unknown_keys_too(client: WireClient, broker: str, key: str) -> None:
    assert replace(client, BROKER, broker, **{key: "value"}) == (0, None)
    until_shown(client, broker, key, [None, 2, True, True, 0, [(key, None, 2)]])
    assert replace(client, BROKER, broker) == (0, None)
    until_shown(client, broker, key, [])


def test_an_unknown_key_beside_one_that_cannot_change(
    client: WireClient, broker: str, key: str
) -> None:
    changes = [(name, SET, "7") for name in (key, "log.dirs")]
    text = "Cannot update these configs dynamically: [log.dirs]"
    assert alter(client, BROKER, broker, *changes) == (ErrorCode.INVALID_REQUEST, text)
    assert shown(client, broker, key) == []


@groupd_only
@pytest.mark.parametrize(
    "name", ["ssl.keystore.password", "sasl.no.such", "listener.name.external.ssl.key.password"]
)
def test_nothing_about_tls_and_logins_is_kept(client: WireClient, broker: str, name: str) -> None:
    text = f"Cannot update these configs dynamically: [{name}]"
    refused = alter(client, BROKER, broker, (name, SET, "hush"))
    assert refused == (ErrorCode.INVALID_REQUEST, text)


@groupd_only
def test_unknown_keys_are_limited(client: WireClient, broker: str) -> None:
    code = ErrorCode.POLICY_VIOLATION
    keys = [f"many.{number}" for number in range(100)]
    assert alter(client, BROKER, broker, *((name, SET, "1") for name in keys)) == (0, None)
    assert alter(client, BROKER, broker, ("many.too", SET, "1"))[0] == code
    assert alter(client, BROKER, broker, (keys[0], SET, "2")) == (0, None)
    assert alter(client, BROKER, broker, *((name, DELETE, None) for name in keys)) == (0, None)
    long = [(name, SET, "v" * 30_000) for name in keys[:4]]
    assert alter(client, BROKER, broker, *long)[0] == code


@groupd_only
def test_unknown_keys_outlive_a_broker(client: WireClient, peer: Peer, broker: str) -> None:
    assert alter(client, BROKER, broker, ("kept.key", SET, "value")) == (0, None)
    peer.restart()
    with WireClient(peer.host, peer.port) as again:
        found = shown(again, broker, "kept.key")
        assert found == [None, 2, True, True, 0, [("kept.key", None, 2)]]
        assert alter(again, BROKER, broker, ("kept.key", DELETE, None)) == (0, None)


def address(node: str) -> tuple[str, int]:
    host, port = node.rsplit(":", 1)
    return host, int(port)


@groupd_only
def test_every_node_of_a_cluster_shows_unknown_keys(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    cluster = ClusterOfDaemons(tmp_path, postgres.url(postgres.new_database()))
    cluster.start()
    try:
        with WireClient(*address(cluster.nodes[0])) as client:
            assert alter(client, BROKER, "", ("no.such", SET, "value")) == (0, None)
        for node in cluster.nodes:
            with WireClient(*address(node)) as client:
                assert shown(client, "", "no.such")[:3] == [None, 3, True]
        cluster.stop()
    finally:
        cluster.close()


def test_min_insync_replicas_comes_from_the_cluster(client: WireClient, broker: str) -> None:
    topic = {"name": uuid.uuid4().hex, "num_partitions": 1, "replication_factor": 1}
    (created,) = client.call("CreateTopics", 7, topics=[topic], timeout=10_000)["topics"]
    sources = {one["name"]: one["config_source"] for one in created["configs"]}
    assert (sources[MIN_ISR], sources["retention.ms"]) == (3, 5)

    def now() -> list[Any]:
        return [
            describe(client, TOPIC, topic["name"], MIN_ISR),
            describe(client, BROKER, broker, MIN_ISR),
            describe(client, BROKER, "", MIN_ISR),
        ]

    def until(value: str) -> None:
        own = [(MIN_ISR, value, 3)]
        everywhere = {MIN_ISR: (value, 3, [*own, (MIN_ISR, "1", 5)])}
        wanted = [everywhere, everywhere, {MIN_ISR: (value, 3, own)}]
        wait_until(lambda: now() == wanted, 10, f"{MIN_ISR}={value}", lambda: str(now()))

    until("1")
    assert alter(client, BROKER, "", (MIN_ISR, SET, "2")) == (0, None)
    until("2")
    assert replace(client, BROKER, "", min_insync_replicas="1") == (0, None)
    until("1")


def test_min_insync_replicas_stays_with_the_cluster(client: WireClient, broker: str) -> None:
    code = ErrorCode.INVALID_CONFIG
    text = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    assert alter(client, BROKER, "", (MIN_ISR, DELETE, None)) == (code, text)
    assert replace(client, BROKER, "") == (code, text)
    text = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    assert alter(client, BROKER, broker, (MIN_ISR, SET, "1")) == (code, text)
