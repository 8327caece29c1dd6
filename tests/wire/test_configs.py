"""DescribeConfigs and AlterConfigs of both kinds over TCP: codes, texts, sources, synonyms.

Holds for a real broker too (GROUPD_PEER=kafka), but for what says so.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from tests.support.daemon import Daemon
from tests.support.peer import Peer, peer_kind
from tests.support.process import wait_until
from tests.support.raw_member import admin_json
from tests.support.wire_client import WireClient

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
HEARTBEAT_MS = "300"
"""The static setting of the peer for group.consumer.heartbeat.interval.ms."""

Change = tuple[str, int, str | None]


@pytest.fixture
def broker(client: WireClient) -> str:
    """The id of the broker, as a resource name."""
    return str(client.call("Metadata", 12, topics=[])["brokers"][0]["node_id"])


@pytest.fixture
def topic(client: WireClient) -> str:
    name = uuid.uuid4().hex
    asked = {"name": name, "num_partitions": 1, "replication_factor": 1}
    reply = client.call("CreateTopics", 7, topics=[asked], timeout=30_000)
    assert reply["topics"][0]["error_code"] == 0
    metadata = {"topics": [{"topic_id": bytes(16), "name": name}]}
    wait_until(
        lambda: client.call("Metadata", 12, **metadata)["topics"][0]["error_code"] == 0,
        10,
        "the topic is there",
    )
    return name


def alter(client: WireClient, kind: int, name: str, *changes: Change) -> tuple[int, str | None]:
    configs = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    asked = {"resource_type": kind, "resource_name": name, "configs": configs}
    (found,) = client.call("IncrementalAlterConfigs", 1, resources=[asked])["responses"]
    return found["error_code"], found["error_message"]


def replace(client: WireClient, kind: int, name: str, **values: str) -> tuple[int, str | None]:
    configs = [{"name": key.replace("_", "."), "value": text} for key, text in values.items()]
    asked = {"resource_type": kind, "resource_name": name, "configs": configs}
    (found,) = client.call("AlterConfigs", 2, resources=[asked])["responses"]
    return found["error_code"], found["error_message"]


def describe(
    client: WireClient, kind: int, name: str, *keys: str, version: int = 4
) -> dict[str, Any]:
    """The configs by name: (value, source, [(name, value, source) of the synonyms])."""
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": keys or None}
    fields = {"resources": [asked], "include_synonyms": True}
    (found,) = client.call("DescribeConfigs", version, **fields)["results"]
    assert found["error_code"] == 0, found
    return {
        entry["name"]: (
            entry["value"],
            entry["config_source"],
            [(each["name"], each["value"], each["source"]) for each in entry["synonyms"]],
        )
        for entry in found["configs"]
    }


REFUSED_TOPIC_CONFIGS: dict[Change, str] = {
    ("retention.ms", SET, "-2"): (
        "Invalid value -2 for configuration retention.ms: Value must be at least -1"
    ),
    ("retention.ms", SET, "x"): (
        "Invalid value x for configuration retention.ms: Not a number of type LONG"
    ),
    ("max.message.bytes", SET, "2147483648"): (
        "Invalid value 2147483648 for configuration max.message.bytes: Not a number of type INT"
    ),
    ("max.message.bytes", SET, "1_000"): (
        "Invalid value 1_000 for configuration max.message.bytes: Not a number of type INT"
    ),
    ("segment.bytes", SET, "14"): (
        "Invalid value 14 for configuration segment.bytes: Value must be at least 1048576"
    ),
    ("min.cleanable.dirty.ratio", SET, "2"): (
        "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more "
        "than 1"
    ),
    ("min.cleanable.dirty.ratio", SET, "q"): (
        "Invalid value q for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"
    ),
    ("compression.gzip.level", SET, "0"): (
        "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 "
        "or equal to -1"
    ),
    ("compression.type", SET, "brotli"): (
        "Invalid value brotli for configuration compression.type: String must be one of: "
        "uncompressed, zstd, lz4, snappy, gzip, producer"
    ),
    ("cleanup.policy", SET, "compact,erase"): (
        "Invalid value erase for configuration cleanup.policy: String must be one of: compact, "
        "delete"
    ),
    ("preallocate", SET, "yes"): (
        "Invalid value yes for configuration preallocate: Expected value to be either true or false"
    ),
    ("no.such", SET, "1"): "Unknown topic config name: no.such",
    ("retention.ms", APPEND, "1"): (
        "Can't APPEND to key retention.ms because its type is not LIST."
    ),
    ("retention.ms", SUBTRACT, "1"): (
        "Can't SUBTRACT to key retention.ms because its type is not LIST."
    ),
}


@pytest.mark.parametrize("change", REFUSED_TOPIC_CONFIGS, ids=lambda change: f"{change[:2]}")
def test_refused_topic_configs(client: WireClient, topic: str, change: Change) -> None:
    text = REFUSED_TOPIC_CONFIGS[change]
    assert alter(client, TOPIC, topic, change) == (ErrorCode.INVALID_CONFIG, text)


def test_configs_that_contradict_each_other(client: WireClient, topic: str) -> None:
    lags: tuple[Change, ...] = (
        ("min.compaction.lag.ms", SET, "10"),
        ("max.compaction.lag.ms", SET, "5"),
    )
    assert alter(client, TOPIC, topic, *lags) == (
        ErrorCode.INVALID_CONFIG,
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
    )


def test_mistakes_in_the_request(client: WireClient, topic: str) -> None:
    code = ErrorCode.INVALID_REQUEST
    twice: tuple[Change, ...] = (("retention.ms", SET, "1"), ("retention.ms", DELETE, None))
    assert alter(client, TOPIC, topic, *twice) == (code, "Error due to duplicate config keys")
    null = ("retention.ms", SET, None)
    text = "Null value not supported for : retention.ms"
    assert alter(client, TOPIC, topic, null) == (code, text)
    one = ("retention.ms", SET, "1")
    text = "Default topic resources are not allowed."
    assert alter(client, TOPIC, "", one) == (code, text)
    assert alter(client, GROUP, "", ("consumer.session.timeout.ms", SET, "2000")) == (
        code,
        "Default group resources are not allowed.",
    )
    assert alter(client, TOPIC, "nowhere", one) == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic 'nowhere' does not exist.",
    )
    assert alter(client, TOPIC, topic, ("no.such", DELETE, None)) == (0, None)


def test_alter_configs_replaces_all_of_a_topic(client: WireClient, topic: str) -> None:
    assert alter(client, TOPIC, topic, ("retention.ms", SET, "5")) == (0, None)
    assert replace(client, TOPIC, topic, segment_ms="7000") == (0, None)

    def now() -> dict[str, Any]:
        return describe(client, TOPIC, topic, "retention.ms", "segment.ms")

    wanted = {
        "retention.ms": ("604800000", 5, []),
        "segment.ms": ("7000", 1, [("segment.ms", "7000", 1)]),
    }
    wait_until(lambda: now() == wanted, 5, "the new configs", lambda: str(now()))
    assert replace(client, TOPIC, "nowhere", segment_ms="7000") == (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic 'nowhere' does not exist.",
    )


REFUSED_GROUP_CONFIGS: dict[tuple[str, str], str] = {
    ("consumer.session.timeout.ms", "5"): (
        "consumer.session.timeout.ms must be in the range 1000 to 60000 inclusive."
    ),
    ("consumer.session.timeout.ms", "99999999"): (
        "consumer.session.timeout.ms must be in the range 1000 to 60000 inclusive."
    ),
    ("consumer.session.timeout.ms", "0"): (
        "Invalid value 0 for configuration consumer.session.timeout.ms: Value must be at least 1"
    ),
    ("consumer.session.timeout.ms", "x"): (
        "Invalid value x for configuration consumer.session.timeout.ms: Not a number of type INT"
    ),
    ("consumer.heartbeat.interval.ms", "12000"): (
        "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms"
    ),
    ("no.such", "1"): "Unknown group config name: no.such",
}


@pytest.mark.parametrize("change", REFUSED_GROUP_CONFIGS, ids=":".join)
def test_refused_group_configs(client: WireClient, change: tuple[str, str]) -> None:
    key, value = change
    text = REFUSED_GROUP_CONFIGS[change]
    assert alter(client, GROUP, "g", (key, SET, value)) == (ErrorCode.INVALID_CONFIG, text)


def test_sources_and_synonyms_of_group_configs(client: WireClient) -> None:
    group = uuid.uuid4().hex
    keys = ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")
    of_broker = [
        ("group.consumer.heartbeat.interval.ms", HEARTBEAT_MS, 4),
        ("group.consumer.heartbeat.interval.ms", "5000", 5),
    ]
    assert describe(client, GROUP, group, keys[0]) == {keys[0]: (HEARTBEAT_MS, 4, of_broker)}
    assert alter(client, GROUP, group, (keys[0], SET, "400")) == (0, None)
    own = {keys[0]: ("400", 8, [(keys[0], "400", 8), *of_broker])}
    wait_until(lambda: describe(client, GROUP, group, keys[0]) == own, 5, "the group's own value")
    assert replace(client, GROUP, group) == (0, None)
    back = {keys[0]: (HEARTBEAT_MS, 4, of_broker)}
    wait_until(lambda: describe(client, GROUP, group, keys[0]) == back, 5, "the broker's value")


def test_synonyms_of_a_group_config_that_the_broker_lacks(client: WireClient) -> None:
    """Kafka's DynamicGroupConfigIntegrationTest."""
    group, key = uuid.uuid4().hex, "share.auto.offset.reset"
    default = (key, "latest", 5)
    assert describe(client, GROUP, group, key) == {key: ("latest", 5, [default])}
    assert alter(client, GROUP, group, (key, SET, "earliest")) == (0, None)
    own = {key: ("earliest", 8, [(key, "earliest", 8), default])}
    wait_until(lambda: describe(client, GROUP, group, key) == own, 5, "the group's own value")


def test_synonyms_are_there_for_who_asks(client: WireClient, topic: str) -> None:
    asked = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}
    (found,) = client.call("DescribeConfigs", 4, resources=[asked])["results"]
    assert found["configs"]
    assert all(entry["synonyms"] == [] for entry in found["configs"])
    for version in (1, 2, 3, 4):
        shown = describe(client, TOPIC, topic, "cleanup.policy", version=version)
        assert shown["cleanup.policy"][2] == [("log.cleanup.policy", "delete", 5)]


KEYS_THAT_TOOLS_READ = (
    "advertised.listeners",
    "auto.create.topics.enable",
    "broker.id",
    "compression.type",
    "default.replication.factor",
    "delete.topic.enable",
    "inter.broker.listener.name",
    "listeners",
    "log.cleanup.policy",
    "log.dirs",
    "log.retention.bytes",
    "log.retention.hours",
    "log.segment.bytes",
    "message.max.bytes",
    "min.insync.replicas",
    "node.id",
    "num.partitions",
    "offsets.retention.minutes",
    "offsets.topic.num.partitions",
    "offsets.topic.replication.factor",
    "process.roles",
    "transaction.max.timeout.ms",
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transactional.id.expiration.ms",
)


def test_keys_that_tools_read(peer: Peer, client: WireClient, broker: str) -> None:
    found = describe(client, BROKER, broker, *KEYS_THAT_TOOLS_READ)
    assert sorted(found) == sorted(KEYS_THAT_TOOLS_READ)
    address = f"PLAINTEXT://{peer.host}:{peer.port}"
    assert found["advertised.listeners"][0].split(",")[0] == address
    assert found["broker.id"][0] == found["node.id"][0] == broker
    assert found["log.retention.hours"] == ("168", 5, [("log.retention.hours", "168", 5)])
    assert found["process.roles"][0] == "broker,controller"


def test_dynamic_configs_of_the_broker(client: WireClient, broker: str, topic: str) -> None:
    key = "message.max.bytes"
    default = (key, "1048588", 5)
    assert alter(client, BROKER, "", (key, SET, "3000")) == (0, None)
    assert alter(client, BROKER, broker, (key, SET, "2000")) == (0, None)
    synonyms = [(key, "2000", 2), (key, "3000", 3), default]

    def now() -> Any:
        of_broker = describe(client, BROKER, broker, key)[key]
        of_cluster = describe(client, BROKER, "").get(key)
        of_topic = describe(client, TOPIC, topic, "max.message.bytes")["max.message.bytes"]
        return of_broker, of_cluster, of_topic

    both = ("2000", 2, synonyms)
    wanted = (both, ("3000", 3, [(key, "3000", 3)]), both)
    wait_until(lambda: now() == wanted, 5, "both values", lambda: str(now()))
    assert replace(client, BROKER, broker) == (0, None)
    assert alter(client, BROKER, "", (key, DELETE, None)) == (0, None)
    back = ("1048588", 5, [default])
    wait_until(lambda: now() == (back, None, back), 5, "the default", lambda: str(now()))


def test_what_the_broker_refuses(client: WireClient, broker: str) -> None:
    code = ErrorCode.INVALID_REQUEST
    for name in (broker, ""):
        for key in ("broker.id", "log.dirs", "num.partitions", "group.consumer.max.size"):
            text = f"Cannot update these configs dynamically: [{key}]"
            assert alter(client, BROKER, name, (key, SET, "7")) == (code, text)
        assert alter(client, BROKER, name, ("message.max.bytes", SET, "-5")) == (
            code,
            "Invalid value -5 for configuration message.max.bytes: Value must be at least 0",
        )
        assert alter(client, BROKER, name, ("message.max.bytes", SET, "x")) == (
            code,
            "Invalid value x for configuration message.max.bytes: Not a number of type INT",
        )
    one = ("message.max.bytes", SET, "5")
    text = f"Unexpected broker id, expected {broker}, but received 99"
    assert alter(client, BROKER, "99", one) == (code, text)
    assert alter(client, BROKER, "x", one) == (code, "Node id must be an integer, but it is: x")


def test_a_setting_takes_effect_and_survives(client: WireClient, peer: Peer) -> None:
    if peer_kind() == "kafka":
        return  # Restarted brokers are not what is compared here.
    assert alter(client, BROKER, "", ("message.max.bytes", SET, "2500")) == (0, None)
    peer.restart()
    with WireClient(peer.host, peer.port) as again:
        assert describe(again, BROKER, "")["message.max.bytes"][0] == "2500"
        assert alter(again, BROKER, "", ("message.max.bytes", DELETE, None)) == (0, None)


def join(client: WireClient, group: str, member: str) -> None:
    """A new member of a consumer group."""
    reply = client.call(
        "ConsumerGroupHeartbeat",
        1,
        group_id=group,
        member_id=member,
        member_epoch=0,
        rebalance_timeout=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )
    assert reply["error_code"] == 0, reply


def coordinator(client: WireClient, group: str) -> tuple[str, int]:
    """(host, port) of the node that serves a group."""
    found: list[Any] = []

    def serves() -> bool:
        reply = client.call("FindCoordinator", 6, key_type=0, coordinator_keys=[group])
        found[:] = reply["coordinators"]
        return bool(found[0]["error_code"] == 0)

    wait_until(serves, 20, "a coordinator")
    return found[0]["host"], found[0]["port"]


def epochs(daemon: Daemon, group: str) -> tuple[int, int]:
    """(group epoch, assignment epoch)."""
    shown = admin_json(daemon, f"/groups/{group}")
    return shown["group_epoch"], shown["assignment_epoch"]


def test_groups_follow_the_assignment_interval_of_the_broker(tmp_path: Path) -> None:
    if peer_kind() == "kafka":
        return  # What is behind the interval is seen on the admin port.
    key = "group.consumer.assignment.interval.ms"
    linger = {"consumer_target_linger_ms": "0"}
    daemon = Daemon(tmp_path, topics={"t": 2}, settings={key: "0", **linger})
    try:
        daemon.start()
        with WireClient(daemon.host, daemon.port) as client:
            for group, value in (("quick", None), ("slow", "15000")):
                if value is not None:
                    assert alter(client, BROKER, "", (key, SET, value)) == (0, None)
                with WireClient(*coordinator(client, group)) as node:
                    join(node, group, "first-member-of-this")
                    join(node, group, "second-member-of-this")
            now, assigned = epochs(daemon, "quick")
            assert assigned == now
            now, assigned = epochs(daemon, "slow")
            assert assigned < now
            name = "consumer.assignment.interval.ms"
            of_broker = [(key, "15000", 3), (key, "0", 4), (key, "1000", 5)]
            assert describe(client, GROUP, "slow", name) == {name: ("15000", 3, of_broker)}
        daemon.stop()
    finally:
        daemon.close()
