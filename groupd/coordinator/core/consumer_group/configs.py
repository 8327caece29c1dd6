"""Dynamic settings of consumer groups (docs/spec/consumer-group.md#7)."""

from __future__ import annotations

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.values import INT, ValueRule
from groupd.coordinator.core.group_configs import GroupConfig, Overrides

SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"

_SESSION_TIMEOUT = GroupConfig(
    SESSION_TIMEOUT,
    ValueRule(INT, 1),
    documentation="Session timeout of the group's consumer members.",
    broker_key="group.consumer.session.timeout.ms",
    low_key="group.consumer.min.session.timeout.ms",
    high_key="group.consumer.max.session.timeout.ms",
    above=HEARTBEAT_INTERVAL,
)
_HEARTBEAT_INTERVAL = GroupConfig(
    HEARTBEAT_INTERVAL,
    ValueRule(INT, 1),
    documentation="Heartbeat interval that the group's members are told.",
    broker_key="group.consumer.heartbeat.interval.ms",
    low_key="group.consumer.min.heartbeat.interval.ms",
    high_key="group.consumer.max.heartbeat.interval.ms",
)
_ASSIGNMENT_INTERVAL = GroupConfig(
    ASSIGNMENT_INTERVAL,
    ValueRule(INT, 0),
    documentation="Least time between two target assignments of the group.",
    broker_key="group.consumer.assignment.interval.ms",
    low_key="group.consumer.min.assignment.interval.ms",
    high_key="group.consumer.max.assignment.interval.ms",
)
CONFIGS = (_SESSION_TIMEOUT, _HEARTBEAT_INTERVAL, _ASSIGNMENT_INTERVAL)


def session_timeout_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective session timeout, in ms, of the group's members on the consumer protocol."""
    if not overrides:
        return config.consumer_session_timeout_ms
    return _SESSION_TIMEOUT.number(config, overrides)


def heartbeat_interval_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective heartbeat interval in ms, which members get in their replies."""
    if not overrides:
        return config.consumer_heartbeat_interval_ms
    return _HEARTBEAT_INTERVAL.number(config, overrides)


def assignment_interval_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective shortest time, in ms, between two target assignments."""
    if not overrides:
        return config.consumer_assignment_interval_ms
    return _ASSIGNMENT_INTERVAL.number(config, overrides)
