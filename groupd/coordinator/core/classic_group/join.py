"""JoinGroup (11), docs/spec/classic-group.md#2.1: the rules J6-J19 in their order; the front end
checks J1-J5.

A Join is answered at once, or parked until the join phase ends. If a request that creates its group
gets an error, the new group stays: its record is written, and the reply does not wait for it.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import answers, rebalance, static
from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.classic_group.lookup import create
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.classic_group.operation import (
    NEW_MEMBER_TIMEOUT_MS,
    OWNER,
    GroupCreated,
    GroupOperation,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Completion, EventKind, Instant, Outcome, RequestContext
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply, JoinGroupRequest

_MEMBER_ID_REQUIRED_FROM = 4


def handle(
    state: ShardState, context: RequestContext, request: JoinGroupRequest, now: Instant
) -> Outcome:
    """Answers a JoinGroup. Never raises ApiError: the outcome has every reply, errors included."""
    found, creation = state.groups.get(request.group_id), None
    if not isinstance(found, ClassicGroup):
        if found is not None and not found.admits_classic_members():
            reply = JoinGroupReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            return Outcome(replies=[(context.token, reply)])
        try:
            creation = create(state, found, request.group_id, request.member_id, now)
        except ApiError as error:
            reply = answers.join_refusal(request, error)
            return Outcome(replies=[(context.token, reply)])
        found = creation.group
    op = GroupOperation(state, found, now)
    try:
        answer = _decide(op, context, request)
    except ApiError as error:
        answer = answers.join_refusal(request, error)
    outcome = op.outcome
    if answer is not None:
        # An immediate answer does not depend on the record of the new group.
        waiting = outcome.replies if creation is None else outcome.urgent
        waiting.append((context.token, answer))
    if creation is not None:
        op.event(EventKind.GROUP_CREATED, cause="JoinGroup")
        outcome.records.extend(creation.tombstones)
        op.write(creation.record)
        outcome.completion = Completion(OWNER, GroupCreated(found, creation.previous))
    return outcome


def _decide(
    op: GroupOperation, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupReply | None:
    """The reply, or None when the Join is parked. Raises ApiError, whose reply has the member id of
    the request."""
    group, member_id, instance_id = op.group, request.member_id, request.group_instance_id
    if not _has_capacity(op, member_id):
        _remove_refused(op, member_id)
        return JoinGroupReply(ErrorCode.GROUP_MAX_SIZE_REACHED)
    if group.state is State.DEAD:
        raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if not group.supports(request.protocol_type, request.protocols):
        raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member_id == "":
        return _join_new(op, context, request)
    if member_id in group.pending_members:
        if instance_id is not None:
            # A static member never gets a pending id, so no honest client sends both.
            return JoinGroupReply(ErrorCode.UNKNOWN_SERVER_ERROR)
        _add(op, context, request, member_id)
        return None
    return _rejoin(op, context, request, group.check_member(member_id, instance_id))


def _has_capacity(op: GroupOperation, member_id: str) -> bool:
    """Whether the group has capacity for this member (docs/spec/classic-group.md#2.1,
    "Capacity")."""
    group, most = op.group, op.state.config.group_max_size
    if group.state is State.PREPARING_REBALANCE:
        member = group.members.get(member_id)
        parked = member is not None and member.join_token is not None
        return parked or group.joins_parked < most
    if group.state in rebalance.REBALANCEABLE:
        return member_id in group.members or len(group.members) < most
    return True


def _remove_refused(op: GroupOperation, member_id: str) -> None:
    op.forget_pending(member_id)
    member = op.group.members.get(member_id)
    if member is not None:
        op.drop(member, EventKind.MEMBER_FENCED, "group.max.size reached")


def _join_new(
    op: GroupOperation, context: RequestContext, request: JoinGroupRequest
) -> JoinGroupReply | None:
    instance_id = request.group_instance_id
    prefix = context.client_id if instance_id is None else instance_id
    new_id = f"{prefix}-{op.state.new_id()}"
    if instance_id is not None and instance_id in op.group.static_members:
        static.replace(op, context, request, new_id)
    elif instance_id is None and context.api_version >= _MEMBER_ID_REQUIRED_FROM:
        pending = op.group.pending_members
        if len(pending) >= op.state.config.group_max_pending_members:
            # An honest client uses its id at once, so the oldest id is not needed any more.
            op.forget_pending(next(iter(pending)))
        pending[new_id] = None
        op.arm_session(new_id, request.session_timeout_ms)
        return JoinGroupReply(ErrorCode.MEMBER_ID_REQUIRED, member_id=new_id)
    else:
        _add(op, context, request, new_id)
    return None


def _add(
    op: GroupOperation, context: RequestContext, request: JoinGroupRequest, member_id: str
) -> None:
    group = op.group
    member = ClassicGroupMember(
        member_id,
        request.group_instance_id,
        context.client_id,
        context.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocols,
    )
    member.is_new = True
    group.add(member, request.protocol_type)
    group.park_join(member, context.token)
    op.arm_session(member_id, NEW_MEMBER_TIMEOUT_MS)
    op.member_event(EventKind.MEMBER_JOINED, member, request.reason or "new member")
    if group.state is State.PREPARING_REBALANCE:
        # Only members that arrive after the rebalance has begun extend an initial rebalance.
        group.member_added = True
        rebalance.try_complete(op)
    else:
        rebalance.prepare(op, f"member {member_id} joined")


def _rejoin(
    op: GroupOperation,
    context: RequestContext,
    request: JoinGroupRequest,
    member: ClassicGroupMember,
) -> JoinGroupReply | None:
    """A Join of a member of the group: J16-J19."""
    group = op.group
    changed = member.protocols != request.protocols
    if group.state is State.PREPARING_REBALANCE:
        _update(group, context, request, member)
        rebalance.try_complete(op)
        return None
    leads_stable = group.state is State.STABLE and group.leader_id == member.member_id
    if not changed and not leads_stable:
        return answers.joined(group, member)
    _update(group, context, request, member)
    why = "changed its protocols" if changed else "leads the group and rejoined"
    cause = f"member {member.member_id} {why}"
    rebalance.prepare(op, f"{cause}: {request.reason}" if request.reason else cause)
    return None


def _update(
    group: ClassicGroup,
    context: RequestContext,
    request: JoinGroupRequest,
    member: ClassicGroupMember,
) -> None:
    group.update(
        member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
    )
    group.park_join(member, context.token)
