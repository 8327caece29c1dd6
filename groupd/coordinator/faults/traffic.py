"""What lies between the connections and the broker: it tells which client has sent what, lets other
code see or change replies before they are sent, and submits the requests that the harness makes
itself.

`Traffic` is the innermost layer that `Daemon(wrap=...)` may add, so it does not see requests that a
fault keeps from the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.faults.errors import RequestRefused
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.waiting import Callback
from groupd.coordinator.server.slot import ClientConnection, Requests, Slot
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatRequest, SyncGroupRequest
from groupd.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from groupd.protocol.wire.registry import Api


def always() -> bool:
    return True


class InterceptedSlot(Slot):
    """Takes the place of a slot for the broker. The reply goes to `on_reply` instead of the client,
    and can be changed there."""

    __slots__ = ("_slot", "on_reply")

    def __init__(self, slot: Slot, on_reply: Callable[[Any], None]) -> None:
        super().__init__(slot.connection, slot.api, slot.header, b"", slot.request)
        self.on_reply = on_reply
        self._slot = slot

    def send(self, reply: Any, copies: int = 1) -> None:
        self.on_reply(reply)

    def hang_up(self) -> None:
        self._slot.hang_up()

    def block_connection(self) -> None:
        self._slot.block_connection()

    def reserve_bytes(self, wanted: int) -> int:
        return self._slot.reserve_bytes(wanted)

    def set_reserved_bytes(self, size: int) -> None:
        self._slot.set_reserved_bytes(size)

    def on_memory_short(self, callback: Callable[[], None] | None) -> None:
        self._slot.on_memory_short(callback)

    def may_repeat(self, validity: Any) -> None:
        """Does nothing: a reply that a fault may have changed is not stored for repetition."""


def watch(slot: Slot, repeated: Callable[[], None], allows: Callable[[], bool] = always) -> None:
    """Watches for repetitions of the heartbeat in `slot`. A steady heartbeat is answered with its
    stored reply and does not pass through the layers. `repeated()` is called for each of these.
    While `allows()` is False, they pass through the layers after all."""
    slot.watchers = [*(slot.watchers or ()), (allows, repeated)]


MemberKey = tuple[str, str]
"""(group id, member id)."""


class Liveness:
    """Which members would have sent heartbeats while `advance` let the time pass.

    `advance(45_000)` takes no real time, so clients cannot send heartbeats in between, and every
    member would be fenced, even the healthy ones. So a member counts as heartbeating while the
    connection that it last used is open. A member whose process is gone, or that is in `silenced`,
    does not count. Rebalance timeouts are not renewed: clients must really do what these wait for.
    """

    def __init__(self, broker: Callable[[], Broker]) -> None:
        self._broker = broker
        self._connections: dict[MemberKey, ClientConnection] = {}
        self.silenced: set[MemberKey] = set()

    def heard(self, request: Any, connection: ClientConnection) -> None:
        """Notes that a request of any kind has come over `connection`."""
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
        """Notes that the member's heartbeats do not get through from now on."""
        if key in self._connections:  # else the member is not kept alive in any case
            self.silenced.add(key)

    def renew(self, now_ms: int) -> None:
        """Restarts the sessions of all living members, as their heartbeats would have done."""
        broker = self._broker()
        for key, connection in list(self._connections.items()):
            if connection.closed:
                del self._connections[key]
                self.silenced.discard(key)
            elif key not in self.silenced:
                self._renew(broker, key, now_ms)

    def forget(self) -> None:
        """Forgets all members: a new broker has started, and no client has sent it a request."""
        self._connections.clear()
        self.silenced.clear()

    @staticmethod
    def _renew(broker: Broker, key: MemberKey, now_ms: int) -> None:
        group_id, member_id = key
        runtime = broker.own_shard_of(group_id)
        if runtime is None or runtime.state is not CoordinatorState.ACTIVE:
            return
        state = runtime.shard.state
        group = state.groups.get(group_id)
        session = None if group is None else type_of(group).session(state, group, member_id)
        if session is not None and session[0] in state.deadlines:
            deadline, timeout_ms = session
            state.deadlines.set(deadline, now_ms + timeout_ms)


OBSERVED = (OffsetCommitRequest, TxnOffsetCommitRequest, OffsetFetchRequest)
"""The types of requests whose replies are passed to `replied`."""


class Traffic:
    """A `Requests` that sees all requests. `epochs`: the highest epoch (or generation) that each
    member has named in a heartbeat or SyncGroup, which is how a client acknowledges it.
    `replied(request, reply)` is called for each request of a type in `OBSERVED`."""

    def __init__(
        self,
        inner: Requests,
        liveness: Liveness,
        changed: Callable[[], None],
        replied: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self._inner = inner
        self._liveness = liveness
        self._changed = changed
        self._replied = replied
        self.epochs: dict[MemberKey, int] = {}

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        heard = partial(self._liveness.heard, request, slot.connection)
        heard()
        watch(slot, heard)
        said = _epoch(request)
        if self._replied is not None and isinstance(request, OBSERVED):
            self._observe(self._replied, slot, api, request)
        else:
            self._inner.submit(slot, api, request)
        if said is not None:
            key = (request.group_id, request.member_id)
            if said > self.epochs.get(key, 0):
                self.epochs[key] = said
                self._changed()

    def _observe(
        self, replied: Callable[[Any, Any], None], slot: Slot, api: Api, request: Any
    ) -> None:
        def on_reply(reply: Any) -> None:
            replied(request, reply)
            slot.send(reply)

        observed = InterceptedSlot(slot, on_reply)
        self._inner.submit(observed, api, request)
        slot.stand_in = observed.stand_in or observed

    def forget(self, slot: Slot) -> None:
        self._inner.forget(slot)


def _epoch(request: Any) -> int | None:
    """The epoch that a member names in a heartbeat, or the generation in a Heartbeat or SyncGroup
    of a classic group; None for other requests."""
    if isinstance(request, HeartbeatRequest | SyncGroupRequest):
        return request.generation_id
    epoch: int | None = getattr(request, "member_epoch", None)
    return epoch


def submit_own(
    broker: Broker, request: Any, api_version: int, resolve: Callable[[Any], None]
) -> None:
    """Submits a request of the harness itself. It comes from no client, and faults do not apply to
    it. If the reply carries an error, `resolve` gets it as RequestRefused."""
    waiter = Callback(request, _refused, resolve)
    broker.submit(RequestContext(waiter, api_version, client_id="groupd-harness"), request)


def _refused(request: Any, code: ErrorCode, message: str | None) -> RequestRefused:
    return RequestRefused(f"{code.name}: {message or type(request).__name__}")
