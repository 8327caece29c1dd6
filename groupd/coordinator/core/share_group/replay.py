"""Applies the records of share groups (types 10-15) to the groups of a shard.

It is the only writer of their hard state, live and at load. Rules (docs/spec/share-group.md#2.1):
R15 and the records of members create the group; tombstones of unknown keys are ignored. A record
that contradicts the state raises ReplayError and fails the shard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group_type import Replay
from groupd.coordinator.core.share_group import records
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.core.share_group.member import (
    LEAVE_EPOCH,
    NOTHING_ASSIGNED,
    ShareGroupMember,
)
from groupd.coordinator.core.state import ShardState
from groupd.protocol.records.schema import (
    ShareGroupCurrentMemberKey,
    ShareGroupCurrentMemberValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionsKey,
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMemberValue,
    ShareGroupTargetMetadataKey,
    ShareGroupTargetMetadataValue,
)


def _known(group: ShareGroup, member_id: str) -> ShareGroupMember:
    return group.members.get(member_id) or ShareGroupMember(member_id)


def _member_metadata(
    group: ShareGroup, key: ShareGroupMemberMetadataKey, value: ShareGroupMemberMetadataValue
) -> None:
    group.put_member(
        replace(
            _known(group, key.member_id),
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=value.subscribed_topic_names,
        )
    )


def _remove_member(state: ShardState, group: ShareGroup, key: ShareGroupMemberMetadataKey) -> None:
    member = group.members.get(key.member_id)
    if member is None:
        return
    who = f"member {key.member_id} of group {group.group_id}"
    if member.member_epoch != LEAVE_EPOCH:
        raise ReplayError(f"{who} is removed at epoch {member.member_epoch}")
    if key.member_id in group.targets:
        raise ReplayError(f"{who} is removed with a target")
    group.remove_member(member)


def _group_epoch(
    group: ShareGroup, key: ShareGroupMetadataKey, value: ShareGroupMetadataValue
) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def _delete_group(state: ShardState, group: ShareGroup, key: ShareGroupMetadataKey) -> None:
    if group.members:
        raise ReplayError(f"group {group.group_id} is deleted with {len(group.members)} members")
    if group.targets:
        raise ReplayError(f"group {group.group_id} is deleted with {len(group.targets)} targets")
    if group.assignment_epoch != LEAVE_EPOCH:
        raise ReplayError(f"group {group.group_id} is deleted before its target assignment")
    del state.groups[group.group_id]


def _target_epoch(
    group: ShareGroup, key: ShareGroupTargetMetadataKey, value: ShareGroupTargetMetadataValue
) -> None:
    group.assignment_epoch = value.assignment_epoch
    group.assignment_timestamp_ms = value.assignment_timestamp_ms


def _drop_target_epoch(
    state: ShardState, group: ShareGroup, key: ShareGroupTargetMetadataKey
) -> None:
    if group.targets:
        raise ReplayError(
            f"the target epoch of group {group.group_id} is dropped before its targets"
        )
    group.assignment_epoch = LEAVE_EPOCH
    group.assignment_timestamp_ms = 0


def _target_member(
    group: ShareGroup, key: ShareGroupTargetMemberKey, value: ShareGroupTargetMemberValue
) -> None:
    group.targets[key.member_id] = records.assignment_of(value.topics)


def _drop_target_member(
    state: ShardState, group: ShareGroup, key: ShareGroupTargetMemberKey
) -> None:
    group.targets.pop(key.member_id, None)


def _current_member(
    group: ShareGroup, key: ShareGroupCurrentMemberKey, value: ShareGroupCurrentMemberValue
) -> None:
    group.put_member(
        replace(
            _known(group, key.member_id),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            assigned=records.assignment_of(value.assigned),
        )
    )


def _drop_current_member(
    state: ShardState, group: ShareGroup, key: ShareGroupCurrentMemberKey
) -> None:
    member = group.members.get(key.member_id)
    if member is not None:
        group.put_member(
            replace(
                member,
                member_epoch=LEAVE_EPOCH,
                previous_member_epoch=LEAVE_EPOCH,
                assigned=NOTHING_ASSIGNED,
            )
        )


def _state_partitions(
    group: ShareGroup, key: ShareGroupStatePartitionsKey, value: ShareGroupStatePartitionsValue
) -> None:
    group.state_partitions = records.state_of(value)


def _drop_state_partitions(
    state: ShardState, group: ShareGroup, key: ShareGroupStatePartitionsKey
) -> None:
    group.state_partitions = None


def _applier(
    on_value: Callable[[ShareGroup, Any, Any], None],
    on_tombstone: Callable[[ShardState, ShareGroup, Any], None],
) -> Replay:
    """Returns a function that applies the records of one kind."""

    def apply(state: ShardState, key: Any, value: Any) -> None:
        group = state.groups.get(key.group)
        if group is not None and not isinstance(group, ShareGroup):
            raise ReplayError(f"group {key.group} is a {group.type_name} group, not a share group")
        if value is None:
            if group is not None:
                group.changed()
                on_tombstone(state, group, key)
            return
        if group is None:
            group = state.groups[key.group] = ShareGroup(key.group)
        group.changed()
        on_value(group, key, value)

    return apply


APPLIERS: dict[type, Replay] = {
    ShareGroupMemberMetadataKey: _applier(_member_metadata, _remove_member),
    ShareGroupMetadataKey: _applier(_group_epoch, _delete_group),
    ShareGroupTargetMetadataKey: _applier(_target_epoch, _drop_target_epoch),
    ShareGroupTargetMemberKey: _applier(_target_member, _drop_target_member),
    ShareGroupCurrentMemberKey: _applier(_current_member, _drop_current_member),
    ShareGroupStatePartitionsKey: _applier(_state_partitions, _drop_state_partitions),
}
"""By the class of a record's key, the function that applies the record."""
