"""What happens once the records of a classic handler are durable, or have failed.

Kafka calls it the append callback. Classic handlers change memory before the append. So when the
append fails, the group is not rolled back; it is corrected here (docs/spec/classic-group.md#5, last
column). A failed record of PreparingRebalance -> Empty needs no correction: memory keeps the new
generation, and the shard's runtime answers a waiting LeaveGroup with the error.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import static, sync
from groupd.coordinator.core.classic_group.group import State
from groupd.coordinator.core.classic_group.operation import (
    OWNER,
    GroupCreated,
    GroupOperation,
    LeaderSynced,
    StaticReplaced,
    cancel_timers,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppendError, Completion, EventKind, Instant, Outcome
from groupd.protocol.messages.classic_group import JoinGroupReply, SyncGroupReply


def appended(
    state: ShardState, completion: Completion, error: AppendError | None, now: Instant
) -> Outcome:
    """Handles a completion whose owner is `operation.OWNER`. All replies are urgent, because the
    records that they depend on are durable, or have failed already. A group that is gone by now is
    left alone."""
    assert completion.owner == OWNER
    done: GroupCreated | LeaderSynced | StaticReplaced = completion.data
    group = done.group
    # If the record of a new group was refused, replay never put the group into the state.
    present = state.groups.get(group.group_id)
    if isinstance(done, GroupCreated) and error is not None and present is done.previous:
        present = group
    if present is not group or group.state is State.DEAD:
        return Outcome()
    op = GroupOperation(state, group, now)
    if isinstance(done, LeaderSynced):
        sync.finish(op, done, error)
    elif isinstance(done, StaticReplaced):
        static.finish(op, done, error)
    elif error is not None:
        _uncreate(op, done, error)
    return op.outcome


def _uncreate(op: GroupOperation, done: GroupCreated, error: AppendError) -> None:
    """The record of the new group was not written: answer its waiting members with the error and
    remove the group."""
    group, groups = op.group, op.state.groups
    for member in group.sorted_members():
        op.answer_join(member, JoinGroupReply(error.code))
        op.answer_sync(member, SyncGroupReply(error.code))
    cancel_timers(op.state, group)
    group.transition(State.DEAD, op.now.wall_ms)
    if done.previous is not None:
        groups[group.group_id] = done.previous
    else:
        groups.pop(group.group_id, None)
    op.event(EventKind.GROUP_DELETED, cause=f"its record was not written: {error.code.name}")
