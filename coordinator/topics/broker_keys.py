"""What DescribeConfigs shows of a broker: our settings, and Kafka's keys that tools look for.

The latter are facts of this broker in Kafka's words; they can not be set. The names that topic
configs have among the broker's settings are Kafka's (ServerTopicConfigSynonyms).
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.config import FIELDS_BY_KEY, CoordinatorConfig
from coordinator.config_values import BOOLEAN, INT, LIST, LONG, STRING
from coordinator.settings import setting_text
from protocol.frozen import dataclass
from protocol.messages.cluster import Node

LOG_DIR = "/groupd"
"""The one log directory that clients are told, whatever the store is."""

DYNAMIC_KEYS = frozenset(
    {
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignor.offload.enable",
        "log.retention.bytes",
        "log.retention.ms",
        "message.max.bytes",
        "transaction.partition.verification.enable",
    }
    & FIELDS_BY_KEY.keys()
)
"""Settings that clients may change while the broker runs, all of them dynamic in Kafka, too. Who
uses them asks for them at each use; shards and workers are told (`BrokerConfigs.follow`)."""

TOPIC_SYNONYMS: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic config -> the broker's key for its default, where that key has a value."""


@dataclass(frozen=True, slots=True)
class BrokerKey:
    """A key with the value that counts unless a client has changed it. `value` None: not set."""

    name: str
    value: str | None
    config_type: int
    documentation: str
    is_default: bool = True


_TOPIC_DEFAULT = "Default of the topic config; the same for all topics that do not set it."
_FACT = "A fact of this broker; it can not be set."

_INT_MAX = 2**31 - 1
_LONG_MAX = str(2**63 - 1)

_FIXED = (
    BrokerKey("compression.gzip.level", "-1", INT, _TOPIC_DEFAULT),
    BrokerKey("compression.lz4.level", "9", INT, _TOPIC_DEFAULT),
    BrokerKey("compression.type", "producer", STRING, _TOPIC_DEFAULT),
    BrokerKey("compression.zstd.level", "3", INT, _TOPIC_DEFAULT),
    BrokerKey("delete.topic.enable", "true", BOOLEAN, _FACT),
    BrokerKey("inter.broker.listener.name", "PLAINTEXT", STRING, _FACT),
    BrokerKey("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT", STRING, _FACT),
    BrokerKey("log.cleanup.policy", "delete", LIST, _TOPIC_DEFAULT),
    BrokerKey("log.dir", LOG_DIR, STRING, _FACT),
    BrokerKey("log.dirs", LOG_DIR, STRING, _FACT),
    BrokerKey("log.flush.interval.messages", _LONG_MAX, LONG, _TOPIC_DEFAULT),
    BrokerKey("log.index.interval.bytes", "4096", INT, _TOPIC_DEFAULT),
    BrokerKey("log.index.size.max.bytes", "10485760", INT, _TOPIC_DEFAULT),
    BrokerKey("log.message.timestamp.after.max.ms", "3600000", LONG, _TOPIC_DEFAULT),
    BrokerKey("log.message.timestamp.before.max.ms", _LONG_MAX, LONG, _TOPIC_DEFAULT),
    BrokerKey("log.message.timestamp.type", "CreateTime", STRING, _TOPIC_DEFAULT),
    BrokerKey("log.preallocate", "false", BOOLEAN, _TOPIC_DEFAULT),
    BrokerKey("log.retention.bytes", "-1", LONG, _TOPIC_DEFAULT),
    BrokerKey("log.retention.hours", "168", INT, _TOPIC_DEFAULT),
    BrokerKey("log.retention.minutes", None, INT, _TOPIC_DEFAULT),
    BrokerKey("log.retention.ms", None, LONG, _TOPIC_DEFAULT),
    BrokerKey("log.roll.hours", "168", INT, _TOPIC_DEFAULT),
    BrokerKey("log.roll.ms", None, LONG, _TOPIC_DEFAULT),
    BrokerKey("log.segment.bytes", "1073741824", INT, _TOPIC_DEFAULT),
    BrokerKey("log.segment.delete.delay.ms", "60000", LONG, _TOPIC_DEFAULT),
    BrokerKey("min.insync.replicas", "1", INT, _TOPIC_DEFAULT),
    BrokerKey("offsets.topic.compression.codec", "0", INT, _FACT),
    BrokerKey("offsets.topic.replication.factor", "1", INT, _FACT),
    BrokerKey("offsets.topic.segment.bytes", "104857600", INT, _FACT),
    BrokerKey("process.roles", "broker,controller", LIST, _FACT),
    BrokerKey("security.inter.broker.protocol", "PLAINTEXT", STRING, _FACT),
    BrokerKey("transaction.state.log.min.isr", "1", INT, _FACT),
    BrokerKey("transaction.state.log.replication.factor", "1", INT, _FACT),
    BrokerKey("unclean.leader.election.enable", "false", BOOLEAN, _TOPIC_DEFAULT),
)


def key_type(key: str) -> int:
    """The config type of one of our settings."""
    field = FIELDS_BY_KEY[key]
    if isinstance(field.default, bool):
        return BOOLEAN
    if isinstance(field.default, int):
        high = field.metadata["high"]
        small = field.default <= _INT_MAX and (high is None or high <= _INT_MAX)
        return INT if small else LONG
    return LIST if isinstance(field.default, tuple) else STRING


def own_key(config: CoordinatorConfig, key: str) -> BrokerKey:
    """One of our settings."""
    field = FIELDS_BY_KEY[key]
    value = getattr(config, field.name)
    return BrokerKey(
        key, setting_text(value), key_type(key), field.metadata["doc"], value == field.default
    )


FIXED_KEYS: Mapping[str, BrokerKey] = {
    key.name: key for key in _FIXED if key.name not in FIELDS_BY_KEY
}


def node_keys(node: Node) -> tuple[BrokerKey, ...]:
    """What differs from node to node, beside `node.id`."""
    address = f"PLAINTEXT://{node.host}:{node.port}"
    told = "The address that clients are told."
    return (
        BrokerKey("advertised.listeners", address, STRING, told, is_default=False),
        BrokerKey("broker.id", str(node.node_id), INT, _FACT, is_default=False),
        BrokerKey("listeners", address, STRING, told, is_default=False),
    )
