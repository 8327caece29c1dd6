"""ListGroups and DeleteGroups for the groups of one shard (docs/spec/classic-group.md#6,
docs/spec/offsets-and-log.md#3.3)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.offsets.delete import all_tombstones, some_tombstones
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.shard_requests import DeleteGroup, DeleteSomeOffsets, ListSomeGroups
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    Event,
    EventKind,
    Instant,
    Operation,
    Outcome,
    OutsideCall,
    RequestContext,
    RequestToken,
    Resource,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.groups import (
    DeletedGroup,
    ListedGroup,
    ListGroupsReply,
)


def list_groups(
    state: ShardState, context: RequestContext, request: ListSomeGroups, now: Instant
) -> Outcome:
    """Lists groups, ascending by id. A client without DESCRIBE on the cluster gets only the groups
    that it has DESCRIBE on. Both filters ignore case; unknown values match nothing, an empty filter
    matches all."""
    see_all = context.sees(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    found = []
    for group_id in sorted(request.group_ids):
        group = state.groups.get(group_id)
        if group is None:
            continue
        if request.states and group.state_name().lower() not in request.states:
            continue
        if request.types and group.type_name not in request.types:
            continue
        if see_all or context.sees(Operation.DESCRIBE, Resource.GROUP, group_id):
            found.append(
                ListedGroup(group_id, group.protocol_type, group.state_name(), group.type_name)
            )
    reply = ListGroupsReply(groups=tuple(found))
    return Outcome(replies=[(context.token, reply)], gate="*")


_DELETION = "deletion"
"""The data of the call that comes before a deletion."""


def delete_group(
    state: ShardState,
    store: OffsetStore,
    context: RequestContext,
    request: DeleteGroup,
) -> Outcome:
    """Reply DeletedGroup: tombstones of the group's offsets, then the group's own. If another part
    of the system has to act first (`GroupType.before_delete`), the outcome is a call instead, and
    `delete_answered` goes on. Raises ApiError: 69 for an unknown group, 68 for one that is not
    empty. The right to delete was checked before the shard was asked (`frontend.groups`)."""
    state.being_deleted.discard(request.group_id)
    group = _deletable(state, request.group_id)
    first = type_of(group).before_delete(state, group)
    if first is None:
        return _delete(store, group, context.token)
    records, call = first
    call = replace(call, data=_DELETION, token=context.token)
    state.busy.add(group.group_id)
    return Outcome(records=records, calls=[call], gate=group.group_id)


def is_about_deletion(call: OutsideCall) -> bool:
    return call.data is _DELETION


def delete_answered(
    state: ShardState, store: OffsetStore, call: OutsideCall, answer: Any
) -> Outcome:
    """The answer to the call of `delete_group` has come: delete the group."""
    group_id = call.group_id
    state.busy.discard(group_id)
    try:
        if isinstance(answer, ApiError):
            raise answer
        if answer is not ErrorCode.NONE:
            known = isinstance(answer, ErrorCode)
            raise ApiError(answer if known else ErrorCode.UNKNOWN_SERVER_ERROR)
        group = _deletable(state, group_id)
    except ApiError as error:
        return Outcome(replies=[(call.token, DeletedGroup(group_id, error.code))], gate=group_id)
    return _delete(store, group, call.token)


def _delete(store: OffsetStore, group: Group, token: RequestToken) -> Outcome:
    group_id, tombstones = group.group_id, all_tombstones(store, group.group_id)
    event = Event(
        group.type_name,
        EventKind.GROUP_DELETED,
        group_id,
        cause="deleted by request",
        details={"offsets": len(tombstones)},
    )
    return Outcome(
        records=[*tombstones, *group.tombstones()],
        replies=[(token, DeletedGroup(group_id))],
        gate=group_id,
        events=[event],
    )


def _deletable(state: ShardState, group_id: str) -> Group:
    """The group with this id. Raises ApiError if there is none or it may not be deleted now."""
    group = state.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    group.check_delete()
    return group


def check_free(state: ShardState, request: Any) -> None:
    """Refuses a request for a group that is being deleted in pieces: a member that joined between
    two pieces would keep the group alive without some of its offsets. Refuses it, too, while
    another coordinator does something for an administrator: what a member began meanwhile could be
    undone by that, or be left over when the group is gone. Raises ApiError; clients try again."""
    group_id = getattr(request, "group_id", None)
    if group_id in state.being_deleted and type(request) not in (DeleteGroup, DeleteSomeOffsets):
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The group is being deleted.")
    if group_id in state.busy:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The group is being changed.")


def delete_some_offsets(
    state: ShardState,
    store: OffsetStore,
    context: RequestContext,
    request: DeleteSomeOffsets,
) -> Outcome:
    """Delete some offsets of a group that has too many for one DeleteGroup. Every other request for
    the group is refused until the `DeleteGroup` that follows. Raises ApiError as `delete_group`
    does."""
    group = _deletable(state, request.group_id)
    state.being_deleted.add(request.group_id)
    tombstones = some_tombstones(store, request.group_id, request.at_most)
    outcome = Outcome(records=tombstones, replies=[(context.token, None)], gate=request.group_id)
    if tombstones:
        outcome.events.append(
            Event(
                group.type_name,
                EventKind.OFFSETS_DELETED,
                group.group_id,
                details={"count": len(tombstones)},
            )
        )
    return outcome
