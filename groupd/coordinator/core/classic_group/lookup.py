"""Finds the classic group of a request of the classic protocol.

Requests for a consumer group with members never get here: `coordinator.core.interop` answers them.
An *empty* consumer group becomes a classic one when a new member joins, since only its records are
lost. Groups of other types (share, streams) refuse the classic protocol: JoinGroup gets
INCONSISTENT_GROUP_PROTOCOL, every other request UNKNOWN_MEMBER_ID (docs/spec/classic-group.md#J6,
#S5).
"""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.classic_group.replay import group_record
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.schema import Record


class Creation(Struct, frozen=True):
    """A group made for a Join. It is in the shard's state once its `record` is replayed. `previous`
    is the empty consumer group that it replaces, if any, and `tombstones` end that group."""

    group: ClassicGroup
    previous: Group | None
    tombstones: tuple[Record, ...]
    record: Record


def require_classic(state: ShardState, group_id: str) -> ClassicGroup:
    """The group of a Sync, Heartbeat or Leave. Raises UNKNOWN_MEMBER_ID if there is no classic
    group with this id."""
    group = state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    return group


def create(
    state: ShardState, found: Group | None, group_id: str, member_id: str, now: Instant
) -> Creation:
    """A new group for a Join. `found`: the group of another type that has this id and admits
    classic members, if any. Only a new member (id "") may create a group. Raises UNKNOWN_MEMBER_ID
    or GROUP_MAX_SIZE_REACHED."""
    if member_id:
        raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
    if found is None:
        state.check_group_limit()
    group = ClassicGroup(group_id, state_timestamp_ms=now.wall_ms)
    tombstones: tuple[Record, ...] = ()
    if found is not None:
        tombstones = tuple(found.tombstones())
        found.cancel_deadlines(state.deadlines)
    return Creation(group, found, tombstones, group_record(group))
