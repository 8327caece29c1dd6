"""How long the reply to a settled member's repeated heartbeat may be sent again (ADR 10). It is the
same for consumer groups and share groups."""

from __future__ import annotations

from typing import Protocol

from groupd.coordinator.core.deadlines import OFF, Deadline
from groupd.coordinator.core.epochs import EpochGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.state import ShardState


class CountingGroup(Group, EpochGroup, Protocol):
    """`changes` counts at least the records that were replayed into the group."""

    changes: int


class HeartbeatReplyValidity:
    """Says whether the reply to a settled member's repeated heartbeat may be sent again without
    handling the request. A heartbeat that found nothing to do, now or later, makes one of these.
    While it is valid, the same request has the same reply, and its only effect is a new session
    deadline.

    Only replay changes a group and its members, and it counts its changes. So one number shows that
    nothing has changed, and the member need not be read, which in a large group is hardly ever in
    the processor's cache.
    """

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
        group: CountingGroup,
        deadline: Deadline,
        timeout_ms: int,
    ) -> None:
        self.group_id = group.group_id
        self._state = state
        self._group = group
        self._changes = group.changes
        self._overrides = state.group_configs.get(group.group_id)
        self._deadline = deadline
        self._timeout_ms = timeout_ms

    def renew(self, now_ms: int) -> bool:
        """The same request came again at `now_ms`: restart the member's session. Returns False if
        the reply is no longer valid and the request must be handled in full."""
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
