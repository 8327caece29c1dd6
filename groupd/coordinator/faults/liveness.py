"""Which members would have sent heartbeats while `advance` let the time pass.

`advance(45_000)` takes no real time, so clients cannot send heartbeats in between. Without this
module every member would be fenced, even the healthy ones. So a member counts as heartbeating as
long as the connection that it last used is open. A member whose process is gone, or that was
silenced, does not count. Rebalance timeouts are not renewed: a client must really do what they wait
for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.server.slot import Client

MemberKey = tuple[str, str]
"""(group id, member id)."""


class Liveness:
    """The members and their connections. `silenced`: the members whose heartbeats do not get
    through."""

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker
        self._connections: dict[MemberKey, Client] = {}
        self.silenced: set[MemberKey] = set()

    def heard(self, request: Any, connection: Client) -> None:
        """A request of any kind has come over `connection`."""
        member_id = getattr(request, "member_id", None)
        group_id = getattr(request, "group_id", None)
        if member_id and group_id:
            self._connections[group_id, member_id] = connection

    def alive(self, group_id: str, member_id: str) -> bool:
        """Whether the member's client is connected and not silenced."""
        key = (group_id, member_id)
        connection = self._connections.get(key)
        return connection is not None and not connection.closed and key not in self.silenced

    def silence(self, key: MemberKey) -> None:
        """From now on the member's heartbeats do not get through."""
        if key in self._connections:  # else the member is not kept alive in any case
            self.silenced.add(key)

    def renew(self, now_ms: int) -> None:
        """Start the sessions of all living members anew, as their heartbeats would have done."""
        broker = self._broker()
        for key, connection in list(self._connections.items()):
            if connection.closed:
                del self._connections[key]
                self.silenced.discard(key)
            elif key not in self.silenced:
                self._renew(broker, key, now_ms)

    def forget(self) -> None:
        """Forget all members: a new broker has started, and nobody has spoken to it."""
        self._connections.clear()
        self.silenced.clear()

    @staticmethod
    def _renew(broker: Broker, key: MemberKey, now_ms: int) -> None:
        group_id, member_id = key
        runtime = broker.own_shard_of(group_id)
        if runtime.state is not CoordinatorState.ACTIVE:
            return
        state = runtime.shard.state
        group = state.groups.get(group_id)
        session = None if group is None else type_of(group).session(state, group, member_id)
        if session is not None and session[0] in state.deadlines:
            deadline, timeout_ms = session
            state.deadlines.set(deadline, now_ms + timeout_ms)
