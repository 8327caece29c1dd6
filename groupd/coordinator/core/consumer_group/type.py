"""The consumer group type (KIP-848): ConsumerGroupHeartbeat."""

from __future__ import annotations

from groupd.coordinator.core.consumer_group import (
    deferred_target,
    describe,
    fence,
    heartbeat,
    inspect,
    regex,
    replay,
    shared_target,
    subscription,
    timers,
    what_if,
)
from groupd.coordinator.core.consumer_group.configs import CONFIGS
from groupd.coordinator.core.consumer_group.group import (
    REBALANCE,
    SESSION,
    SHARED_TARGET_KINDS,
    TYPE_NAME,
)
from groupd.coordinator.core.consumer_group.soft_state import SoftState
from groupd.coordinator.core.group_type import GroupType, Meter
from groupd.coordinator.core.log_views import (
    EpochLogViews,
    current_member_problems,
    group_problems,
)
from groupd.coordinator.core.shard_requests import DescribeConsumerGroup
from groupd.coordinator.core.types import EventKind
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetMetadataKey,
)

_VIEWS = EpochLogViews(TYPE_NAME)

CONSUMER = GroupType(
    name=TYPE_NAME,
    group_key=ConsumerGroupMetadataKey,
    configs=CONFIGS,
    soft_state=SoftState,
    states=("Empty", "Assigning", "Reconciling", "Stable", "Dead"),
    meters=(
        Meter(
            "consumer_group_rebalance",
            EventKind.TARGET_INSTALLED,
            "Target assignments of consumer groups",
        ),
    ),
    requests={
        ConsumerGroupHeartbeatRequest: heartbeat.handle,
        DescribeConsumerGroup: describe.handle,
    },
    replay=replay.APPLIERS,
    deadlines={
        SESSION: fence.expire,
        REBALANCE: fence.expire,
        **dict.fromkeys(SHARED_TARGET_KINDS, shared_target.expire),
    },
    tasks={regex.TASK_KIND: regex.complete, deferred_target.TASK_KIND: shared_target.task_done},
    on_loaded=timers.on_loaded,
    on_metadata=subscription.on_metadata,
    unload=shared_target.unload,
    session=timers.session,
    inspect=inspect.inspect,
    awaited=inspect.awaited,
    identify=inspect.identify,
    owned_partitions=inspect.owned_partitions,
    what_if=what_if.WHAT_IF,
    logged={
        ConsumerGroupMemberMetadataKey: _VIEWS.member_metadata,
        ConsumerGroupMetadataKey: _VIEWS.group_metadata,
        ConsumerGroupCurrentMemberKey: _VIEWS.current_member,
    },
    epochs={
        ConsumerGroupMetadataKey: ("group epoch", "epoch"),
        ConsumerGroupTargetMetadataKey: ("target epoch", "assignment_epoch"),
    },
    record_problems={ConsumerGroupCurrentMemberKey: current_member_problems},
    group_problems=group_problems,
)
