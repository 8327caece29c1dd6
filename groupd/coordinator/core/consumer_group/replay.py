"""Applies the records of consumer groups (types 3-8 and 16) to the groups of a shard.

It is the only writer of their hard state, live and at load. Rules (docs/spec/consumer-group.md#3,
docs/spec/offsets-and-log.md#5.2): values create group and member as needed. Tombstones of unknown
keys are ignored, since compaction may have removed the records before. A record replaces a simple
classic group (offsets only) with its id. A record that contradicts the state raises ReplayError and
fails the shard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.core import epoch_replay
from groupd.coordinator.core.consumer_group import records
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import (
    NO_PARTITION_EPOCHS,
    UNKNOWN_MEMBER,
    MemberState,
)
from groupd.coordinator.core.epochs import LEAVE_EPOCH
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group_type import Replay
from groupd.coordinator.core.state import ShardState
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegexKey,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
)


def _find(state: ShardState, group_id: str) -> ConsumerGroup | None:
    group = state.groups.get(group_id)
    if group is None or isinstance(group, ConsumerGroup):
        return group
    if not group.protocol_type and group.is_empty():
        replacing = state.groups[group_id] = ConsumerGroup(group_id)
        return replacing
    raise ReplayError(f"group {group_id} is a {group.type_name} group, not a consumer group")


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
    member_id = key.member_id
    known = group.members.get(member_id, UNKNOWN_MEMBER)
    group.put_member(known.described_by(member_id, value))


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
    member_id = key.member_id
    epoch = value.member_epoch
    known = group.members.get(member_id, UNKNOWN_MEMBER)
    group.put_member(
        known.at_epoch(
            member_id,
            epoch,
            value.previous_member_epoch,
            MemberState.of(value.state),
            records.partition_epochs(value.assigned, epoch),
            records.partition_epochs(value.pending_revocation, epoch),
        )
    )


def _drop_current_member(
    state: ShardState, group: ConsumerGroup, key: ConsumerGroupCurrentMemberKey
) -> None:
    member_id = key.member_id
    member = group.members.get(member_id)
    if member is not None:
        group.put_member(
            member.at_epoch(
                member_id,
                LEAVE_EPOCH,
                LEAVE_EPOCH,
                member.state,
                NO_PARTITION_EPOCHS,
                NO_PARTITION_EPOCHS,
            )
        )


def _regex(
    group: ConsumerGroup, key: ConsumerGroupRegexKey, value: ConsumerGroupRegexValue
) -> None:
    group.set_regex(key.regex, value)


def _drop_regex(state: ShardState, group: ConsumerGroup, key: ConsumerGroupRegexKey) -> None:
    group.set_regex(key.regex, None)


def _applier(
    on_value: Callable[[ConsumerGroup, Any, Any], None],
    on_tombstone: Callable[[ShardState, ConsumerGroup, Any], None],
) -> Replay:
    """Returns a function that applies the records of one kind."""

    def apply(state: ShardState, key: Any, value: Any) -> None:
        group = state.groups.get(key.group)
        if not isinstance(group, ConsumerGroup):
            group = _find(state, key.group)
        if value is None:
            if group is not None:
                group.changes += 1
                on_tombstone(state, group, key)
            return
        if group is None:
            group = state.groups[key.group] = ConsumerGroup(key.group)
        group.changes += 1
        on_value(group, key, value)

    return apply


APPLIERS: dict[type, Replay] = {
    ConsumerGroupMetadataKey: _applier(epoch_replay.group_epoch, epoch_replay.delete_group),
    ConsumerGroupPartitionMetadataKey: _applier(_partition_metadata, _drop_partition_metadata),
    ConsumerGroupMemberMetadataKey: _applier(_member_metadata, epoch_replay.remove_member),
    ConsumerGroupTargetMetadataKey: _applier(
        epoch_replay.target_epoch, epoch_replay.drop_target_epoch
    ),
    ConsumerGroupTargetMemberKey: _applier(_target_member, _drop_target_member),
    ConsumerGroupCurrentMemberKey: _applier(_current_member, _drop_current_member),
    ConsumerGroupRegexKey: _applier(_regex, _drop_regex),
}
"""By the class of a record's key, the function that applies the record."""
