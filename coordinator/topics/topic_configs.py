"""The topic configs that are known: type, default, bounds.

Rules: every config of Kafka's topic table is accepted and shown, because tools set and compare
them; groupd itself acts on those whose documentation says what they do. Defaults that Kafka takes
from the broker's own config come from ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from groupd.coordinator.config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config_values import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    SOURCE_DEFAULT,
    SOURCE_STATIC_BROKER,
    SOURCE_TOPIC,
    STRING,
    InvalidValue,
    ValueRule,
    check_value,
    split_list,
)
from groupd.coordinator.settings import setting_text
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import ConfigValue

_LONG_MAX = 2**63 - 1


class TopicConfig(Struct, frozen=True):
    """`broker_keys`: the settings of ours that are the default, with what one of their units is
    worth: the first that is set counts."""

    name: str
    rule: ValueRule
    default: str
    broker_keys: tuple[tuple[str, int], ...] = ()
    documentation: str = ""


def _table(*entries: TopicConfig) -> Mapping[str, TopicConfig]:
    return MappingProxyType({entry.name: entry for entry in entries})


def _long(
    name: str,
    default: int,
    low: int | None,
    documentation: str,
    broker_keys: tuple[tuple[str, int], ...] = (),
) -> TopicConfig:
    return TopicConfig(name, ValueRule(LONG, low), str(default), broker_keys, documentation)


def _int(
    name: str,
    default: int,
    low: int,
    documentation: str,
    high: int | None = None,
    or_equal: int | None = None,
    broker_keys: tuple[tuple[str, int], ...] = (),
) -> TopicConfig:
    rule = ValueRule(INT, low, high, or_equal)
    return TopicConfig(name, rule, str(default), broker_keys, documentation)


def _boolean(name: str, documentation: str) -> TopicConfig:
    return TopicConfig(name, ValueRule(BOOLEAN), "false", documentation=documentation)


_STORED = "Accepted and shown; the store has no segment files."
_TIERED = "Accepted and shown; there is no tiered storage."

TOPIC_CONFIGS: Mapping[str, TopicConfig] = _table(
    TopicConfig(
        "cleanup.policy",
        ValueRule(LIST, choices=("compact", "delete")),
        "delete",
        broker_keys=(("log.cleanup.policy", 1),),
        documentation="delete: old records go, by retention.*; compact: the newest record of a "
        "key stays. Without `delete`, DeleteRecords is refused.",
    ),
    TopicConfig(
        "compression.type",
        ValueRule(STRING, choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        "producer",
        documentation="Accepted and shown; batches are stored as the producer sent them.",
    ),
    _int("compression.gzip.level", -1, 1, _STORED, 9, or_equal=-1),
    _int("compression.lz4.level", 9, 1, _STORED, 17),
    _int("compression.zstd.level", 3, -131072, _STORED, 22),
    _long(
        "delete.retention.ms",
        86400000,
        0,
        "How long compaction keeps tombstones and markers of transactions for readers.",
        (("log.cleaner.delete.retention.ms", 1),),
    ),
    _long("file.delete.delay.ms", 60000, 0, _STORED),
    _long("flush.messages", _LONG_MAX, 1, "Accepted and shown; every append is flushed."),
    _long("flush.ms", _LONG_MAX, 0, "Accepted and shown; every append is flushed."),
    TopicConfig(
        "follower.replication.throttled.replicas", ValueRule(LIST), "", documentation=_STORED
    ),
    _int("index.interval.bytes", 4096, 0, _STORED),
    TopicConfig(
        "leader.replication.throttled.replicas", ValueRule(LIST), "", documentation=_STORED
    ),
    _long("local.retention.bytes", -2, -2, _TIERED),
    _long("local.retention.ms", -2, -2, _TIERED),
    _long(
        "max.compaction.lag.ms",
        _LONG_MAX,
        1,
        "Records that are older are compacted, whatever segment.ms and the dirty ratio say.",
        (("log.cleaner.max.compaction.lag.ms", 1),),
    ),
    TopicConfig(
        "max.message.bytes",
        ValueRule(INT, 0),
        "1048588",
        broker_keys=(("message.max.bytes", 1),),
        documentation="Largest record batch, in bytes.",
    ),
    _long("message.timestamp.after.max.ms", 3600000, 0, "How far a record may lie in the future."),
    _long("message.timestamp.before.max.ms", _LONG_MAX, 0, "How far a record may lie in the past."),
    TopicConfig(
        "message.timestamp.type",
        ValueRule(STRING, choices=("CreateTime", "LogAppendTime")),
        "CreateTime",
        documentation="Whether a record has its producer's time or the time of the append.",
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        ValueRule(DOUBLE, 0, 1),
        "0.5",
        documentation="From which part of records that are not compacted yet on a partition is "
        "compacted; records are counted, not bytes.",
    ),
    _long(
        "min.compaction.lag.ms",
        0,
        0,
        "Records that are younger are not compacted.",
        (("log.cleaner.min.compaction.lag.ms", 1),),
    ),
    _int("min.insync.replicas", 1, 1, "Accepted and shown; there is one replica."),
    _boolean("preallocate", _STORED),
    _boolean("remote.log.copy.disable", _TIERED),
    _boolean("remote.log.delete.on.disable", _TIERED),
    _boolean("remote.storage.enable", _TIERED),
    _long(
        "retention.bytes",
        -1,
        None,
        "The oldest batches go as long as the partition keeps this many bytes; -1 = no limit.",
        (("log.retention.bytes", 1),),
    ),
    _long(
        "retention.ms",
        604800000,
        -1,
        "Batches whose newest record is older go, oldest first; -1 = never.",
        (
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", 3_600_000),
        ),
    ),
    _int(
        "segment.bytes",
        1073741824,
        1048576,
        "There are no segments. The newest records up to this size are not compacted, as Kafka's "
        "active segment.",
        broker_keys=(("log.segment.bytes", 1),),
    ),
    _int("segment.index.bytes", 10485760, 4, _STORED),
    _long("segment.jitter.ms", 0, 0, _STORED),
    _long(
        "segment.ms",
        604800000,
        1,
        "There are no segments. Records that are younger are not compacted, as Kafka's active "
        "segment.",
        (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    ),
    _boolean("unclean.leader.election.enable", "Accepted and shown; there is one replica."),
)


def topic_config_type(name: str) -> int:
    """Raises ApiError INVALID_CONFIG for an unknown name."""
    return _entry(name).rule.config_type


def check_topic_config(name: str, value: str) -> str:
    """The value in its stored form. Raises ApiError INVALID_CONFIG."""
    try:
        return check_value(name, value, _entry(name).rule)
    except InvalidValue as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from error


def check_topic_configs_together(overrides: Mapping[str, str]) -> None:
    """Rules between the configs of a topic. Raises ApiError INVALID_CONFIG."""
    least, most = (
        int(overrides.get(name, TOPIC_CONFIGS[name].default))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if least > most:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > "
            f"max.compaction.lag.ms ({most})",
        )


def _entry(name: str) -> TopicConfig:
    entry = TOPIC_CONFIGS.get(name)
    if entry is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    return entry


class TopicSettings:
    """The effective configs of one topic: overrides over broker settings over defaults."""

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
        """Whether `cleanup.policy` names it."""
        return policy in split_list(self.text("cleanup.policy"))

    def inherited(self, name: str) -> tuple[str, int]:
        """(value, source) without the topic's own override."""
        entry = TOPIC_CONFIGS[name]
        for key, unit in entry.broker_keys:
            value = getattr(self._config, FIELDS_BY_KEY[key].name)
            if value is None:
                continue
            if unit != 1 and value >= 0:
                value *= unit
            text = setting_text(value)
            if text != entry.default:
                return text, SOURCE_STATIC_BROKER
            break
        return entry.default, SOURCE_DEFAULT

    def describe(self) -> tuple[ConfigValue, ...]:
        """All configs, sorted by name."""
        return tuple(self._describe(entry) for _, entry in sorted(TOPIC_CONFIGS.items()))

    def _describe(self, entry: TopicConfig) -> ConfigValue:
        value, source = self.inherited(entry.name)
        if entry.name in self._overrides:
            value, source = self._overrides[entry.name], SOURCE_TOPIC
        return ConfigValue(
            name=entry.name,
            value=value,
            is_default=source == SOURCE_DEFAULT,
            source=source,
            config_type=entry.rule.config_type,
            documentation=entry.documentation,
        )
