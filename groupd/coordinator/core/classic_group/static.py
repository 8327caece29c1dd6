"""Static members (KIP-345): a restarted instance takes the place of its old member under a new
member id.

While the group is Stable and the choice of protocol does not change, this costs no rebalance: a
record with the new id is written, and the Join is answered once the record is durable. If the
choice of protocol changes, or a rebalance is under way, the Join is part of a rebalance. Source:
docs/spec/classic-group.md#4; KIP-814 for `skip_assignment`.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import answers, rebalance
from groupd.coordinator.core.classic_group.group import State
from groupd.coordinator.core.classic_group.member import ClassicGroupMember, SlotBefore
from groupd.coordinator.core.classic_group.operation import OWNER, GroupOperation, StaticReplaced
from groupd.coordinator.core.classic_group.replay import group_record
from groupd.coordinator.core.types import AppendError, Completion, EventKind, RequestContext
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    JoinGroupReply,
    JoinGroupRequest,
    SyncGroupReply,
)

_SKIP_ASSIGNMENT_FROM = 9


def replace(
    op: GroupOperation, context: RequestContext, request: JoinGroupRequest, new_id: str
) -> None:
    """Give the member of this instance the new member id and park the client's Join."""
    group = op.group
    member = group.members[group.static_members[request.group_instance_id or ""]]
    before = SlotBefore(
        member.member_id,
        group.leader_id,
        member.protocols,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
    )
    _fence(op, member)
    group.rename(member, new_id)
    member.is_new = False
    op.arm_member(member)
    group.update(
        member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms
    )
    group.park_join(member, context.token)
    replaced = f"takes the place of {before.member_id} as instance {request.group_instance_id}"
    op.member_event(EventKind.MEMBER_REPLACED, member, replaced)
    cause = f"static member {new_id} {replaced}"
    if group.state is State.PREPARING_REBALANCE:
        rebalance.try_complete(op)
    elif group.state is State.STABLE and group.vote() == group.protocol_name:
        # The new process may subscribe to other topics. A load would read them from the record, so
        # memory must have them, too.
        group.refresh_subscription()
        op.write(group_record(group))
        member.unwritten += (before,)
        done = StaticReplaced(group, member, context.token, context.api_version)
        op.outcome.completion = Completion(OWNER, done)
    else:
        # In CompletingRebalance the leader may be assigning to the old member id.
        rebalance.prepare(op, cause)


def _fence(op: GroupOperation, member: ClassicGroupMember) -> None:
    fenced = ErrorCode.FENCED_INSTANCE_ID
    op.answer_join(member, JoinGroupReply(fenced, member_id=member.member_id))
    op.answer_sync(member, SyncGroupReply(fenced))
    op.cancel_session(member.member_id)


def finish(op: GroupOperation, done: StaticReplaced, error: AppendError | None) -> None:
    """The record of a replacement is durable, or has failed.

    Appends end in order, so `done` is the oldest replacement that is not written. If its append
    fails, the log still has the member as it was before `done`. A later replacement that fails has
    to restore that form as well.

    If the group is not Stable any more, or another restart has replaced the member again, there is
    nothing to do: the Join belongs to the new rebalance (or has been answered), and that rebalance
    will write the id.
    """
    group, member = done.group, done.member
    before, *later = member.unwritten
    if error is not None and later:
        later[0] = before
    member.unwritten = tuple(later)
    waiting = group.members.get(member.member_id) is member and member.join_token == done.token
    if not waiting or group.state is not State.STABLE:
        return
    if error is None:
        op.answer_join(member, _unchanged(done, before))
    else:
        _undo(op, done, before, error)
    op.arm_member(member)


def _unchanged(done: StaticReplaced, before: SlotBefore) -> JoinGroupReply:
    """The reply at the current generation, without a rebalance (the table of section 4). Before v9
    the reply cannot tell a leader to skip the assignment. Then it names the old member id as the
    leader, and the client acts as a follower."""
    group, member = done.group, done.member
    was_leader = before.leader_id == before.member_id
    skip = was_leader and done.api_version >= _SKIP_ASSIGNMENT_FROM
    return JoinGroupReply(
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        leader=(group.leader_id if skip else before.leader_id) or "",
        skip_assignment=skip,
        member_id=member.member_id,
        members=answers.members_of(group) if skip else (),
    )


def _undo(op: GroupOperation, done: StaticReplaced, before: SlotBefore, error: AppendError) -> None:
    group, member = done.group, done.member
    reply = JoinGroupReply(
        error.code,
        generation_id=group.generation,
        protocol_type=group.protocol_type or None,
        protocol_name=group.protocol_name,
        leader=before.leader_id or "",
    )
    op.answer_join(member, reply)
    op.cancel_session(member.member_id)
    group.rename(member, before.member_id)
    group.update(member, before.protocols, before.rebalance_timeout_ms, before.session_timeout_ms)
    group.refresh_subscription()
