"""Finds the group and the member of a request (docs/spec/share-group.md#1.4)."""

from __future__ import annotations

from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.state import ShardState
from groupd.protocol.errors import ApiError, ErrorCode


def existing_group(state: ShardState, group_id: str) -> ShareGroup:
    """The share group with this id. Raises GROUP_ID_NOT_FOUND."""
    group = state.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ShareGroup):
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a share group.")
    return group


def joined_group(state: ShardState, group_id: str) -> tuple[ShareGroup, bool]:
    """The share group with this id, or a new one that is not in the state yet: replay puts it
    there. The second item says whether it is new. Raises GROUP_ID_NOT_FOUND for a group of another
    type, GROUP_MAX_SIZE_REACHED."""
    if group_id in state.groups:
        return existing_group(state, group_id), False
    state.check_group_limit()
    return ShareGroup(group_id), True


def check_size(group: ShareGroup, member_id: str, max_size: int) -> None:
    """Raises GROUP_MAX_SIZE_REACHED for anybody who is not a member if the group is full."""
    if len(group.members) >= max_size and member_id not in group.members:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The share group has reached its maximum capacity of {max_size} members.",
        )


def existing_member(group: ShareGroup, member_id: str) -> ShareGroupMember:
    """The member with this id. Raises UNKNOWN_MEMBER_ID."""
    member = group.members.get(member_id)
    if member is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Member {member_id} is not a member of group {group.group_id}.",
        )
    return member


def check_epoch(member: ShareGroupMember, received: int) -> None:
    """Raises FENCED_MEMBER_EPOCH unless the request has the member's epoch, the one before, whose
    reply may have been lost, or 0."""
    epoch = member.member_epoch
    if received not in (0, epoch, member.previous_member_epoch):
        place = "ahead of" if received > epoch else "behind"
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Member epoch {received} is {place} the known epoch {epoch}: join again.",
        )
