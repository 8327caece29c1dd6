"""The topic configs that are known: type, default, bounds.

Rules: every config of Kafka's topic table is accepted and shown, because tools set and compare
them; groupd itself acts on those whose documentation says what they do. Defaults that Kafka takes
from the broker's own config come from ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from coordinator.config import FIELDS_BY_KEY, CoordinatorConfig
from protocol.errors import ApiError, ErrorCode
from protocol.frozen import dataclass
from protocol.messages.topics import ConfigValue

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = 1, 2, 3, 5, 6, 7
"""Config types, as DescribeConfigs numbers them."""

SOURCE_TOPIC, SOURCE_STATIC_BROKER, SOURCE_DEFAULT = 1, 4, 5

_INT_MAX = 2**31 - 1
_LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """`low`/`high` bound numbers inclusively; `choices` bound strings and list items.
    `broker_keys`: the settings of ours that are the default, with what one of their units is worth:
    the first that is set counts."""

    name: str
    config_type: int
    default: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
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
    return TopicConfig(
        name,
        LONG,
        str(default),
        low,
        _LONG_MAX,
        broker_keys=broker_keys,
        documentation=documentation,
    )


def _int(
    name: str,
    default: int,
    low: int,
    documentation: str,
    broker_keys: tuple[tuple[str, int], ...] = (),
) -> TopicConfig:
    return TopicConfig(
        name,
        INT,
        str(default),
        low,
        _INT_MAX,
        broker_keys=broker_keys,
        documentation=documentation,
    )


def _boolean(name: str, documentation: str) -> TopicConfig:
    return TopicConfig(name, BOOLEAN, "false", documentation=documentation)


_STORED = "Accepted and shown; the store has no segment files."
_TIERED = "Accepted and shown; there is no tiered storage."

TOPIC_CONFIGS: Mapping[str, TopicConfig] = _table(
    TopicConfig(
        "cleanup.policy",
        LIST,
        "delete",
        choices=("compact", "delete"),
        broker_keys=(("log.cleanup.policy", 1),),
        documentation="delete: old records go, by retention.*; compact: the newest record of a "
        "key stays. Without `delete`, DeleteRecords is refused.",
    ),
    TopicConfig(
        "compression.type",
        STRING,
        "producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        documentation="Accepted and shown; batches are stored as the producer sent them.",
    ),
    _int("compression.gzip.level", -1, -1, _STORED),
    TopicConfig("compression.lz4.level", INT, "9", 1, 17, documentation=_STORED),
    TopicConfig("compression.zstd.level", INT, "3", -131072, 22, documentation=_STORED),
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
    TopicConfig("follower.replication.throttled.replicas", LIST, "", documentation=_STORED),
    _int("index.interval.bytes", 4096, 0, _STORED),
    TopicConfig("leader.replication.throttled.replicas", LIST, "", documentation=_STORED),
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
        INT,
        "1048588",
        0,
        _INT_MAX,
        broker_keys=(("message.max.bytes", 1),),
        documentation="Largest record batch, in bytes.",
    ),
    _long("message.timestamp.after.max.ms", 3600000, 0, "How far a record may lie in the future."),
    _long("message.timestamp.before.max.ms", _LONG_MAX, 0, "How far a record may lie in the past."),
    TopicConfig(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        documentation="Whether a record has its producer's time or the time of the append.",
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        0,
        1,
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
        14,
        "There are no segments. The newest records up to this size are not compacted, as Kafka's "
        "active segment.",
        (("log.segment.bytes", 1),),
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


def check_topic_config(name: str, value: str) -> str:
    """The value in its stored form. Raises ApiError INVALID_CONFIG."""
    entry = TOPIC_CONFIGS.get(name)
    if entry is None:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {name}")
    value = value.strip()
    reason = _invalid(entry, value)
    if reason is not None:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Invalid value {value} for configuration {name}: {reason}"
        )
    return value.lower() if entry.config_type == BOOLEAN else value


def _invalid(entry: TopicConfig, value: str) -> str | None:
    if entry.config_type == BOOLEAN:
        ok = value.lower() in ("true", "false")
        return None if ok else "Expected value to be either true or false"
    if entry.config_type == LIST:
        bad = [item for item in split_list(value) if entry.choices and item not in entry.choices]
        return f"String must be one of: {', '.join(entry.choices)}" if bad else None
    if entry.config_type == STRING:
        ok = not entry.choices or value in entry.choices
        return None if ok else f"String must be one of: {', '.join(entry.choices)}"
    return _invalid_number(entry, value)


def _invalid_number(entry: TopicConfig, value: str) -> str | None:
    try:
        number = float(value) if entry.config_type == DOUBLE else int(value)
    except ValueError:
        return f"Not a number of type {'DOUBLE' if entry.config_type == DOUBLE else 'INT'}"
    if entry.low is not None and number < entry.low:
        return f"Value must be at least {entry.low}"
    if entry.high is not None and not number <= entry.high:
        return f"Value must be no more than {entry.high}"
    return None


def split_list(value: str) -> list[str]:
    """The items of a LIST value."""
    return [item.strip() for item in value.split(",") if item.strip()]


def broker_value(config: CoordinatorConfig, key: str) -> str | None:
    """A setting of ours as text, in Kafka's spelling of booleans and lists; None if unset."""
    value = getattr(config, FIELDS_BY_KEY[key].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return None
    return ",".join(value) if isinstance(value, tuple) else str(value)


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
            value = broker_value(self._config, key)
            if value is None:
                continue
            if unit != 1 and int(value) >= 0:
                value = str(int(value) * unit)
            if value != entry.default:
                return value, SOURCE_STATIC_BROKER
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
            config_type=entry.config_type,
            documentation=entry.documentation,
        )
