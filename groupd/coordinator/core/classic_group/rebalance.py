"""The join phase: when it starts, when it may end, and what its end changes.

    prepare        Empty, Stable or CompletingRebalance -> PreparingRebalance
    try_complete   ends the phase early once every member has joined, but not an initial rebalance
    complete_join  -> CompletingRebalance with members, -> Empty without

An initial rebalance (of a group that was Empty) waits for `group.initial.rebalance.delay.ms`, and
again as long as members keep arriving, up to the first member's rebalance timeout. Source:
docs/spec/classic-group.md#2 and "Initial delay" in section 3.

A client that was given a member id is about to join. With a delay of 0 the phase waits for it, too,
but for `LINGER_ROUNDS` at most. A member that joins too late would cause another rebalance, of
which the others only learn with a heartbeat.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import answers
from groupd.coordinator.core.classic_group.group import State
from groupd.coordinator.core.classic_group.operation import GroupOperation
from groupd.coordinator.core.classic_group.replay import group_record
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import SyncGroupReply

LINGER_ROUNDS = 1000
"""Rounds of the event loop: about 30 ms on an idle broker, longer on a busy one."""

REBALANCEABLE = frozenset({State.STABLE, State.COMPLETING_REBALANCE})


def after_removal(op: GroupOperation, cause: str) -> None:
    """A member or pending id is gone: start a rebalance, or end the join phase if it can end
    now."""
    if op.group.state in REBALANCEABLE:
        prepare(op, cause)
    else:
        try_complete(op)


def prepare(op: GroupOperation, cause: str) -> None:
    """Start a join phase. It may end within the same operation."""
    group = op.group
    if group.state is State.COMPLETING_REBALANCE:
        reset_assignments(op, ErrorCode.REBALANCE_IN_PROGRESS)
    group.pending_sync.clear()
    op.cancel_sync()
    group.initial_rebalance = group.state is State.EMPTY
    group.transition(State.PREPARING_REBALANCE, op.now.wall_ms)
    op.event(EventKind.REBALANCE_STARTED, cause=cause, initial=group.initial_rebalance)
    if group.initial_rebalance:
        delay_ms = op.state.config.group_initial_rebalance_delay_ms
        group.member_added = False
        group.linger_rounds = LINGER_ROUNDS
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.max_rebalance_timeout_ms() - delay_ms, 0)
        op.arm_join(delay_ms)
    elif group.all_joined():
        complete_join(op)
    else:
        op.arm_join(group.max_rebalance_timeout_ms())


def reset_assignments(op: GroupOperation, error: ErrorCode) -> None:
    """Clear the assignments of the generation that is in CompletingRebalance, and answer its parked
    Syncs with `error`."""
    for member in op.group.sorted_members():
        member.assignment = b""
        op.answer_sync(member, SyncGroupReply(error))


def try_complete(op: GroupOperation) -> None:
    group = op.group
    if (
        group.state is State.PREPARING_REBALANCE
        and not group.initial_rebalance
        and group.all_joined()
    ):
        complete_join(op)


def join_timer(op: GroupOperation) -> None:
    """The join timer has fired: wait on, or end the join phase."""
    group = op.group
    if group.state is not State.PREPARING_REBALANCE:
        return
    if group.initial_rebalance and group.member_added and group.initial_remaining_ms > 0:
        delay_ms, remaining_ms = group.initial_delay_ms, group.initial_remaining_ms
        group.member_added = False
        group.initial_delay_ms = min(op.state.config.group_initial_rebalance_delay_ms, remaining_ms)
        group.initial_remaining_ms = max(remaining_ms - delay_ms, 0)
        op.arm_join(group.initial_delay_ms)
    elif _lingers(op):
        op.arm_join(0)
    else:
        complete_join(op)


def _lingers(op: GroupOperation) -> bool:
    """Whether the join phase waits one more round for members that were given an id. Rounds are
    counted instead of time, because a test's clock may stand still."""
    group = op.group
    at_once = op.state.config.group_initial_rebalance_delay_ms == 0
    if not (group.initial_rebalance and at_once and group.pending_members and group.linger_rounds):
        return False
    group.linger_rounds -= 1
    return True


def complete_join(op: GroupOperation) -> None:
    """End the join phase. Dynamic members that have not joined are removed, static members stay. If
    only static members that have not joined are left, the phase goes on."""
    group = op.group
    op.cancel_join()
    for member in group.sorted_members():
        if member.join_token is None and not member.is_static:
            op.drop(member, EventKind.MEMBER_FENCED, "did not rejoin within the rebalance timeout")
    if not group.elect_joined_leader() and group.members:
        op.arm_join(group.max_rebalance_timeout_ms())
        return
    group.next_generation(op.now.wall_ms)
    op.event(
        EventKind.GROUP_EPOCH_BUMPED,
        cause="join phase completed",
        members=len(group.members),
        protocol=group.protocol_name or "",
    )
    if not group.members:
        op.write(group_record(group))
        return
    _start_sync_phase(op)


def _start_sync_phase(op: GroupOperation) -> None:
    group = op.group
    for member in group.sorted_members():
        op.answer_join(member, answers.joined(group, member))
        op.arm_member(member)
        member.is_new = False
        group.pending_sync.add(member.member_id)
    op.arm_sync(group.max_rebalance_timeout_ms())
