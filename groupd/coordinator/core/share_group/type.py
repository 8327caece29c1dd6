"""The share group type (KIP-932): ShareGroupHeartbeat."""

from __future__ import annotations

from groupd.coordinator.core.group_type import GroupType, Meter
from groupd.coordinator.core.log_views import (
    EpochLogViews,
    current_member_problems,
    group_problems,
)
from groupd.coordinator.core.shard_requests import DescribeShareGroup, ListSharePartitions
from groupd.coordinator.core.share_group import (
    describe,
    fence,
    heartbeat,
    initialization,
    inspect,
    offsets,
    replay,
    timers,
)
from groupd.coordinator.core.share_group.configs import CONFIGS
from groupd.coordinator.core.share_group.group import DELETED_TOPICS, SESSION, TYPE_NAME
from groupd.coordinator.core.share_group.soft_state import ShareSoftState
from groupd.coordinator.core.types import EventKind
from groupd.protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    ShareGroupHeartbeatRequest,
)
from groupd.protocol.records.schema import (
    ShareGroupCurrentMemberKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetMetadataKey,
)

_VIEWS = EpochLogViews(TYPE_NAME)

SHARE = GroupType(
    name=TYPE_NAME,
    group_key=ShareGroupMetadataKey,
    configs=CONFIGS,
    soft_state=ShareSoftState,
    states=("Empty", "Stable", "Dead"),
    meters=(
        Meter(
            "share_group_rebalance",
            EventKind.TARGET_INSTALLED,
            "Target assignments of share groups",
        ),
    ),
    requests={
        ShareGroupHeartbeatRequest: heartbeat.handle,
        DescribeShareGroup: describe.handle,
        ListSharePartitions: describe.list_partitions,
        AlterShareGroupOffsetsRequest: offsets.alter,
        DeleteShareGroupOffsetsRequest: offsets.delete,
    },
    replay=replay.APPLIERS,
    deadlines={SESSION: fence.expire, DELETED_TOPICS: timers.forget_deleted_topics},
    answers={initialization.SHARE_STATE: offsets.answered},
    before_delete=offsets.before_delete,
    on_loaded=timers.on_loaded,
    on_metadata=timers.on_metadata,
    session=timers.session,
    inspect=inspect.inspect,
    identify=inspect.identify,
    owned_partitions=inspect.owned_partitions,
    positions=inspect.positions,
    logged={
        ShareGroupMemberMetadataKey: _VIEWS.member_metadata,
        ShareGroupMetadataKey: _VIEWS.group_metadata,
        ShareGroupCurrentMemberKey: _VIEWS.current_member,
    },
    epochs={
        ShareGroupMetadataKey: ("group epoch", "epoch"),
        ShareGroupTargetMetadataKey: ("target epoch", "assignment_epoch"),
    },
    record_problems={ShareGroupCurrentMemberKey: current_member_problems},
    group_problems=group_problems,
)
