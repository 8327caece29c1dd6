"""The classic group type: JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.core.classic_group import (
    describe,
    heartbeat,
    inspect,
    join,
    leave,
    replay,
    sync,
    timers,
)
from groupd.coordinator.core.classic_group.appended import appended
from groupd.coordinator.core.classic_group.group import SESSION, TYPE_NAME, ClassicGroup
from groupd.coordinator.core.classic_group.operation import JOIN, OWNER, SYNC, ChangedGroups
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import GroupType, LoggedEvent, LoggedEventKind, Meter
from groupd.coordinator.core.shard_requests import DescribeClassicGroup
from groupd.coordinator.core.types import EventKind
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupd.protocol.records.schema import GroupMetadataKey, GroupMetadataValue


def _logged_events(
    before: Group | None, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> Iterator[LoggedEvent]:
    """What a record says to readers of a log: which members joined and left, and whether the group
    rebalanced, since the record before it."""
    if value is None:
        if before is not None:
            yield LoggedEventKind.DELETED, "", -1, {}
        return
    generation = value.generation
    if before is not None and before.type_name != TYPE_NAME:
        conversion = {"from": before.type_name, "to": TYPE_NAME}
        yield LoggedEventKind.CONVERTED, "", generation, conversion
    members = {} if before is None else before.members
    now = {member.member_id: member for member in value.members}
    for member_id in sorted(members.keys() - now.keys()):
        yield LoggedEventKind.MEMBER_LEFT, member_id, generation, _client(members[member_id])
    for member_id in sorted(now.keys() - members.keys()):
        yield LoggedEventKind.MEMBER_JOINED, member_id, generation, _client(now[member_id])
    if not now:
        if members:
            yield LoggedEventKind.EMPTIED, "", generation, {}
    elif not isinstance(before, ClassicGroup) or generation != before.generation:
        details = {"members": len(now), "leader": value.leader, "protocol": value.protocol}
        yield LoggedEventKind.REBALANCED, "", generation, details


def _client(member: Any) -> dict[str, str]:
    return {"client_id": member.client_id, "client_host": member.client_host}


CLASSIC = GroupType(
    name=TYPE_NAME,
    group_key=GroupMetadataKey,
    simple_group=ClassicGroup.simple,
    soft_state=ChangedGroups,
    states=("PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "Empty"),
    meters=(
        Meter(
            "group_completed_rebalance",
            EventKind.REBALANCE_COMPLETED,
            "Completed rebalances of classic groups",
        ),
    ),
    requests={
        JoinGroupRequest: join.handle,
        SyncGroupRequest: sync.handle,
        HeartbeatRequest: heartbeat.handle,
        LeaveGroupRequest: leave.handle,
        DescribeClassicGroup: describe.handle,
    },
    replay={GroupMetadataKey: replay.group_metadata},
    deadlines={SESSION: timers.expire, JOIN: timers.expire, SYNC: timers.expire},
    completions={OWNER: appended},
    on_loaded=timers.on_loaded,
    unload=timers.unload,
    session=timers.session,
    inspect=inspect.inspect,
    identify=inspect.identify,
    owned_partitions=inspect.owned_partitions,
    logged={GroupMetadataKey: _logged_events},
)
