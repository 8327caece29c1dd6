"""What consumer groups keep in a shard's state beside the groups. It is lost with a restart;
nothing in the log depends on it. What belongs to a group is by group id, because a new group has no
object yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct, field

from groupd.coordinator.core.consumer_group.conversions import Conversions
from groupd.coordinator.core.consumer_group.group import TYPE_NAME
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import RequestContext, RequestToken, Task
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest


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


class SoftState(Struct):
    """`conversions`: how groups of other types become consumer groups, and the other way round;
    None = they do not.
    `regex_tasks`: groups whose regular expressions are being resolved. `waiting_heartbeats`: by
    group id, the heartbeats that wait for a target."""

    conversions: Conversions | None = None
    regex_tasks: set[str] = field(default_factory=set)
    waiting_heartbeats: dict[str, WaitingHeartbeats] = field(default_factory=dict)


def soft_of(state: ShardState) -> SoftState:
    """The soft state of the consumer groups of a shard."""
    soft: SoftState = state.soft[TYPE_NAME]
    return soft
