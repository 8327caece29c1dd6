"""The classic group type: JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from __future__ import annotations

from groupd.coordinator.core.classic_group import (
    describe,
    heartbeat,
    inspect,
    join,
    leave,
    log_views,
    replay,
    sync,
    timers,
)
from groupd.coordinator.core.classic_group.appended import appended
from groupd.coordinator.core.classic_group.changed_groups import ChangedGroups
from groupd.coordinator.core.classic_group.group import SESSION, TYPE_NAME, ClassicGroup
from groupd.coordinator.core.classic_group.operation import JOIN, OWNER, SYNC
from groupd.coordinator.core.group_type import GroupType, Meter
from groupd.coordinator.core.queries import DescribeClassicGroup
from groupd.coordinator.core.types import EventKind
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupd.protocol.records.schema import GroupMetadataKey

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
    places=inspect.places,
    logged={GroupMetadataKey: log_views.group_metadata},
)
