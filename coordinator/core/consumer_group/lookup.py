"""Finding the group of a request (spec 2 rule 11, 4 step 1)."""

from __future__ import annotations

from msgspec import Struct, field

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.migration import Conversion
from groupd.coordinator.core.state import ShardState
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.schema import Record


class JoinedGroup(Struct, frozen=True):
    """The group that a heartbeat means. `is_new`: there was none, or an empty classic one;
    `records`: what makes room for it; `conversion`: it was a group of another type with members."""

    group: ConsumerGroup
    is_new: bool = False
    records: list[Record] = field(default_factory=list)
    conversion: Conversion | None = None


def existing_group(state: ShardState, group_id: str) -> ConsumerGroup:
    """Raises GROUP_ID_NOT_FOUND for a missing group and for one of another type."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    raise _not_consumer(group)


def joined_group(state: ShardState, group_id: str) -> JoinedGroup:
    """The group for an epoch-0 heartbeat. A new or converted group is not part of the state:
    replay puts it there. Raises GROUP_ID_NOT_FOUND."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return JoinedGroup(group)
    if group is None:
        return JoinedGroup(ConsumerGroup(group_id), is_new=True)
    joined = None
    if state.migration is not None:
        joined = state.migration.joined_by_consumer(state, group)
    if joined is None:
        raise _not_consumer(group)
    return joined


def _not_consumer(group: Group) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group."
    )
