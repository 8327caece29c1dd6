"""Calls to the other nodes of a cluster: one connection to each, opened when it is needed.

A connection is closed when it was not used for `IDLE_MS`, when a reply does not come in time, when
its login is about to end (the next call opens a new one), and when its node leaves the cluster, is
restarted or has another address. If too many calls to a node are under way, a new one is refused at
once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import structlog

from groupd.client.connection import (
    UNPROTECTED,
    ClientSecurity,
    ConnectionLimits,
    KafkaConnection,
)
from groupd.client.errors import REFUSED, CallFailed
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Alarm, Clock
from groupd.protocol.messages.data import ProduceRequest
from groupd.protocol.messages.producers import WriteTxnMarkersRequest
from groupd.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    WriteShareGroupStateRequest,
)
from groupd.protocol.messages.transactions import AddPartitionsToTxnRequest
from groupd.protocol.wire.apis import API_BY_REQUEST
from groupd.storage.cluster import NodeState

log = structlog.get_logger("groupd.peers")

IDLE_MS = 60_000
CONNECT_MS = 3_000
"""The time limit for opening a connection with TLS and login."""
TIMEOUT_MS = 10_000
"""The time limit for a reply."""

RECONNECT_MS = 100
"""After a failed connection, calls to the node are refused for this long."""

VERSIONS: Mapping[type, int] = {
    AddPartitionsToTxnRequest: 5,
    ProduceRequest: 12,  # the last version that names topics by name
    WriteTxnMarkersRequest: 2,
    InitializeShareGroupStateRequest: 0,
    ReadShareGroupStateRequest: 0,
    WriteShareGroupStateRequest: 1,
    DeleteShareGroupStateRequest: 0,
    ReadShareGroupStateSummaryRequest: 1,
}
"""The APIs that nodes use among themselves, and their versions."""

_ALL_NODES = (AddPartitionsToTxnRequest, WriteTxnMarkersRequest)
"""Those that nodes of all versions have."""


class PeerAddress(NamedTuple):
    """Where a node is reached. `incarnation`: if it changes it is another process."""

    host: str
    port: int
    incarnation: int = 0


AddressOf = Callable[[int], PeerAddress | None]
"""Returns where a node is reached; None if it is not a member."""


def address_in(members: tuple[NodeState, ...], node_id: int) -> PeerAddress | None:
    """Returns the address of a member for other nodes."""
    for one in members:
        if one.facts.node_id == node_id:
            for name, host, port in one.facts.listeners:
                if one.facts.inter_broker in ("", name):
                    return PeerAddress(host, port, one.incarnation)
    return None


class Peers:
    """The connections of this node to the other nodes."""

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        address_of: AddressOf,
        security: ClientSecurity = UNPROTECTED,
        limits: ConnectionLimits | None = None,
    ) -> None:
        self.node_id = config.node_id
        self.clock = clock
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls by (API, outcome). Outcomes: answered, failed, timeout, refused."""
        self.last_ms: dict[str, int] = {}
        """How long the last answered call of each API took."""
        self._address_of = address_of
        self._security = security
        self._limits = limits or ConnectionLimits(
            config.socket_request_max_bytes, connect_ms=CONNECT_MS, timeout_ms=TIMEOUT_MS
        )
        self._peers: dict[int, _Peer] = {}
        self._denied = False
        self._closed = False

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return sum(one.connected for one in self._peers.values())

    async def call(self, node_id: int, request: Any) -> Any:
        """Returns the node's reply to a request of an API that `VERSIONS` has. Raises
        CallFailed."""
        name, started_ms = API_BY_REQUEST[type(request)].name, self.clock.monotonic_ms()
        try:
            answer = await self._peer(node_id).call(request)
        except CallFailed as error:
            self.calls[name, error.outcome] += 1
            raise
        self.calls[name, "answered"] += 1
        self.last_ms[name] = self.clock.monotonic_ms() - started_ms
        return answer

    def denied(self, node_id: int) -> None:
        """A node has answered CLUSTER_AUTHORIZATION_FAILED: log that once."""
        if not self._denied:
            self._denied = True
            log.warning(
                "another node refuses the calls of this one, so transactions and share groups "
                "cannot go on: the principal of nodes needs ClusterAction on the cluster, or a "
                "place in super.users",
                node=node_id,
            )

    def look(self) -> None:
        """Close connections to nodes that have left, were restarted or have another address. Called
        when members have changed."""
        for node_id, peer in list(self._peers.items()):
            if self._address_of(node_id) != peer.address:
                del self._peers[node_id]
                peer.close("it has left the cluster or was started again")

    def close(self) -> None:
        """Close all connections. Calls fail from now on."""
        self._closed = True
        for peer in self._peers.values():
            peer.close("this node stops")
        self._peers.clear()

    def _peer(self, node_id: int) -> _Peer:
        address = self._address_of(node_id)
        if self._closed or address is None:
            raise CallFailed(f"node {node_id} is not a member of the cluster")
        peer = self._peers.get(node_id)
        if peer is not None and peer.address != address:
            peer.close("it was started again")
            peer = None
        if peer is None:
            peer = self._peers[node_id] = _Peer(
                address,
                self.clock,
                self._limits.requests,
                partial(self._connection, node_id, address),
            )
        return peer

    def _connection(self, node_id: int, address: PeerAddress) -> KafkaConnection:
        return KafkaConnection(
            f"node {node_id} at {address.host}:{address.port}",
            f"groupd-node-{self.node_id}",
            self.clock,
            self._security,
            self._limits,
        )


class _Peer:
    """One node at one address. `make()` returns a connection that is not open. `waiting_max`: how
    many calls may wait for it."""

    def __init__(
        self,
        address: PeerAddress,
        clock: Clock,
        waiting_max: int,
        make: Callable[[], KafkaConnection],
    ) -> None:
        self.address = address
        self._clock = clock
        self._waiting_max = waiting_max
        self._make = make
        self._connection: KafkaConnection | None = None
        self._old: KafkaConnection | None = None
        self._next: KafkaConnection | None = None
        self._opening: asyncio.Task[KafkaConnection] | None = None
        self._waiting = 0
        self._used_ms = 0
        self._not_before_ms = 0
        self._failing: str | None = None
        self._idle = Alarm(clock, self._check_idle)

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.usable

    async def call(self, request: Any) -> Any:
        self._used_ms = self._clock.monotonic_ms()
        self._idle.at_latest(self._used_ms + IDLE_MS)
        connection = self._connection
        if connection is None or not connection.usable:
            connection = await self._opened()
        return await connection.call(request, VERSIONS[type(request)])

    def close(self, why: str) -> None:
        self._idle.cancel()
        for connection in (self._connection, self._old, self._next):
            if connection is not None:
                connection.close(why)

    def _check_idle(self) -> None:
        due_ms = self._used_ms + IDLE_MS
        connection = self._connection
        if connection is None:
            return
        if connection.under_way or self._clock.monotonic_ms() < due_ms:
            self._idle.at_latest(max(due_ms, self._clock.monotonic_ms() + 1000))
            return
        self._connection = None
        connection.close("not used")

    # Connecting ---------------------------------------------------------------------------

    async def _opened(self) -> KafkaConnection:
        """Returns a new open connection, the same one for all callers that wait for it. Raises
        CallFailed."""
        if self._opening is None:
            if self._clock.monotonic_ms() < self._not_before_ms:
                raise CallFailed(self._failing or "")
            self._retire()
            self._next = self._make()
            self._opening = asyncio.get_running_loop().create_task(self._open(self._next))
            self._opening.add_done_callback(_seen)
        if self._waiting >= self._waiting_max:
            host, port, _ = self.address
            raise CallFailed(f"{host}:{port}: too much is under way", REFUSED)
        self._waiting += 1
        try:
            return await asyncio.shield(self._opening)
        finally:
            self._waiting -= 1

    def _retire(self) -> None:
        """Close the connection once the replies to its requests have come."""
        if self._connection is None:
            return
        if self._old is not None:
            self._old.close("not used any more")
        self._connection.retire()
        self._old, self._connection = self._connection, None

    async def _open(self, connection: KafkaConnection) -> KafkaConnection:
        try:
            await connection.open(self.address.host, self.address.port)
            for request_type in _ALL_NODES:
                connection.version_for(request_type, VERSIONS[request_type])
        except CallFailed as error:
            failed = error
        except Exception as error:
            log.exception("no connection to another node", to=connection.where)
            failed = CallFailed(f"{connection.where}: {error}")
        else:
            self._connection, self._failing = connection, None
            return connection
        finally:
            self._opening = self._next = None
        connection.close(str(failed))
        self._not_before_ms = self._clock.monotonic_ms() + RECONNECT_MS
        if self._failing is None:
            log.warning("no connection to another node", reason=str(failed))
        self._failing = str(failed)
        raise failed


def _seen(opening: asyncio.Task[KafkaConnection]) -> None:
    """Read the error of the task, because all its callers may have been cancelled."""
    if not opening.cancelled():
        opening.exception()
