"""The answers to what `core.migration` asks, and the requests of the classic protocol that consumer
groups answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import (
    JOIN,
    SYNC,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import GroupType
from groupd.coordinator.core.interop import (
    classic_join,
    classic_members,
    classic_requests,
    downgrade,
    upgrade,
)
from groupd.coordinator.core.interop.downgrade import appended
from groupd.coordinator.core.migration import JoinedGroup
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)


def with_classic_members(consumer: GroupType) -> GroupType:
    """The consumer group type, extended by the requests and deadlines of members on the classic
    protocol."""
    return replace(
        consumer,
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
        completions={**consumer.completions, downgrade.OWNER: appended},
    )


class OnlineMigration:
    """The `core.migration.Migration` of a shard. Empty groups are replaced under any migration
    policy; groups with members are converted if the policy allows it."""

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def may_become_classic(self, group: Group) -> bool:
        return isinstance(group, ConsumerGroup) and group.is_empty()

    def joined_by_consumer(self, group: Group) -> JoinedGroup | None:
        if not isinstance(group, ClassicGroup):
            return None
        if group.is_empty():
            return JoinedGroup(ConsumerGroup(group.group_id), True, group.tombstones())
        done = upgrade.convert(self._state, group)
        return JoinedGroup(done.group, records=list(done.records), conversion=done)

    def without_members(
        self,
        group: ConsumerGroup,
        leaving: Sequence[ConsumerGroupMember],
        kind: EventKind,
        cause: str,
        now: Instant,
        causes: Mapping[str, str],
    ) -> Outcome | None:
        if not downgrade.permitted_without(self._state.config, group, leaving):
            return None
        return downgrade.without_members(self._state, group, leaving, kind, cause, now, causes)
