"""Soft state of target assignments: heartbeats that wait for a target, and a target that is being
computed. It is lost with a restart; nothing in the log depends on it."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator

from msgspec import Struct, field

from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.target_limits import RETRY_MS, STALE_MS
from groupd.coordinator.core.types import Instant, Outcome, RequestContext, RequestToken, Task
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest


class TargetComputation:
    """The computation of one target of a large group (`deferred_target`). `steps`: the work that is
    left; `touched_ms`: monotonic time of its last slice; `failed`: its assignor has failed."""

    __slots__ = ("failed", "steps", "touched_ms")

    def __init__(self, steps: Generator[Outcome, Instant, None], now: Instant) -> None:
        self.steps = steps
        self.touched_ms = now.monotonic_ms
        self.failed = False

    def holds_back(self, now: Instant) -> bool:
        """Whether this computation prevents another one from starting for the group."""
        patience_ms = RETRY_MS if self.failed else STALE_MS
        return now.monotonic_ms < self.touched_ms + patience_ms


class WaitingHeartbeat(Struct):
    """A heartbeat that waits for a target; its step 1 is done.

    `before`: the member as the heartbeat found it, after a static replacement; `group_epoch`: the
    group epoch after step 1; `earlier`: earlier requests of the same member that this one replaces,
    and that get the same answer; `since_ms`: monotonic time at which the first of them came.
    """

    context: RequestContext
    request: ConsumerGroupHeartbeatRequest
    before: ConsumerGroupMember
    subscription_changed: bool
    group_epoch: int
    since_ms: int
    earlier: list[RequestToken] = field(default_factory=list)

    def tokens(self) -> Iterator[RequestToken]:
        """The tokens of all requests that are to be answered, the first request first."""
        yield from self.earlier
        yield self.context.token


class WaitingHeartbeats(Struct):
    """The waiting heartbeats of one group.

    `waiting`: those whose target is not there yet; `ready`: those to be answered; `by_member`:
    both, by member id. `tasks`: tasks of their steps 1 that start once the target is computed. Of
    the target that they wait for: `since_ms`: when it became due; `end_ms`: until when further
    changes of the group may postpone its computation; `changes`: how many changes there were. Times
    are monotonic.
    """

    since_ms: int = 0
    end_ms: int = 0
    changes: int = 0
    waiting: deque[WaitingHeartbeat] = field(default_factory=deque)
    ready: deque[WaitingHeartbeat] = field(default_factory=deque)
    by_member: dict[str, WaitingHeartbeat] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
