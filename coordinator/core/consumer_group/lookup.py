"""Finding the group of a request (spec 2 rule 11, 4 step 1)."""

from __future__ import annotations

from coordinator.core.consumer_group.group import ConsumerGroup
from coordinator.core.group import Group, GroupType
from coordinator.core.state import ShardState
from protocol.errors import ApiError, ErrorCode
from protocol.records.schema import Record


def existing_group(state: ShardState, group_id: str) -> ConsumerGroup:
    """Raises GROUP_ID_NOT_FOUND for a missing group and for one of another type."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    raise _not_consumer(group)


def joined_group(state: ShardState, group_id: str) -> tuple[ConsumerGroup, bool, list[Record]]:
    """The group for an epoch-0 heartbeat, whether it is new, and the records that make room for
    it. A new group is not part of the state: replay puts it there."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group, False, []
    if group is None:
        return ConsumerGroup(group_id), True, []
    if group.type is GroupType.CLASSIC:
        return converted_classic_group(group)
    raise _not_consumer(group)


def converted_classic_group(group: Group) -> tuple[ConsumerGroup, bool, list[Record]]:
    """A classic group as a consumer group. An empty one makes way under any migration policy; one
    with members is not converted."""
    if not group.is_empty():
        raise _not_consumer(group)
    return ConsumerGroup(group.group_id), True, group.tombstones()


def _not_consumer(group: Group) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group."
    )
