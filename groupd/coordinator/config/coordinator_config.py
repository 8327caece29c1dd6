"""The configuration: one frozen dataclass that is built once and passed down. `setting(...)` gives
each setting its Kafka key, default and range; `settings.json` says what it means. Unknown keys and
values out of range are `ConfigError`s of one line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from groupd.coordinator.config.admin_settings import AdminSettings, check_otel
from groupd.coordinator.config.data_settings import DataSettings
from groupd.coordinator.config.internal_limits import InternalLimits
from groupd.coordinator.config.node_settings import NodeSettings, limits_by_address
from groupd.coordinator.config.security_settings import SecuritySettings, check_rights
from groupd.coordinator.config.settings import (
    LISTENER_PREFIX,
    ConfigError,
    checked_listener_key,
    listener_key,
    parse_value,
    setting,
    setting_text,
)
from groupd.coordinator.config.share_settings import ShareSettings
from groupd.coordinator.suggest import did_you_mean

_INT_MAX = 2**31 - 1

WITHOUT_EFFECT: Mapping[str, str] = {
    "offsets.topic.replication.factor": "",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}
"""Keys of Kafka's files that are accepted but have no effect -> the only value that may be given;
empty: any value."""

PROTOCOLS = ("classic", "consumer")
"""The group protocols that may be listed. groupd has no `streams`; `share` is always served, as in
Kafka."""


@dataclass(frozen=True)
class CoordinatorConfig(
    AdminSettings, NodeSettings, DataSettings, ShareSettings, SecuritySettings, InternalLimits
):
    """All settings of the daemon, and its internal limits. Keys that Kafka does not have begin with
    `groupd.`."""

    # Consumer groups (KIP-848)
    consumer_session_timeout_ms: int = setting("group.consumer.session.timeout.ms", 45000, low=1)
    consumer_min_session_timeout_ms: int = setting(
        "group.consumer.min.session.timeout.ms", 45000, low=1
    )
    consumer_max_session_timeout_ms: int = setting(
        "group.consumer.max.session.timeout.ms", 60000, low=1
    )
    consumer_heartbeat_interval_ms: int = setting(
        "group.consumer.heartbeat.interval.ms", 5000, low=1
    )
    consumer_min_heartbeat_interval_ms: int = setting(
        "group.consumer.min.heartbeat.interval.ms", 5000, low=1
    )
    consumer_max_heartbeat_interval_ms: int = setting(
        "group.consumer.max.heartbeat.interval.ms", 15000, low=1
    )
    consumer_assignment_interval_ms: int = setting(
        "group.consumer.assignment.interval.ms", 1000, low=0
    )
    consumer_min_assignment_interval_ms: int = setting(
        "group.consumer.min.assignment.interval.ms", 0, low=0
    )
    consumer_max_assignment_interval_ms: int = setting(
        "group.consumer.max.assignment.interval.ms", 15000, low=0
    )
    consumer_max_size: int = setting("group.consumer.max.size", _INT_MAX, low=1)
    consumer_assignors: tuple[str, ...] = setting("group.consumer.assignors", ("uniform", "range"))
    consumer_migration_policy: str = setting(
        "group.consumer.migration.policy",
        "bidirectional",
        choices=("bidirectional", "upgrade", "downgrade", "disabled"),
    )
    consumer_regex_refresh_interval_ms: int = setting(
        "group.consumer.regex.refresh.interval.ms", 600000, low=10000, internal=True
    )
    rebalance_protocols: tuple[str, ...] = setting(
        "group.coordinator.rebalance.protocols", PROTOCOLS
    )
    group_version: int = setting("groupd.group.version", 1, low=0, high=1)
    # Classic groups
    group_min_session_timeout_ms: int = setting("group.min.session.timeout.ms", 6000, low=0)
    group_max_session_timeout_ms: int = setting("group.max.session.timeout.ms", 1800000, low=0)
    group_initial_rebalance_delay_ms: int = setting("group.initial.rebalance.delay.ms", 3000, low=0)
    group_max_size: int = setting("group.max.size", _INT_MAX, low=1)
    max_groups: int = setting("groupd.max.groups", 100000, low=1)
    # Offsets and the log
    offset_metadata_max_bytes: int = setting("offset.metadata.max.bytes", 4096, low=0)
    offsets_retention_minutes: int = setting("offsets.retention.minutes", 10080, low=1)
    offsets_retention_check_interval_ms: int = setting(
        "offsets.retention.check.interval.ms", 600000, low=1
    )
    offsets_commit_timeout_ms: int = setting("offsets.commit.timeout.ms", 5000, low=1)
    offsets_topic_num_partitions: int = setting(
        "offsets.topic.num.partitions", 50, low=1, high=10000
    )
    history_retention_ms: int = setting("groupd.history.retention.ms", 604800000, low=-1)

    listener_overrides: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Settings of single listeners: (`listener.name.NAME.KEY`, value as text), sorted by key. See
    `settings.ListenerKey`."""

    @property
    def consumer_protocol_enabled(self) -> bool:
        return "consumer" in self.rebalance_protocols and self.group_version >= 1

    @property
    def share_groups_enabled(self) -> bool:
        return self.share_version >= 1

    @property
    def dead_letter_queue_enabled(self) -> bool:
        return self.share_version >= 2


PROFILES: Mapping[str, CoordinatorConfig] = {
    "default": CoordinatorConfig(),
    "test": CoordinatorConfig(
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=1,
        consumer_assignment_interval_ms=0,
        consumer_heartbeat_interval_ms=50,
        consumer_min_heartbeat_interval_ms=1,
        consumer_min_session_timeout_ms=1,
        consumer_max_session_timeout_ms=1_800_000,
        consumer_regex_refresh_interval_ms=10_000,
        consumer_target_linger_ms=0,
        share_assignment_interval_ms=0,
        share_heartbeat_interval_ms=50,
        share_min_heartbeat_interval_ms=1,
        share_min_session_timeout_ms=1,
        share_max_session_timeout_ms=1_800_000,
        share_min_record_lock_duration_ms=1000,
        share_max_record_lock_duration_ms=3_600_000,
        fetch_max_wait_ms=25,
        log_retention_ms=-1,
    ),
}
"""Configurations by name; settings that are given one by one override them. `test` is for
integration tests: groups form and change at once, and sessions may be short or long. The session
timeout itself stays Kafka's, so that a slow machine or a breakpoint does not fence a member.
Records stay unless a topic says otherwise: a test that moves the clock by a week for another reason
would lose them."""

FIELDS_BY_KEY: Mapping[str, Field[Any]] = {
    entry.metadata["key"]: entry for entry in fields(CoordinatorConfig) if "key" in entry.metadata
}
"""Kafka's key -> dataclass field."""


def with_settings(base: CoordinatorConfig, settings: Mapping[str, str]) -> CoordinatorConfig:
    """`base`, which is valid, with the given settings, by Kafka's keys. Raises ConfigError."""
    if not settings:
        return base
    changes: dict[str, Any] = {}
    overrides = dict(base.listener_overrides)
    for key, text in settings.items():
        own = listener_key(key).key if key.startswith(LISTENER_PREFIX) else key
        if own in WITHOUT_EFFECT:
            _check_without_effect(key, text, WITHOUT_EFFECT[own])
        elif own != key:
            overrides[key] = _checked_override(key, text)
        elif key in FIELDS_BY_KEY:
            entry = FIELDS_BY_KEY[key]
            changes[entry.name] = parse_value(entry, text)
        else:
            hint = did_you_mean(key, FIELDS_BY_KEY)
            raise ConfigError(
                f"unknown config key {key!r}{hint}; `groupd config` lists the known ones"
            )
    config = replace(base, **changes, listener_overrides=tuple(sorted(overrides.items())))
    validate(config)
    return config


def _check_without_effect(key: str, text: str, only: str) -> None:
    if only and text.strip().upper() != only:
        raise ConfigError(f"{key}={text}: only {only} is served; convert the file")


def _checked_override(key: str, text: str) -> str:
    """The value of a setting for one listener. Raises ConfigError."""
    entry = FIELDS_BY_KEY[checked_listener_key(key, FIELDS_BY_KEY).key]
    try:
        parse_value(entry, text)
    except ConfigError as error:
        raise ConfigError(f"{key.removesuffix(entry.metadata['key'])}{error}") from None
    return text.strip()


def settings_of(config: CoordinatorConfig) -> dict[str, str]:
    """All settings by Kafka's keys, as `with_settings` takes them, except secrets."""
    found = {
        key: setting_text(getattr(config, entry.name))
        for key, entry in FIELDS_BY_KEY.items()
        if not entry.metadata["sensitive"]
    }
    return {**found, **{key: text for key, text in config.listener_overrides if not secret(key)}}


def internal_limits_of(config: CoordinatorConfig) -> dict[str, int]:
    """The internal limits that a profile or a test has changed."""
    values = {entry.name: getattr(config, entry.name) for entry in fields(InternalLimits)}
    return {name: value for name, value in values.items() if value != getattr(InternalLimits, name)}


def with_internal_limits(
    base: CoordinatorConfig, limits: Mapping[str, object]
) -> CoordinatorConfig:
    """`base` with the limits that `internal_limits_of` has returned. Anything else in `limits` is
    ignored."""
    names = {entry.name for entry in fields(InternalLimits)}
    known: dict[str, Any] = {
        name: value
        for name, value in limits.items()
        if name in names and isinstance(value, int) and value >= 0
    }
    return replace(base, **known)


def secret(key: str) -> bool:
    """Whether the value of a setting, also of one for a single listener, must never be shown."""
    if key.startswith(LISTENER_PREFIX):
        key = listener_key(key).key
    return key not in WITHOUT_EFFECT and bool(FIELDS_BY_KEY[key].metadata["sensitive"])


_BOUNDED = (
    ("consumer", "session.timeout.ms"),
    ("consumer", "heartbeat.interval.ms"),
    ("consumer", "assignment.interval.ms"),
    ("share", "session.timeout.ms"),
    ("share", "heartbeat.interval.ms"),
    ("share", "assignment.interval.ms"),
    ("share", "record.lock.duration.ms"),
    ("share", "delivery.count.limit"),
    ("share", "partition.max.record.locks"),
)
"""Settings of group types with a least and a largest value that are settings, too."""


def validate(config: CoordinatorConfig) -> None:
    """Check the rules between settings. Raises ConfigError."""
    for kind, name in _BOUNDED:
        stem = f"{kind}_{{}}{name.replace('.', '_')}"
        low, value, high = (getattr(config, stem.format(part)) for part in ("min_", "", "max_"))
        if not low <= value <= high:
            raise ConfigError(
                f"group.{kind}.{name}={value}: must be between group.{kind}.min.{name}={low} "
                f"and group.{kind}.max.{name}={high}; change the bound with it"
            )
    for kind in ("consumer", "share"):
        interval_ms = getattr(config, f"{kind}_heartbeat_interval_ms")
        if interval_ms >= getattr(config, f"{kind}_session_timeout_ms"):
            raise ConfigError(
                f"group.{kind}.heartbeat.interval.ms must be below group.{kind}.session.timeout.ms"
            )
    _check_protocols(config.rebalance_protocols)
    assignors = config.consumer_assignors
    if not assignors or len(set(assignors)) != len(assignors):
        raise ConfigError("group.consumer.assignors must name at least one assignor, each once")
    if len(config.share_assignors) != 1:
        raise ConfigError("group.share.assignors must name one assignor")
    if config.share_max_share_sessions < config.share_max_size:
        raise ConfigError("group.share.max.share.sessions must not be below group.share.max.size")
    if not set(config.log_cleanup_policy) <= {"compact", "delete"}:
        raise ConfigError("log.cleanup.policy must be compact, delete or both")
    if not limits_by_address(config) and config.max_connections_per_ip == 0:
        raise ConfigError(
            "max.connections.per.ip=0: only with max.connections.per.ip.overrides; "
            "otherwise nobody could connect"
        )
    check_rights(config)
    check_otel(config)
    if config.group_min_session_timeout_ms > config.group_max_session_timeout_ms:
        raise ConfigError(
            "group.min.session.timeout.ms must not exceed group.max.session.timeout.ms"
        )


def _check_protocols(protocols: tuple[str, ...]) -> None:
    key = "group.coordinator.rebalance.protocols"
    for name in protocols:
        if name not in PROTOCOLS:
            raise ConfigError(f"{key}: {name} is not served; {' and '.join(PROTOCOLS)} are")
    if "classic" not in protocols:
        raise ConfigError(f"{key} must contain classic")
