"""ListGroups and DeleteGroups for the groups of one shard (docs/spec/classic-group.md#6,
docs/spec/offsets-and-log.md#3.3)."""

from __future__ import annotations

from collections.abc import Sequence

from groupd.coordinator.core.offset_metadata_manager import OffsetMetadataManager
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
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
    ListGroupsRequest,
)

CLUSTER_NAME = "kafka-cluster"
"""The one resource of type CLUSTER."""


def list_groups(
    state: ShardState, context: RequestContext, request: ListGroupsRequest, now: Instant
) -> Outcome:
    """Groups by id. Without DESCRIBE on the cluster only those with DESCRIBE on the group. Both
    filters ignore case; unknown values match nothing, an empty filter matches all."""
    see_all = context.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
    states = {name.strip().lower() for name in request.states_filter}
    types = {name.strip().lower() for name in request.types_filter}
    found = []
    for group_id in sorted(state.groups):
        group = state.groups[group_id]
        if states and group.state_name().lower() not in states:
            continue
        if types and group.type_name not in types:
            continue
        if see_all or context.allows(Operation.DESCRIBE, Resource.GROUP, group_id):
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
    30 denied, 69 unknown, 68 not empty; else tombstones of its offsets, then its own."""
    outcome = Outcome(gate="*")
    results: list[DeletedGroup] = []
    for group_id in dict.fromkeys(group_ids):
        try:
            _delete(state, offsets, context, group_id, outcome)
        except ApiError as error:
            results.append(DeletedGroup(group_id, error.code, error.message))
        else:
            results.append(DeletedGroup(group_id))
    outcome.replies.append((context.token, DeleteGroupsReply(tuple(results))))
    return outcome


def _delete(
    state: ShardState,
    offsets: OffsetMetadataManager,
    context: RequestContext,
    group_id: str,
    outcome: Outcome,
) -> None:
    if not context.allows(Operation.DELETE, Resource.GROUP, group_id):
        raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    group = state.groups.get(group_id)
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    group.check_delete()
    doomed = offsets.group_tombstones(group_id)
    outcome.records.extend(doomed)
    outcome.records.extend(group.tombstones())
    outcome.events.append(
        Event(
            EventKind.GROUP_DELETED,
            group_id,
            cause="deleted by request",
            details={"offsets": len(doomed)},
        )
    )
