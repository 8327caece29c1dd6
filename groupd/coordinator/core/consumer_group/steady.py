"""When the reply to a settled member's repeated heartbeat may be sent again without handling it.

The heartbeat that found nothing to do hands out a lease. As long as the lease holds, the same
request has the same reply and the same only effect, a new session deadline. Only replay changes a
group and its members, and counts what it does, so one number says that nothing has changed: the
more members there are, the less is left of any of them in the processor's cache.
"""

from __future__ import annotations

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.deadlines import OFF, Deadline
from groupd.coordinator.core.state import ShardState

_NEVER = -1


def _may_rest(group: ConsumerGroup) -> bool:
    return group.assignment_epoch == group.group_epoch and not group.regex_subscribers


class ConsumerHeartbeatLease:
    """The lease of one member of one group. Not for groups with regular expressions: their
    heartbeats may have to schedule a resolution."""

    __slots__ = (
        "_changes",
        "_deadline",
        "_group",
        "_overrides",
        "_state",
        "_timeout_ms",
        "group_id",
    )

    def __init__(
        self,
        state: ShardState,
        group: ConsumerGroup,
        deadline: Deadline,
        timeout_ms: int,
    ) -> None:
        self.group_id = group.group_id
        self._state = state
        self._group = group
        self._changes = group.changes if _may_rest(group) else _NEVER
        self._overrides = state.group_configs.get(group.group_id)
        self._deadline = deadline
        self._timeout_ms = timeout_ms

    def renew(self, now_ms: int) -> bool:
        """The same request at `now_ms`: restart the member's session; False if the lease has
        ended and the request must be handled in full."""
        group, state, group_id = self._group, self._state, self.group_id
        deadline = self._deadline
        if (
            group.changes != self._changes
            or now_ms >= group.refresh_deadline_ms
            or state.groups.get(group_id) is not group
            or state.group_configs.get(group_id) is not self._overrides
            or deadline.at_ms == OFF
        ):
            return False
        deadline.at_ms = now_ms + self._timeout_ms
        return True
