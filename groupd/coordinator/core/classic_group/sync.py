"""SyncGroup (14), docs/spec/classic-group.md#2.2: the rules S5-S13 in their order; the front end
checks S1-S4.

The leader's Sync makes the generation durable. Every Sync of the generation waits for that record
and is answered when it is durable. If the group has started another rebalance by then, those Syncs
were answered REBALANCE_IN_PROGRESS already and the record changes nothing.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import answers, rebalance
from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.classic_group.lookup import require_classic
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.classic_group.operation import OWNER, GroupOperation, LeaderSynced
from groupd.coordinator.core.classic_group.replay import group_record
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppendError,
    Completion,
    EventKind,
    Instant,
    Outcome,
    RequestContext,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import SyncGroupRequest

ASSIGNMENTS_ALWAYS = 1000
"""A SyncGroup may always have this many assignments. In a larger group it may have one for each
member."""


def handle(
    state: ShardState, context: RequestContext, request: SyncGroupRequest, now: Instant
) -> Outcome:
    """Answers a SyncGroup. Never raises ApiError: the outcome has every reply, errors included."""
    try:
        group = require_classic(state, request.group_id)
        member = _check(group, request)
    except ApiError as error:
        reply = answers.sync_failure(request, error)
        return Outcome(replies=[(context.token, reply)])
    op = GroupOperation(state, group, now)
    op.synced(member.member_id)
    if group.state is State.STABLE:
        op.outcome.replies.append((context.token, answers.synced(group, member)))
        return op.outcome
    member.sync_token = context.token
    if group.leader_id == member.member_id and group.assigning_generation != group.generation:
        _assign(op, request)
    return op.outcome


def _check(group: ClassicGroup, request: SyncGroupRequest) -> ClassicGroupMember:
    """Checks S6-S10, and that there are no more assignments than members. An Empty group has no
    members, so the member check covers S5."""
    if group.state is State.DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    member = group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation:
        raise ApiError(ErrorCode.ILLEGAL_GENERATION)
    if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
        None,
        group.protocol_name,
    ):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE:
        raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
    if len(request.assignments) > max(len(group.members), ASSIGNMENTS_ALWAYS):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    return member


def _assign(op: GroupOperation, request: SyncGroupRequest) -> None:
    """Write the leader's assignments. If the leader sends its Sync again before they are durable,
    that Sync only waits: after the append, memory must be what the log says."""
    group = op.group
    sent = {entry.member_id: entry.assignment for entry in request.assignments}
    assignments = {member_id: sent.get(member_id, b"") for member_id in group.members}
    group.assigning_generation = group.generation
    op.write(group_record(group, assignments))
    done = LeaderSynced(group, group.generation, assignments)
    op.outcome.completion = Completion(OWNER, done)


def finish(op: GroupOperation, done: LeaderSynced, error: AppendError | None) -> None:
    """The leader's assignments are durable, or their append has failed."""
    group = op.group
    if group.state is not State.COMPLETING_REBALANCE or group.generation != done.generation:
        return
    if error is not None:
        rebalance.reset_assignments(op, error.code)
        rebalance.prepare(op, f"the assignment was not written: {error.code.name}")
        return
    group.transition(State.STABLE, op.now.wall_ms)
    for member in group.sorted_members():
        member.assignment = done.assignments[member.member_id]
        op.answer_sync(member, answers.synced(group, member))
    op.event(
        EventKind.REBALANCE_COMPLETED,
        cause="the leader's assignment is durable",
        members=len(group.members),
        protocol=group.protocol_name or "",
    )
