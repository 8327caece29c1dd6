"""Configuration: one frozen dataclass, built once, passed down.

Each field names its Kafka key, default, range and meaning in `setting(...)`; `docs/config.md` is
checked against this file. Unknown keys and values out of range are `ConfigError`s with one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from ipaddress import ip_address
from typing import Any

from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.config.cluster_settings import ClusterSettings, check_cluster
from groupd.coordinator.config.connection_settings import ConnectionSettings
from groupd.coordinator.config.data_settings import DataSettings
from groupd.coordinator.config.listener_keys import (
    LISTENER_PREFIX,
    checked_listener_key,
    listener_key,
)
from groupd.coordinator.config.otel_settings import OtelSettings, check_otel
from groupd.coordinator.config.security_settings import SecuritySettings, check_rights
from groupd.coordinator.config.settings import (
    ConfigError as ConfigError,  # users catch it by this name
)
from groupd.coordinator.config.settings import parse_value, setting, setting_text
from groupd.coordinator.config.transaction_settings import TransactionSettings
from groupd.coordinator.suggest import did_you_mean

_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class CoordinatorConfig(
    AdminSettings,
    ClusterSettings,
    ConnectionSettings,
    DataSettings,
    OtelSettings,
    SecuritySettings,
    TransactionSettings,
):
    """Every setting of the daemon. Names without Kafka's equivalent start with `groupd.`."""

    # Consumer groups (KIP-848)
    consumer_session_timeout_ms: int = setting(
        "group.consumer.session.timeout.ms", 45000, "Session timeout of consumer members.", low=1
    )
    consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms", 45000, "Least session timeout.", low=1
    )
    consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms", 60000, "Largest session timeout.", low=1
    )
    consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms", 5000, "Interval that members are told.", low=1
    )
    consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms", 5000, "Least heartbeat interval.", low=1
    )
    consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms", 15000, "Largest heartbeat interval.", low=1
    )
    consumer_assignment_interval_ms: int = setting(
        "group.consumer.assignment.interval.ms",
        1000,
        "Least time between two target assignments of a group (KIP-1263); 0 = none.",
        low=0,
    )
    consumer_min_assignment_interval_ms: int = setting(
        "group.consumer.min.assignment.interval.ms", 0, "Least assignment interval.", low=0
    )
    consumer_max_assignment_interval_ms: int = setting(
        "group.consumer.max.assignment.interval.ms", 15000, "Largest assignment interval.", low=0
    )
    consumer_target_linger_ms: int = setting(
        "groupd.consumer.target.linger.ms",
        5,
        "How long a member that needs a new target assignment waits for others that come at the "
        "same time; four times as long for a group's first, ten times once a second member has "
        "come; 0 = not at all.",
        low=0,
        high=100,
    )
    consumer_assignor_offload_enable: bool = setting(
        "group.consumer.assignor.offload.enable",
        True,
        "Whether the target of a large group is computed in slices between requests, instead of "
        "in the heartbeat that finds it due.",
        internal=True,
    )
    consumer_assignor_offload_min_size: int = setting(
        "group.consumer.assignor.offload.min.size",
        6000,
        "From where on a group is large: its partitions, and 30 for each member.",
        low=0,
    )
    consumer_assignor_order: str = setting(
        "groupd.consumer.assignor.order",
        "soonest",
        "Who gets partitions that nobody has where the assignor `uniform` may choose: the members "
        "whose next heartbeat is due soonest, or, canonical, always the last ones by member id.",
        choices=("soonest", "canonical"),
    )
    consumer_max_size: int = setting(
        "group.consumer.max.size", _INT_MAX, "Most members in a consumer group.", low=1
    )
    consumer_assignors: tuple[str, ...] = setting(
        "group.consumer.assignors",
        ("uniform", "range"),
        "Server-side assignors; the first is the default. Built in: uniform, range, roundrobin, "
        "sticky; others as an entry point of groupd.assignors or as module:Class.",
    )
    consumer_migration_policy: str = setting(
        "group.consumer.migration.policy",
        "bidirectional",
        "Which live conversions between classic and consumer groups are allowed.",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    consumer_regex_refresh_interval_ms: int = setting(
        "group.consumer.regex.refresh.interval.ms",
        600000,
        "How often regular expressions are resolved again.",
        low=10000,
        internal=True,
    )
    rebalance_protocols: tuple[str, ...] = setting(
        "group.coordinator.rebalance.protocols",
        ("classic", "consumer", "streams"),
        "Protocols that are served; must contain classic.",
    )
    group_version: int = setting(
        "groupd.group.version", 1, "Finalized feature group.version.", low=0, high=1
    )
    # Classic groups
    group_min_session_timeout_ms: int = setting(
        "group.min.session.timeout.ms", 6000, "Least session timeout of classic members.", low=0
    )
    group_max_session_timeout_ms: int = setting(
        "group.max.session.timeout.ms",
        1800000,
        "Largest session timeout of classic members.",
        low=0,
    )
    group_initial_rebalance_delay_ms: int = setting(
        "group.initial.rebalance.delay.ms",
        3000,
        "How long the first rebalance of an empty classic group waits for more members.",
        low=0,
    )
    group_max_size: int = setting(
        "group.max.size", _INT_MAX, "Most members in a classic group.", low=1
    )
    group_max_pending_members: int = setting(
        "groupd.group.max.pending.members",
        1000,
        "Most member ids of a classic group that were given out and are not used yet; the oldest "
        "one is forgotten for the next.",
        low=1,
    )
    max_groups: int = setting(
        "groupd.max.groups",
        100000,
        "Most groups of a process. Beyond it nobody can make a new one.",
        low=1,
    )
    # Offsets and the log
    offset_metadata_max_bytes: int = setting(
        "offset.metadata.max.bytes", 4096, "Largest commit metadata, in UTF-16 units.", low=0
    )
    offsets_retention_minutes: int = setting(
        "offsets.retention.minutes", 10080, "How long unused offsets are kept.", low=1
    )
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", 600000, "How often offsets expire.", low=1
    )
    offsets_commit_timeout_ms: int = setting(
        "offsets.commit.timeout.ms", 5000, "Longest wait for a write of the coordinator.", low=1
    )
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions",
        50,
        "Partitions of __consumer_offsets; fixed once the data directory exists.",
        low=1,
        high=10000,
    )
    offsets_topic_replication_factor: int = setting(
        "offsets.topic.replication.factor", 3, "Accepted for compatibility.", low=1, high=32767
    )
    history_retention_ms: int = setting(
        "groupd.history.retention.ms",
        604800000,
        "How long the log of the coordinator stays as it was written; then only the newest record "
        "per key is kept. 0 = not at all, -1 = for ever.",
        low=-1,
    )
    log_cleaner_enable: bool = setting(
        "log.cleaner.enable",
        True,
        "Compact the log of the coordinator and topics in the background.",
    )
    log_cleaner_backoff_ms: int = setting(
        "log.cleaner.backoff.ms", 15000, "How often the cleaner looks for something to do.", low=1
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        "log.cleaner.min.compaction.lag.ms",
        0,
        "Records younger than this are not compacted. Default of min.compaction.lag.ms.",
        low=0,
    )
    log_cleaner_delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms",
        86400000,
        "How long a compacted log keeps tombstones and markers for its readers. Default of "
        "delete.retention.ms.",
        low=0,
    )
    # The daemon
    steady_replies_enable: bool = setting(
        "groupd.steady.replies.enable",
        True,
        "Answer the repeated heartbeat of a settled member from its last reply.",
    )
    node_id: int = setting(
        "node.id",
        0,
        "Broker id that clients see; with --cluster, 0 means that the node draws one, "
        "the lowest that no node has had.",
        low=0,
    )
    store_wait_ms: int = setting(
        "groupd.store.wait.ms",
        60000,
        "How long a start waits for a PostgreSQL server that cannot be reached yet.",
        low=0,
    )
    telemetry_enable: bool = setting(
        "groupd.telemetry.enable",
        False,
        "Whether clients are told that they can push metrics (KIP-714) even while there is no "
        "subscription. Those that can then ask for subscriptions, each once in five minutes.",
    )
    telemetry_max_bytes: int = setting(
        "telemetry.max.bytes", 1048576, "Largest push of a client's metrics (KIP-714).", low=1
    )

    listener_overrides: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """(`listener.name.NAME.KEY`, value as text), by key: see `listener_keys.py`."""

    @property
    def consumer_protocol_enabled(self) -> bool:
        return "consumer" in self.rebalance_protocols and self.group_version >= 1


FIELDS_BY_KEY: Mapping[str, Field[Any]] = {
    entry.metadata["key"]: entry for entry in fields(CoordinatorConfig) if "key" in entry.metadata
}
"""Kafka name -> dataclass field."""


def with_settings(base: CoordinatorConfig, settings: Mapping[str, str]) -> CoordinatorConfig:
    """`base` with the given Kafka-named settings. Raises ConfigError."""
    changes: dict[str, Any] = {}
    overrides = dict(base.listener_overrides)
    for key, text in settings.items():
        if key.startswith(LISTENER_PREFIX):
            overrides[key] = _checked_override(key, text)
            continue
        entry = FIELDS_BY_KEY.get(key)
        if entry is None:
            hint = did_you_mean(key, FIELDS_BY_KEY)
            raise ConfigError(
                f"unknown config key {key!r}{hint}; `groupd config` lists the known ones"
            )
        changes[entry.name] = parse_value(entry, text)
    config = replace(base, **changes, listener_overrides=tuple(sorted(overrides.items())))
    validate(config)
    return config


def _checked_override(key: str, text: str) -> str:
    """The value of a setting of one listener. Raises ConfigError."""
    entry = FIELDS_BY_KEY[checked_listener_key(key, FIELDS_BY_KEY).key]
    try:
        parse_value(entry, text)
    except ConfigError as error:
        raise ConfigError(f"{key.removesuffix(entry.metadata['key'])}{error}") from None
    return text.strip()


def settings_of(config: CoordinatorConfig) -> dict[str, str]:
    """Every setting by its Kafka name, as `with_settings` takes it, except secrets."""
    found = {
        key: setting_text(getattr(config, entry.name))
        for key, entry in FIELDS_BY_KEY.items()
        if not entry.metadata["sensitive"]
    }
    return {**found, **{key: text for key, text in config.listener_overrides if not secret(key)}}


def secret(key: str) -> bool:
    """Whether the value of a setting, also of one listener, must never be shown."""
    if key.startswith(LISTENER_PREFIX):
        key = listener_key(key).key
    return bool(FIELDS_BY_KEY[key].metadata["sensitive"])


def limits_by_address(config: CoordinatorConfig) -> dict[str, int]:
    """`max.connections.per.ip.overrides` by address. Raises ConfigError."""
    limits = {}
    for entry in config.max_connections_per_ip_overrides:
        address, _, limit = entry.rpartition(":")
        try:
            limits[plain_address(str(ip_address(address.strip("[]"))))] = int(limit)
        except ValueError:
            raise ConfigError(
                f"max.connections.per.ip.overrides={entry}: must be an address and a number, "
                "such as 10.0.0.7:100"
            ) from None
    if any(limit < 0 for limit in limits.values()):
        raise ConfigError("max.connections.per.ip.overrides: a limit must be at least 0")
    return limits


def plain_address(address: str) -> str:
    """The address; an IPv4 address in IPv6's form, as a socket for both has it, as IPv4."""
    return address.removeprefix("::ffff:") if "." in address else address


def validate(config: CoordinatorConfig) -> None:
    """Checks the rules between settings. Raises ConfigError."""
    for name in ("session.timeout", "heartbeat.interval", "assignment.interval"):
        stem = f"consumer_{{}}{name.replace('.', '_')}_ms"
        low, value, high = (getattr(config, stem.format(part)) for part in ("min_", "", "max_"))
        if not low <= value <= high:
            raise ConfigError(
                f"group.consumer.{name}.ms={value}: must be between "
                f"group.consumer.min.{name}.ms={low} and group.consumer.max.{name}.ms={high}; "
                "change the bound with it"
            )
    if config.consumer_heartbeat_interval_ms >= config.consumer_session_timeout_ms:
        raise ConfigError(
            "group.consumer.heartbeat.interval.ms must be below group.consumer.session.timeout.ms"
        )
    if "classic" not in config.rebalance_protocols:
        raise ConfigError("group.coordinator.rebalance.protocols must contain classic")
    assignors = config.consumer_assignors
    if not assignors or len(set(assignors)) != len(assignors):
        raise ConfigError("group.consumer.assignors must name at least one assignor, each once")
    if not set(config.log_cleanup_policy) <= {"compact", "delete"}:
        raise ConfigError("log.cleanup.policy must be compact, delete or both")
    if not limits_by_address(config) and config.max_connections_per_ip == 0:
        raise ConfigError(
            "max.connections.per.ip=0: only with max.connections.per.ip.overrides; "
            "otherwise nobody could connect"
        )
    check_rights(config)
    check_cluster(config)
    check_otel(config)
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        raise ConfigError(
            "group.min.session.timeout.ms must not exceed group.max.session.timeout.ms"
        )
