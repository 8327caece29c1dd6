"""The settings that one consumer group may have of its own (docs/spec/consumer-group.md#10).

They take effect at the group's next heartbeat. A value outside of later bounds of the broker is
clamped when it is read, so that changing the broker never makes a stored override an error.
"""

from __future__ import annotations

from groupd.coordinator.config import FIELDS_BY_KEY, CoordinatorConfig
from groupd.coordinator.config_values import BOOLEAN, INT, STRING, ValueRule
from groupd.coordinator.core.group_configs import GroupSetting, Overrides

HEARTBEAT_INTERVAL = GroupSetting(
    name="consumer.heartbeat.interval.ms",
    broker_key="group.consumer.heartbeat.interval.ms",
    attribute="consumer_heartbeat_interval_ms",
    rule=ValueRule(INT, 1),
    documentation="Heartbeat interval that the group's members are told.",
    low="consumer_min_heartbeat_interval_ms",
    high="consumer_max_heartbeat_interval_ms",
)
SESSION_TIMEOUT = GroupSetting(
    name="consumer.session.timeout.ms",
    broker_key="group.consumer.session.timeout.ms",
    attribute="consumer_session_timeout_ms",
    rule=ValueRule(INT, 1),
    documentation="Session timeout of the group's consumer members.",
    low="consumer_min_session_timeout_ms",
    high="consumer_max_session_timeout_ms",
    above=HEARTBEAT_INTERVAL,
)
ASSIGNMENT_INTERVAL = GroupSetting(
    name="consumer.assignment.interval.ms",
    broker_key="group.consumer.assignment.interval.ms",
    attribute="consumer_assignment_interval_ms",
    rule=ValueRule(INT, 0),
    documentation="Least time between two target assignments of the group.",
    low="consumer_min_assignment_interval_ms",
    high="consumer_max_assignment_interval_ms",
)
ASSIGNOR_OFFLOAD = GroupSetting(
    name="consumer.assignor.offload.enable",
    broker_key="group.consumer.assignor.offload.enable",
    attribute="consumer_assignor_offload_enable",
    rule=ValueRule(BOOLEAN),
    documentation="Whether targets of a large group are computed between requests.",
)
ASSIGNOR_ORDER = GroupSetting(
    name="groupd.consumer.assignor.order",
    broker_key="groupd.consumer.assignor.order",
    attribute="consumer_assignor_order",
    rule=ValueRule(
        STRING, choices=FIELDS_BY_KEY["groupd.consumer.assignor.order"].metadata["choices"]
    ),
    documentation="Who gets partitions that nobody has where `uniform` may choose.",
)

SETTINGS = (
    SESSION_TIMEOUT,
    HEARTBEAT_INTERVAL,
    ASSIGNMENT_INTERVAL,
    ASSIGNOR_OFFLOAD,
    ASSIGNOR_ORDER,
)


def session_timeout_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective session timeout of the group's consumer members."""
    if not overrides:
        return config.consumer_session_timeout_ms
    return SESSION_TIMEOUT.number(config, overrides)


def heartbeat_interval_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective heartbeat interval, as members are told."""
    if not overrides:
        return config.consumer_heartbeat_interval_ms
    return HEARTBEAT_INTERVAL.number(config, overrides)


def assignment_interval_ms(config: CoordinatorConfig, overrides: Overrides) -> int:
    """The effective least time between two target assignments."""
    if not overrides:
        return config.consumer_assignment_interval_ms
    return ASSIGNMENT_INTERVAL.number(config, overrides)


def offloads_assignor(config: CoordinatorConfig, overrides: Overrides) -> bool:
    """Whether the target of a large group is computed between requests."""
    return ASSIGNOR_OFFLOAD.text(config, overrides) == "true"


def assigns_soonest(config: CoordinatorConfig, overrides: Overrides) -> bool:
    """Whether partitions that no member has go to the members whose heartbeat comes first."""
    return ASSIGNOR_ORDER.text(config, overrides) == "soonest"
