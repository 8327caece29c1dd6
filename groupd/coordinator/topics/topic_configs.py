"""The topic configs: type, default, bounds, and the broker key that sets the default. Every config
of Kafka's topic table is accepted and shown, because tools set and compare them. groupd acts on a
config unless its documentation says that it is only accepted and shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config.keys import ConfigKey, ConfigTable, check_count
from groupd.coordinator.config.settings import setting_text
from groupd.coordinator.config.values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    SOURCE_DEFAULT,
    SOURCE_STATIC_BROKER,
    SOURCE_TOPIC,
    STRING,
    ValueRule,
    split_list,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import ConfigSynonym, ConfigValue

_LONG_MAX = 2**63 - 1

BROKER_KEY_UNITS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", 60_000),
        ("log.retention.hours", 3_600_000),
    ),
    "log.roll.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
}
"""Broker keys that set the same default in several units, and for each the factor to the unit of
the topic config. The first key that is set counts."""


def _long(
    name: str, default: int, low: int | None, documentation: str, broker_key: str | None = None
) -> ConfigKey:
    return ConfigKey(name, ValueRule(LONG, low), str(default), documentation, broker_key)


def _int(
    name: str, default: int, rule: ValueRule, documentation: str, broker_key: str
) -> ConfigKey:
    return ConfigKey(name, rule, str(default), documentation, broker_key)


def _boolean(name: str, documentation: str, broker_key: str | None = None) -> ConfigKey:
    return ConfigKey(name, ValueRule(BOOLEAN), "false", documentation, broker_key)


_STORED = "Accepted and shown; the store has no segment files."
_TIERED = "Accepted and shown; there is no tiered storage."
_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

_KEYS = (
    ConfigKey(
        "cleanup.policy",
        ValueRule(LIST, choices=("compact", "delete")),
        "delete",
        "delete: old records go, by retention.*; compact: the newest record of a key stays. "
        "Without `delete`, DeleteRecords is refused.",
        "log.cleanup.policy",
    ),
    ConfigKey(
        "compression.type",
        ValueRule(STRING, choices=_COMPRESSIONS),
        "producer",
        "Accepted and shown; batches are stored as the producer sent them.",
        "compression.type",
    ),
    _int("compression.gzip.level", -1, ValueRule(INT, 1, 9, -1), _STORED, "compression.gzip.level"),
    _int("compression.lz4.level", 9, ValueRule(INT, 1, 17), _STORED, "compression.lz4.level"),
    _int(
        "compression.zstd.level",
        3,
        ValueRule(INT, -131072, 22),
        _STORED,
        "compression.zstd.level",
    ),
    _long(
        "delete.retention.ms",
        86400000,
        0,
        "How long compaction keeps tombstones and markers of transactions for readers.",
        "log.cleaner.delete.retention.ms",
    ),
    _boolean(
        "errors.deadletterqueue.group.enable", "Whether share groups may put dead letters here."
    ),
    _long("file.delete.delay.ms", 60000, 0, _STORED, "log.segment.delete.delay.ms"),
    _long(
        "flush.messages",
        _LONG_MAX,
        1,
        "Accepted and shown; every append is flushed.",
        "log.flush.interval.messages",
    ),
    _long("flush.ms", _LONG_MAX, 0, "Accepted and shown; every append is flushed."),
    ConfigKey("follower.replication.throttled.replicas", ValueRule(LIST), documentation=_STORED),
    _int("index.interval.bytes", 4096, ValueRule(INT, 0), _STORED, "log.index.interval.bytes"),
    ConfigKey("leader.replication.throttled.replicas", ValueRule(LIST), documentation=_STORED),
    _long("local.retention.bytes", -2, -2, _TIERED, "log.local.retention.bytes"),
    _long("local.retention.ms", -2, -2, _TIERED, "log.local.retention.ms"),
    _long(
        "max.compaction.lag.ms",
        _LONG_MAX,
        1,
        "Records that are older are compacted, whatever segment.ms and the dirty ratio say.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    _int(
        "max.decompressed.message.bytes",
        2147483639,
        ValueRule(INT, 1, 2147483639),
        "Accepted and shown; a batch may unpack to groupd.produce.unpacked.max.bytes.",
        "max.decompressed.message.bytes",
    ),
    _int(
        "max.message.bytes",
        1048588,
        ValueRule(INT, 0),
        "Largest record batch, in bytes.",
        "message.max.bytes",
    ),
    _long(
        "message.timestamp.after.max.ms",
        3600000,
        0,
        "How far a record may lie in the future.",
        "log.message.timestamp.after.max.ms",
    ),
    _long(
        "message.timestamp.before.max.ms",
        _LONG_MAX,
        0,
        "How far a record may lie in the past.",
        "log.message.timestamp.before.max.ms",
    ),
    ConfigKey(
        "message.timestamp.type",
        ValueRule(STRING, choices=("CreateTime", "LogAppendTime")),
        "CreateTime",
        "Whether a record has its producer's time or the time of the append.",
        "log.message.timestamp.type",
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        ValueRule(DOUBLE, 0, 1),
        "0.5",
        "From which part of records that are not compacted yet on a partition is compacted; "
        "records are counted, not bytes.",
        "log.cleaner.min.cleanable.ratio",
    ),
    _long(
        "min.compaction.lag.ms",
        0,
        0,
        "Records that are younger are not compacted.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    _int(
        "min.insync.replicas",
        1,
        ValueRule(INT, 1),
        "Accepted and shown; there is one replica.",
        "min.insync.replicas",
    ),
    _boolean("preallocate", _STORED, "log.preallocate"),
    _long("remote.copy.lag.bytes", -1, -1, _TIERED, "log.remote.copy.lag.bytes"),
    _long("remote.copy.lag.ms", 0, -1, _TIERED, "log.remote.copy.lag.ms"),
    _boolean("remote.log.copy.disable", _TIERED),
    _boolean("remote.log.delete.on.disable", _TIERED),
    _boolean("remote.storage.enable", _TIERED),
    _long(
        "retention.bytes",
        -1,
        None,
        "The oldest batches go as long as the partition keeps this many bytes; -1 = no limit.",
        "log.retention.bytes",
    ),
    _long(
        "retention.ms",
        604800000,
        -1,
        "Batches whose newest record is older go, oldest first; -1 = never.",
        "log.retention.ms",
    ),
    _int(
        "segment.bytes",
        1073741824,
        ValueRule(INT, 1048576),
        "There are no segments. The newest records up to this size are not compacted, as Kafka's "
        "active segment.",
        "log.segment.bytes",
    ),
    _int("segment.index.bytes", 10485760, ValueRule(INT, 4), _STORED, "log.index.size.max.bytes"),
    _long("segment.jitter.ms", 0, 0, _STORED),
    _long(
        "segment.ms",
        604800000,
        1,
        "There are no segments. Records that are younger are not compacted, as Kafka's active "
        "segment.",
        "log.roll.ms",
    ),
    _boolean(
        "unclean.leader.election.enable",
        "Accepted and shown; there is one replica.",
        "unclean.leader.election.enable",
    ),
)

TOPIC_CONFIGS = ConfigTable(
    _KEYS,
    unknown=(ErrorCode.INVALID_CONFIG, "Unknown topic config name: "),
    invalid=ErrorCode.INVALID_CONFIG,
)


def new_topic_configs(given: Sequence[tuple[str, str | None]]) -> dict[str, str]:
    """The overrides of a new topic. Raises ApiError INVALID_CONFIG, also for null values, and
    INVALID_REQUEST for too many configs."""
    check_count(given)
    missing = [name for name, value in given if value is None]
    if missing:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(missing)}",
        )
    # A pair that a later pair of the same name replaces is checked, too.
    return {name: TOPIC_CONFIGS.checked(name, value) for name, value in given if value is not None}


def check_configs_together(overrides: Mapping[str, str]) -> None:
    """Check the rules between configs of a topic. Raises ApiError INVALID_CONFIG."""
    least, most = (
        int(overrides.get(name, TOPIC_CONFIGS.keys[name].default))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if least > most:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})",
        )


class TopicSettings:
    """The effective configs of one topic: overrides, then broker settings, then defaults."""

    __slots__ = ("_config", "_overrides")

    def __init__(self, config: CoordinatorConfig, overrides: Mapping[str, str]) -> None:
        self._config = config
        self._overrides = overrides

    def text(self, name: str) -> str:
        value = self._overrides.get(name)
        return self.inherited(name)[0] if value is None else value

    def number(self, name: str) -> int:
        return int(self.text(name))

    def ratio(self, name: str) -> float:
        return float(self.text(name))

    def has_policy(self, policy: str) -> bool:
        """Whether `cleanup.policy` has this policy."""
        return policy in split_list(self.text("cleanup.policy"))

    def inherited(self, name: str) -> tuple[str, int]:
        """(value, source) without the override of the topic itself."""
        key = TOPIC_CONFIGS.keys[name]
        for broker_key, unit in _units(key):
            field = FIELDS_BY_KEY.get(broker_key)
            value = None if field is None else getattr(self._config, field.name)
            if value is None:
                continue
            text = setting_text(value * unit if unit != 1 and value >= 0 else value)
            return text, SOURCE_DEFAULT if text == key.default else SOURCE_STATIC_BROKER
        return key.default, SOURCE_DEFAULT

    def describe(
        self, synonyms: Mapping[str, tuple[ConfigSynonym, ...]]
    ) -> tuple[ConfigValue, ...]:
        """All configs, sorted by name, as CreateTopics shows them. `synonyms`: the sources of each
        value besides the topic itself."""
        described = []
        for name, key in sorted(TOPIC_CONFIGS.keys.items()):
            value, source = self.inherited(name)
            if synonyms[name]:
                source = synonyms[name][0].source
            if name in self._overrides:
                value, source = self._overrides[name], SOURCE_TOPIC
            described.append(key.described(value, source))
        return tuple(described)


def _units(key: ConfigKey) -> Iterable[tuple[str, int]]:
    """Returns the broker keys that set the default of a topic config, and for each the factor from
    its unit to the unit of the topic config."""
    if key.broker_key is None:
        return ()
    return BROKER_KEY_UNITS.get(key.broker_key, ((key.broker_key, 1),))
