"""Applies the records of share groups (types 10-15) to the groups of a shard.

It is the only writer of their hard state, live and at load. Rules (docs/spec/share-group.md#2.1):
R15 and the records of members create the group; tombstones of unknown keys are ignored. A record
that contradicts the state raises ReplayError and fails the shard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from groupd.coordinator.core import epoch_replay
from groupd.coordinator.core.epochs import LEAVE_EPOCH
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group_type import Replay
from groupd.coordinator.core.share_group import records
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.core.share_group.member import (
    NOTHING_ASSIGNED,
    ShareGroupMember,
)
from groupd.coordinator.core.share_group.soft_state import soft_of
from groupd.coordinator.core.state import ShardState
from groupd.protocol.records.schema import (
    ShareGroupCurrentMemberKey,
    ShareGroupCurrentMemberValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionsKey,
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMemberValue,
    ShareGroupTargetMetadataKey,
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
    soft_of(state).forget(key.group)


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
                group.changed(key)
                on_tombstone(state, group, key)
            return
        if group is None:
            group = state.groups[key.group] = ShareGroup(key.group)
        group.changed(key)
        on_value(group, key, value)

    return apply


APPLIERS: dict[type, Replay] = {
    ShareGroupMemberMetadataKey: _applier(_member_metadata, epoch_replay.remove_member),
    ShareGroupMetadataKey: _applier(epoch_replay.group_epoch, epoch_replay.delete_group),
    ShareGroupTargetMetadataKey: _applier(
        epoch_replay.target_epoch, epoch_replay.drop_target_epoch
    ),
    ShareGroupTargetMemberKey: _applier(_target_member, _drop_target_member),
    ShareGroupCurrentMemberKey: _applier(_current_member, _drop_current_member),
    ShareGroupStatePartitionsKey: _applier(_state_partitions, _drop_state_partitions),
}
"""By the class of a record's key, the function that applies the record."""
