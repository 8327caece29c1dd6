"""Dynamic settings of one group (resource GROUP): what may be set, checked and what counts.

Pure functions. Overrides are kept as given, by Kafka name; values outside later broker bounds are
clamped when read, so that changing the broker never makes a stored override an error. They take
effect at the group's next heartbeat, and the group need not exist (docs/spec/consumer-group.md#7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config.keys import ConfigKey, ConfigTable
from groupd.coordinator.config.values import (
    BOOLEAN,
    INT,
    SOURCE_DEFAULT,
    SOURCE_GROUP,
    STRING,
    ValueRule,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import AlterConfig, ConfigValue

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
ASSIGNOR_OFFLOAD = "consumer.assignor.offload.enable"
ASSIGNOR_ORDER = "groupd.consumer.assignor.order"

GROUP_CONFIGS = ConfigTable(
    (
        ConfigKey(
            SESSION_TIMEOUT,
            ValueRule(INT, 1),
            documentation="Session timeout of the group's consumer members.",
            broker_key="group.consumer.session.timeout.ms",
        ),
        ConfigKey(
            HEARTBEAT_INTERVAL,
            ValueRule(INT, 1),
            documentation="Heartbeat interval that the group's members are told.",
            broker_key="group.consumer.heartbeat.interval.ms",
        ),
        ConfigKey(
            ASSIGNMENT_INTERVAL,
            ValueRule(INT, 0),
            documentation="Least time between two target assignments of the group.",
            broker_key="group.consumer.assignment.interval.ms",
        ),
        ConfigKey(
            ASSIGNOR_OFFLOAD,
            ValueRule(BOOLEAN),
            documentation="Whether targets of a large group are computed between requests.",
            broker_key="group.consumer.assignor.offload.enable",
        ),
        ConfigKey(
            ASSIGNOR_ORDER,
            ValueRule(STRING, choices=FIELDS_BY_KEY[ASSIGNOR_ORDER].metadata["choices"]),
            documentation="Who gets partitions that nobody has where `uniform` may choose.",
            broker_key=ASSIGNOR_ORDER,
        ),
    ),
    unknown=(ErrorCode.INVALID_CONFIG, "Unknown group config name: "),
    invalid=ErrorCode.INVALID_CONFIG,
)
"""The settings of a group. Where it has no value, the broker's counts. Numbers must lie within
bounds, which are settings of the broker, too."""

_BOUNDED = (SESSION_TIMEOUT, HEARTBEAT_INTERVAL, ASSIGNMENT_INTERVAL)

Overrides = Mapping[str, str] | None
"""A group's overrides by Kafka name; None = none."""


def session_timeout_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective session timeout of the group's consumer members."""
    if not overrides:
        return config.consumer_session_timeout_ms
    return _clamped(config, SESSION_TIMEOUT, overrides.get(SESSION_TIMEOUT))


def heartbeat_interval_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective heartbeat interval, as members are told."""
    if not overrides:
        return config.consumer_heartbeat_interval_ms
    return _clamped(config, HEARTBEAT_INTERVAL, overrides.get(HEARTBEAT_INTERVAL))


def assignment_interval_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective least time between two target assignments."""
    if not overrides:
        return config.consumer_assignment_interval_ms
    return _clamped(config, ASSIGNMENT_INTERVAL, overrides.get(ASSIGNMENT_INTERVAL))


def offloads_assignor(config: CoordinatorConfig, overrides: Overrides) -> bool:
    """Whether the target of a large group is computed between requests."""
    text = overrides.get(ASSIGNOR_OFFLOAD) if overrides else None
    return config.consumer_assignor_offload_enable if text is None else text.lower() == "true"


def assigns_soonest(config: CoordinatorConfig, overrides: Overrides) -> bool:
    """Whether partitions that no member has go to the members whose heartbeat comes first."""
    return _assignor_order(config, overrides) == "soonest"


def check_altered(group_id: str) -> None:
    """Raises ApiError INVALID_REQUEST for the empty name: there are no defaults for all groups."""
    if not group_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")


def alter(
    config: CoordinatorConfig,
    current_overrides: Mapping[str, str],
    changes: Iterable[AlterConfig],
) -> dict[str, str]:
    """The overrides after changes that `config_keys.check_changes` has passed; all or nothing.

    Raises ApiError INVALID_CONFIG for an unknown name, a value that is malformed or out of the
    broker's bounds, an operation meant for lists, or a session timeout not above the heartbeat
    interval (the broker's value standing in for a missing one). To delete an unknown name is no
    mistake, as in Kafka.
    """
    changes = [
        replace(change, value=change.value.lower())
        if change.name == ASSIGNOR_ORDER and change.value
        else change
        for change in changes
    ]
    overrides = GROUP_CONFIGS.changed(
        current_overrides,
        changes,
        lambda own, name: own.get(name, ""),
        lambda name, value: _check_bounds(config, name, value),
    )
    _check_together(config, overrides)
    return overrides


def describe(config: CoordinatorConfig, overrides: Overrides) -> list[ConfigValue]:
    """All settings of a group, by name; values are the effective ones."""
    given = overrides or {}
    values: list[ConfigValue] = []
    for name, key in sorted(GROUP_CONFIGS.keys.items()):
        if name == ASSIGNOR_OFFLOAD:
            text = str(offloads_assignor(config, given)).lower()
        elif name == ASSIGNOR_ORDER:
            text = _assignor_order(config, given)
        else:
            text = str(_clamped(config, name, given.get(name)))
        values.append(key.described(text, SOURCE_GROUP if name in given else SOURCE_DEFAULT))
    return values


def _assignor_order(config: CoordinatorConfig, overrides: Overrides) -> str:
    text = overrides.get(ASSIGNOR_ORDER) if overrides else None
    return config.consumer_assignor_order if text is None else text.lower()


def _broker(config: CoordinatorConfig, name: str, bound: str = "") -> int:
    """The broker's value of a number, or its bound `min.` or `max.`"""
    key = f"group.consumer.{bound}{name.removeprefix('consumer.')}"
    value: int = getattr(config, FIELDS_BY_KEY[key].name)
    return value


def _clamped(config: CoordinatorConfig, name: str, text: str | None) -> int:
    value = _broker(config, name) if text is None else int(text)
    return min(max(value, _broker(config, name, "min.")), _broker(config, name, "max."))


def _check_bounds(config: CoordinatorConfig, name: str, value: str) -> None:
    """The text is that of Kafka's GroupConfig."""
    if name not in _BOUNDED:
        return
    low, high = _broker(config, name, "min."), _broker(config, name, "max.")
    if not low <= int(value) <= high:
        raise _invalid(f"{name} must be in the range {low} to {high} inclusive.")


def _check_together(config: CoordinatorConfig, overrides: Mapping[str, str]) -> None:
    session = int(overrides.get(SESSION_TIMEOUT, _broker(config, SESSION_TIMEOUT)))
    heartbeat = int(overrides.get(HEARTBEAT_INTERVAL, _broker(config, HEARTBEAT_INTERVAL)))
    if session <= heartbeat:
        raise _invalid(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, message)
