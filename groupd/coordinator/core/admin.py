"""ListGroups and DeleteGroups for the groups of one shard (docs/spec/classic-group.md#6,
docs/spec/offsets-and-log.md#3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.offset_metadata_manager import OffsetMetadataManager
from groupd.coordinator.core.queries import DeleteSomeOffsets, ListSomeGroups
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    Event,
    EventKind,
    Instant,
    Operation,
    Outcome,
    RequestContext,
    Resource,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsReply,
    ListedGroup,
    ListGroupsReply,
)


def list_groups(
    state: ShardState, context: RequestContext, request: ListSomeGroups, now: Instant
) -> Outcome:
    """Groups by id. Without DESCRIBE on the cluster only those with DESCRIBE on the group. Both
    filters ignore case; unknown values match nothing, an empty filter matches all."""
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


def delete_groups(
    state: ShardState,
    offsets: OffsetMetadataManager,
    context: RequestContext,
    group_ids: Sequence[str],
    now: Instant,
) -> Outcome:
    """Reply DeleteGroupsReply, one result per id in the order given (repeated ids count once):
    69 unknown, 68 not empty; else tombstones of its offsets, then its own. There is no message, as
    in Kafka. The right to delete was checked before the shard was asked (`frontend.groups`)."""
    outcome = Outcome(gate="*")
    results: list[DeletedGroup] = []
    for group_id in dict.fromkeys(group_ids):
        state.being_deleted.discard(group_id)
        try:
            _delete(state, offsets, group_id, outcome)
        except ApiError as error:
            results.append(DeletedGroup(group_id, error.code))
        else:
            results.append(DeletedGroup(group_id))
    outcome.replies.append((context.token, DeleteGroupsReply(tuple(results))))
    return outcome


def _delete(
    state: ShardState,
    offsets: OffsetMetadataManager,
    group_id: str,
    outcome: Outcome,
) -> None:
    group = _deletable(state, group_id)
    doomed = offsets.group_tombstones(group_id)
    outcome.records.extend(doomed)
    outcome.records.extend(group.tombstones())
    outcome.events.append(
        Event(
            group.type_name,
            EventKind.GROUP_DELETED,
            group_id,
            cause="deleted by request",
            details={"offsets": len(doomed)},
        )
    )


def _deletable(state: ShardState, group_id: str) -> Group:
    """Raises ApiError."""
    group = state.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    group.check_delete()
    return group


def check_not_being_deleted(state: ShardState, request: Any) -> None:
    """Nobody uses a group between two pieces of its deletion: a member that joined would keep it
    alive without some of its offsets. Raises ApiError; clients try again."""
    group_id = getattr(request, "group_id", None)
    if group_id in state.being_deleted and type(request) is not DeleteSomeOffsets:
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "The group is being deleted.")


def delete_some_offsets(
    state: ShardState,
    offsets: OffsetMetadataManager,
    context: RequestContext,
    request: DeleteSomeOffsets,
) -> Outcome:
    """A piece of DeleteGroups for a group with many offsets. Nobody may use the group until the
    DeleteGroups that follows. Raises ApiError as DeleteGroups does."""
    group = _deletable(state, request.group_id)
    state.being_deleted.add(request.group_id)
    doomed = offsets.some_tombstones(request.group_id, request.at_most)
    outcome = Outcome(records=doomed, replies=[(context.token, None)], gate=request.group_id)
    if doomed:
        outcome.events.append(
            Event(
                group.type_name,
                EventKind.OFFSETS_DELETED,
                group.group_id,
                details={"count": len(doomed)},
            )
        )
    return outcome
