"""What online migration adds to the consumer group type: conversions, and answers to requests of
the classic protocol."""

from __future__ import annotations

from functools import partial

from msgspec.structs import replace

from groupd.coordinator.core.consumer_group.conversions import Conversions
from groupd.coordinator.core.consumer_group.group import JOIN, SYNC
from groupd.coordinator.core.consumer_group.soft_state import SoftState
from groupd.coordinator.core.group_type import GroupType
from groupd.coordinator.core.interop import (
    classic_join,
    classic_members,
    classic_requests,
    downgrade,
    upgrade,
)
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

CONVERSIONS = Conversions(upgrade.joined, downgrade.without_members)
"""Empty groups are replaced under any migration policy; groups with members are converted if the
policy allows it."""


def with_classic_members(consumer: GroupType) -> GroupType:
    """The consumer group type, extended by conversions, and by the requests and deadlines of
    members on the classic protocol."""
    return replace(
        consumer,
        soft_state=partial(SoftState, CONVERSIONS),
        foreign={
            JoinGroupRequest: classic_join.handle,
            SyncGroupRequest: classic_requests.sync,
            HeartbeatRequest: classic_requests.heartbeat,
            LeaveGroupRequest: classic_requests.leave,
        },
        deadlines={
            **consumer.deadlines,
            JOIN: classic_members.expire,
            SYNC: classic_members.expire,
        },
        completions={**consumer.completions, downgrade.OWNER: downgrade.appended},
    )
