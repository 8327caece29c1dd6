"""The records that consumer groups and share groups have in common: of the group epoch, of the
target epoch, and the end of a group and of a member. A record that contradicts the state raises
ReplayError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from groupd.coordinator.core.epochs import LEAVE_EPOCH
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.state import ShardState


class ReplayedGroup(Protocol):
    """The group that the records change."""

    group_id: str
    group_epoch: int
    metadata_hash: int
    assignment_epoch: int
    assignment_timestamp_ms: int

    @property
    def members(self) -> Mapping[str, Any]: ...

    @property
    def targets(self) -> Mapping[str, Any]: ...

    def remove_member(self, member: Any, /) -> None: ...


def group_epoch(group: ReplayedGroup, key: Any, value: Any) -> None:
    group.group_epoch = value.epoch
    group.metadata_hash = value.metadata_hash


def delete_group(state: ShardState, group: ReplayedGroup, key: Any) -> None:
    if group.members:
        raise ReplayError(f"group {group.group_id} is deleted with {len(group.members)} members")
    if group.targets:
        raise ReplayError(f"group {group.group_id} is deleted with {len(group.targets)} targets")
    if group.assignment_epoch != LEAVE_EPOCH:
        raise ReplayError(f"group {group.group_id} is deleted before its target assignment")
    del state.groups[group.group_id]


def remove_member(state: ShardState, group: ReplayedGroup, key: Any) -> None:
    member = group.members.get(key.member_id)
    if member is None:
        return
    who = f"member {key.member_id} of group {group.group_id}"
    if member.member_epoch != LEAVE_EPOCH:
        raise ReplayError(f"{who} is removed at epoch {member.member_epoch}")
    if key.member_id in group.targets:
        raise ReplayError(f"{who} is removed with a target")
    group.remove_member(member)


def target_epoch(group: ReplayedGroup, key: Any, value: Any) -> None:
    group.assignment_epoch = value.assignment_epoch
    group.assignment_timestamp_ms = value.assignment_timestamp_ms


def drop_target_epoch(state: ShardState, group: ReplayedGroup, key: Any) -> None:
    if group.targets:
        raise ReplayError(
            f"the target epoch of group {group.group_id} is dropped before its targets"
        )
    group.assignment_epoch = LEAVE_EPOCH
    group.assignment_timestamp_ms = 0
