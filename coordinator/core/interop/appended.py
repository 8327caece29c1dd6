"""What happens once the records of a downgrade are durable, or have failed.

A shard whose append fails is rebuilt from its log, whatever is answered here; what is mended is
the write that was refused as too large, after which the shard lives on.
"""

from __future__ import annotations

from groupd.coordinator.core.classic_group import appended as classic_appended
from groupd.coordinator.core.classic_group.completions import OWNER as CLASSIC_OWNER
from groupd.coordinator.core.classic_group.completions import GroupCreated
from groupd.coordinator.core.consumer_group import timers as consumer_timers
from groupd.coordinator.core.interop.downgrade import OWNER, Downgraded
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppendError, Completion, Instant, Outcome


def appended(
    state: ShardState, completion: Completion, error: AppendError | None, now: Instant
) -> Outcome:
    """`completion.owner` is `downgrade.OWNER`. On failure the classic group never was: whoever
    waits in it is told why, and the consumer group is back with full sessions, also for members
    that were about to be fenced; their next expiry tries again."""
    assert completion.owner == OWNER
    done: Downgraded = completion.data
    created = Completion(CLASSIC_OWNER, GroupCreated(done.group, done.previous))
    outcome = classic_appended.appended(state, created, error, now)
    if error is not None and state.groups.get(done.previous.group_id) is done.previous:
        consumer_timers.restart(state, done.previous, now)
    return outcome
