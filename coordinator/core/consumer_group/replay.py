"""Applies the records of consumer groups (types 3-8 and 16) to the groups of a shard.

The only writer of their hard state, live and at load. Rules (spec 3, offsets spec 5.2): values
create group and member as needed; tombstones for what is unknown are ignored, since compaction
may have removed the rest; a record replaces a simple classic group (offsets only) of its id; what
contradicts the state is a ReplayError and fails the shard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coordinator.core.consumer_group import records
from coordinator.core.consumer_group.errors import ReplayError
from coordinator.core.consumer_group.group import ConsumerGroup
from coordinator.core.consumer_group.member import LEAVE_EPOCH, ConsumerGroupMember, MemberState
from coordinator.core.group import GroupType
from coordinator.core.state import ShardState
from coordinator.core.types import AppliedAt
from protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegexKey,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    Record,
)


def apply(state: ShardState, record: Record, at: AppliedAt) -> None:
    """Apply one record. Raises ReplayError, also for a record of another kind."""
    key: Any = record.key
    appliers = _APPLIERS.get(type(key))
    if appliers is None:
        raise ReplayError(f"not a consumer group record: {type(key).__name__} at {at.offset}")
    on_value, on_tombstone = appliers
    group = _find(state, key.group)
    if record.value is None:
        if group is not None:
            on_tombstone(state, group, key)
        return
    if group is None:
        group = state.groups[key.group] = ConsumerGroup(key.group)
    on_value(group, key, record.value)


def _find(state: ShardState, group_id: str) -> ConsumerGroup | None:
    group = state.groups.get(group_id)
    if group is None or isinstance(group, ConsumerGroup):
        return group
    if group.type is GroupType.CLASSIC and not group.protocol_type and group.is_empty():
        replacing = state.groups[group_id] = ConsumerGroup(group_id)
        return replacing
    raise ReplayError(f"group {group_id} is a {group.type.value} group, not a consumer group")


def _group_epoch(
    group: ConsumerGroup, key: ConsumerGroupMetadataKey, value: ConsumerGroupMetadataValue
) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _delete_group(state: ShardState, group: ConsumerGroup, key: ConsumerGroupMetadataKey) -> None:
    if group.members:
        raise ReplayError(f"group {key.group} is deleted with {len(group.members)} members")
    if group.targets:
        raise ReplayError(f"group {key.group} is deleted with {len(group.targets)} targets")
    if group.assignment_epoch != LEAVE_EPOCH:
        raise ReplayError(f"group {key.group} is deleted before its target assignment")
    del state.groups[key.group]


def _partition_metadata(
    group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey, value: object
) -> None:
    group.has_partition_metadata = True


def _drop_partition_metadata(
    state: ShardState, group: ConsumerGroup, key: ConsumerGroupPartitionMetadataKey
) -> None:
    group.has_partition_metadata = False


def _member_metadata(
    group: ConsumerGroup,
    key: ConsumerGroupMemberMetadataKey,
    value: ConsumerGroupMemberMetadataValue,
) -> None:
    group.put_member(
        replace(
            _member(group, key.member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=value.subscribed_topic_names,
            subscribed_topic_regex=value.subscribed_topic_regex or "",
            server_assignor=value.server_assignor,
            classic=value.classic,
        )
    )


def _remove_member(
    state: ShardState, group: ConsumerGroup, key: ConsumerGroupMemberMetadataKey
) -> None:
    member = group.members.get(key.member_id)
    if member is None:
        return
    if member.member_epoch != LEAVE_EPOCH:
        raise ReplayError(
            f"member {key.member_id} of group {key.group} is removed at epoch {member.member_epoch}"
        )
    if key.member_id in group.targets:
        raise ReplayError(f"member {key.member_id} of group {key.group} is removed with a target")
    group.remove_member(member)


def _target_epoch(
    group: ConsumerGroup,
    key: ConsumerGroupTargetMetadataKey,
    value: ConsumerGroupTargetMetadataValue,
) -> None:
    group.assignment_epoch = value.assignment_epoch
    group.assignment_timestamp_ms = value.assignment_timestamp_ms


def _drop_target_epoch(
    state: ShardState, group: ConsumerGroup, key: ConsumerGroupTargetMetadataKey
) -> None:
    if group.targets:
        raise ReplayError(f"the target epoch of group {key.group} is dropped before its targets")
    group.assignment_epoch = LEAVE_EPOCH
    group.assignment_timestamp_ms = 0


def _target_member(
    group: ConsumerGroup, key: ConsumerGroupTargetMemberKey, value: ConsumerGroupTargetMemberValue
) -> None:
    group.set_target(key.member_id, records.target_of(value))


def _drop_target_member(
    state: ShardState, group: ConsumerGroup, key: ConsumerGroupTargetMemberKey
) -> None:
    group.remove_target(key.member_id)


def _current_member(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberKey,
    value: ConsumerGroupCurrentMemberValue,
) -> None:
    group.put_member(
        replace(
            _member(group, key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState.of(value.state),
            assigned=records.partition_epochs(value.assigned, value.member_epoch),
            pending_revocation=records.partition_epochs(
                value.pending_revocation, value.member_epoch
            ),
        )
    )


def _drop_current_member(
    state: ShardState, group: ConsumerGroup, key: ConsumerGroupCurrentMemberKey
) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        group.put_member(
            replace(
                member,
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned={},
                pending_revocation={},
            )
        )


def _regex(
    group: ConsumerGroup, key: ConsumerGroupRegexKey, value: ConsumerGroupRegexValue
) -> None:
    group.set_regex(key.regex, value)


def _drop_regex(state: ShardState, group: ConsumerGroup, key: ConsumerGroupRegexKey) -> None:
    group.set_regex(key.regex, None)


def _member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    return group.members.get(member_id) or ConsumerGroupMember(member_id)


_Appliers = tuple[Callable[[ConsumerGroup, Any, Any], None], Callable[..., None]]

_APPLIERS: dict[type, _Appliers] = {
    ConsumerGroupMetadataKey: (_group_epoch, _delete_group),
    ConsumerGroupPartitionMetadataKey: (_partition_metadata, _drop_partition_metadata),
    ConsumerGroupMemberMetadataKey: (_member_metadata, _remove_member),
    ConsumerGroupTargetMetadataKey: (_target_epoch, _drop_target_epoch),
    ConsumerGroupTargetMemberKey: (_target_member, _drop_target_member),
    ConsumerGroupCurrentMemberKey: (_current_member, _drop_current_member),
    ConsumerGroupRegexKey: (_regex, _drop_regex),
}
