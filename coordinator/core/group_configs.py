"""Dynamic settings of one group (resource GROUP): what may be set, checked and what counts.

Pure functions. Overrides are kept as given, by Kafka name; values outside later broker bounds are
clamped when read, so that changing the broker never makes a stored override an error. They take
effect at the group's next heartbeat, and the group need not exist (spec: consumer groups, 7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groupd.coordinator.config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config_values import (
    BOOLEAN,
    INT,
    SOURCE_DEFAULT,
    SOURCE_GROUP,
    STRING,
    InvalidValue,
    ValueRule,
    check_value,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import ConfigValue

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
ASSIGNOR_OFFLOAD = "consumer.assignor.offload.enable"
ASSIGNOR_ORDER = "groupd.consumer.assignor.order"

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
"""Operations of IncrementalAlterConfigs."""

_INT_STEMS = {
    SESSION_TIMEOUT: "session_timeout_ms",
    HEARTBEAT_INTERVAL: "heartbeat_interval_ms",
    ASSIGNMENT_INTERVAL: "assignment_interval_ms",
}
NAMES = (*_INT_STEMS, ASSIGNOR_OFFLOAD, ASSIGNOR_ORDER)

BROKER_KEYS = {
    SESSION_TIMEOUT: "group.consumer.session.timeout.ms",
    HEARTBEAT_INTERVAL: "group.consumer.heartbeat.interval.ms",
    ASSIGNMENT_INTERVAL: "group.consumer.assignment.interval.ms",
    ASSIGNOR_OFFLOAD: "group.consumer.assignor.offload.enable",
    ASSIGNOR_ORDER: ASSIGNOR_ORDER,
}
"""Setting -> the broker's, which counts where the group has none."""

_RULES = {
    SESSION_TIMEOUT: ValueRule(INT, 1),
    HEARTBEAT_INTERVAL: ValueRule(INT, 1),
    ASSIGNMENT_INTERVAL: ValueRule(INT, 0),
    ASSIGNOR_OFFLOAD: ValueRule(BOOLEAN),
    ASSIGNOR_ORDER: ValueRule(STRING, choices=FIELDS_BY_KEY[ASSIGNOR_ORDER].metadata["choices"]),
}

_DOCUMENTATION = {
    SESSION_TIMEOUT: "Session timeout of the group's consumer members.",
    HEARTBEAT_INTERVAL: "Heartbeat interval that the group's members are told.",
    ASSIGNMENT_INTERVAL: "Least time between two target assignments of the group.",
    ASSIGNOR_OFFLOAD: "Whether targets of a large group are computed between requests.",
    ASSIGNOR_ORDER: "Who gets partitions that nobody has where `uniform` may choose.",
}


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


def alter(
    config: CoordinatorConfig,
    current_overrides: Mapping[str, str],
    changes: Iterable[tuple[str, int, str | None]],
    *,
    group_id: str | None = None,
) -> dict[str, str]:
    """The overrides after (name, operation, value) changes; all or nothing.

    Raises INVALID_CONFIG for an unknown name, a value that is malformed or out of the broker's
    bounds, an operation meant for lists, or a session timeout not above the heartbeat interval
    (the broker's value standing in for a missing one); INVALID_REQUEST for an empty `group_id`
    or a name given twice. Deleting an unknown name is no mistake, as in Kafka.
    """
    if group_id == "":
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    overrides = dict(current_overrides)
    seen: set[str] = set()
    for name, operation, value in changes:
        if name in seen:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} is given more than once.")
        seen.add(name)
        if operation == DELETE:
            overrides.pop(name, None)
            continue
        if name not in NAMES:
            raise _invalid(f"Unknown group config name: {name}")
        if operation == SET and value is not None:
            overrides[name] = _checked(config, name, value)
        elif operation == SET:
            raise _invalid(f"Null value not supported for group configs: {name}")
        else:
            done = "SUBTRACT" if operation == SUBTRACT else "APPEND"
            raise _invalid(f"Can't {done} to key {name} because its type is not LIST.")
    _check_together(config, overrides)
    return overrides


def describe(config: CoordinatorConfig, overrides: Overrides) -> list[ConfigValue]:
    """All settings of a group, by name; values are the effective ones."""
    given = overrides or {}
    values: list[ConfigValue] = []
    for name in sorted(NAMES):
        is_default = name not in given
        if name == ASSIGNOR_OFFLOAD:
            text, kind = str(offloads_assignor(config, given)).lower(), BOOLEAN
        elif name == ASSIGNOR_ORDER:
            text, kind = _assignor_order(config, given), STRING
        else:
            text, kind = str(_clamped(config, name, given.get(name))), INT
        values.append(
            ConfigValue(
                name,
                text,
                is_default=is_default,
                source=SOURCE_DEFAULT if is_default else SOURCE_GROUP,
                config_type=kind,
                documentation=_DOCUMENTATION[name],
            )
        )
    return values


def _assignor_order(config: CoordinatorConfig, overrides: Overrides) -> str:
    text = overrides.get(ASSIGNOR_ORDER) if overrides else None
    return config.consumer_assignor_order if text is None else text.lower()


def _broker(config: CoordinatorConfig, name: str, part: str = "") -> int:
    value: int = getattr(config, f"consumer_{part}{_INT_STEMS[name]}")
    return value


def _clamped(config: CoordinatorConfig, name: str, text: str | None) -> int:
    value = _broker(config, name) if text is None else int(text)
    return min(max(value, _broker(config, name, "min_")), _broker(config, name, "max_"))


def _checked(config: CoordinatorConfig, name: str, text: str) -> str:
    """The value as it is kept. The bounds of the broker are named, as by Kafka's GroupConfig."""
    if name == ASSIGNOR_ORDER:
        text = text.lower()
    try:
        value = check_value(name, text, _RULES[name])
    except InvalidValue as error:
        raise _invalid(str(error)) from error
    if name in _INT_STEMS:
        stem = BROKER_KEYS[name].removeprefix("group.consumer.")
        if int(value) < _broker(config, name, "min_"):
            raise _invalid(f"{name} must be greater than or equal to group.consumer.min.{stem}")
        if int(value) > _broker(config, name, "max_"):
            raise _invalid(f"{name} must be less than or equal to group.consumer.max.{stem}")
    return value


def _check_together(config: CoordinatorConfig, overrides: Mapping[str, str]) -> None:
    session = int(overrides.get(SESSION_TIMEOUT, _broker(config, SESSION_TIMEOUT)))
    heartbeat = int(overrides.get(HEARTBEAT_INTERVAL, _broker(config, HEARTBEAT_INTERVAL)))
    if session <= heartbeat:
        raise _invalid(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_CONFIG, message)
