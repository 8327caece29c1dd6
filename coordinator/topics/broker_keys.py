"""What DescribeConfigs shows of a broker: our settings, and Kafka's keys that tools look for.

The latter are facts of this broker in Kafka's words; they can not be set. The names that topic
configs have among the broker's settings are Kafka's (ServerTopicConfigSynonyms).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from groupd.coordinator.config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config_values import BOOLEAN, INT, LIST, LONG, STRING
from groupd.coordinator.settings import setting_text
from groupd.protocol.messages.cluster import Node

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
)
"""Settings that clients may change while the broker runs, all of them dynamic in Kafka, too. Who
uses them asks for them at each use; shards and workers are told (`BrokerConfigs.follow`)."""

TOPIC_SYNONYMS: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""Topic config -> the broker's key for its default."""

KEY_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
}
"""Keys for the same thing in other units, the one that counts first."""


class BrokerKey(Struct, frozen=True):
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
    BrokerKey("log.dir", LOG_DIR, STRING, _FACT),
    BrokerKey("log.dirs", LOG_DIR, STRING, _FACT),
    BrokerKey("log.flush.interval.messages", _LONG_MAX, LONG, _TOPIC_DEFAULT),
    BrokerKey("log.index.interval.bytes", "4096", INT, _TOPIC_DEFAULT),
    BrokerKey("log.index.size.max.bytes", "10485760", INT, _TOPIC_DEFAULT),
    BrokerKey("log.message.timestamp.after.max.ms", "3600000", LONG, _TOPIC_DEFAULT),
    BrokerKey("log.message.timestamp.before.max.ms", _LONG_MAX, LONG, _TOPIC_DEFAULT),
    BrokerKey("log.message.timestamp.type", "CreateTime", STRING, _TOPIC_DEFAULT),
    BrokerKey("log.preallocate", "false", BOOLEAN, _TOPIC_DEFAULT),
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
    if field.default is None or isinstance(field.default, int):
        high = field.metadata["high"]
        small = (field.default or 0) <= _INT_MAX and (high is None or high <= _INT_MAX)
        return INT if small else LONG
    return LIST if isinstance(field.default, tuple) else STRING


def own_key(config: CoordinatorConfig, key: str) -> BrokerKey:
    """One of our settings."""
    field = FIELDS_BY_KEY[key]
    value = getattr(config, field.name)
    text = None if value is None else setting_text(value)
    return BrokerKey(key, text, key_type(key), field.metadata["doc"], value == field.default)


def default_text(key: str) -> str | None:
    """The default of one of our settings; None: not set."""
    default = FIELDS_BY_KEY[key].default
    return None if default is None else setting_text(default)


FIXED_KEYS: Mapping[str, BrokerKey] = {key.name: key for key in _FIXED}


def node_keys(node: Node) -> tuple[BrokerKey, ...]:
    """What differs from node to node, beside `node.id`."""
    address = f"PLAINTEXT://{node.host}:{node.port}"
    told = "The address that clients are told."
    return (
        BrokerKey("advertised.listeners", address, STRING, told, is_default=False),
        BrokerKey("broker.id", str(node.node_id), INT, _FACT, is_default=False),
        BrokerKey("listeners", address, STRING, told, is_default=False),
    )
