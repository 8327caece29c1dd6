"""Calls to the other nodes of a cluster: one connection to each, made when it is needed.

A connection is closed when it was not used for `IDLE_MS`, when a request on it has no reply in
time, when its login is about to end (the next call makes a new one), and when its node leaves the
cluster, is started again or has another address. Too much under way to a node is refused at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import structlog
from msgspec import Struct

from groupd.coordinator.cluster.peer_connection import (
    FAILED,
    REFUSED,
    TIMEOUT,
    PeerConnection,
    PeerUnavailable,
)
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.failures import reason
from groupd.coordinator.runtime.clock import Alarm, Clock
from groupd.coordinator.security.inter_broker import UNPROTECTED, PeerSecurity
from groupd.coordinator.security.sasl.client import Login, LoginFailed
from groupd.protocol.wire.between_brokers import ADD_PARTITIONS, WRITE_MARKERS
from groupd.protocol.wire.calls import API_VERSIONS, Ask, missing, read_versions
from groupd.storage.cluster import NodeState

log = structlog.get_logger("groupd.peers")

IDLE_MS = 60_000
CONNECT_MS = 3_000
"""Time for a connection with TLS and login."""

RECONNECT_MS = 100
"""After a connection that failed, calls are refused for so long."""

_LOGIN_SHARE = 0.85
"""The part of a login's lifetime after which the connection is not used any more."""


class PeerAddress(NamedTuple):
    """Where a node is reached. `incarnation`: another one is another process."""

    host: str
    port: int
    incarnation: int = 0


class PeerLimits(Struct, frozen=True):
    """For each node: how many requests, and about how many bytes of them, may be under way at once,
    and how long one may take."""

    requests: int = 100
    size: int = 8 * 1024 * 1024
    timeout_ms: int = 10_000


AddressOf = Callable[[int], PeerAddress | None]
"""Where a node is reached; None: it is not a member."""


def address_in(members: tuple[NodeState, ...], node_id: int) -> PeerAddress | None:
    """The address that a member has for other nodes."""
    for one in members:
        if one.facts.node_id == node_id:
            for name, host, port in one.facts.listeners:
                if one.facts.inter_broker in ("", name):
                    return PeerAddress(host, port, one.incarnation)
    return None


class Peers:
    """The other nodes, as this one reaches them."""

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        address_of: AddressOf,
        security: PeerSecurity = UNPROTECTED,
        limits: PeerLimits = PeerLimits(),  # noqa: B008 (frozen)
    ) -> None:
        self.node_id = config.node_id
        self.clock = clock
        self.calls: Counter[tuple[str, str]] = Counter()
        """Calls by (API, outcome): answered, failed, timeout, refused."""
        self.last_ms: dict[str, int] = {}
        """How long the last answer of an API took."""
        self._config = config
        self._address_of = address_of
        self._security = security
        self._limits = limits
        self._peers: dict[int, _Peer] = {}
        self._denied = False
        self._closed = False

    @property
    def connections(self) -> int:
        """How many there are now."""
        return sum(one.connected for one in self._peers.values())

    async def call(self, node_id: int, ask: Ask) -> Any:
        """What `ask.read` makes of the node's reply. Raises PeerUnavailable."""
        name, started_ms = ask.api.name, self.clock.monotonic_ms()
        try:
            answer = await self._peer(node_id).call(ask)
        except PeerUnavailable as error:
            self.calls[name, error.outcome] += 1
            raise
        self.calls[name, "answered"] += 1
        self.last_ms[name] = self.clock.monotonic_ms() - started_ms
        return answer

    def denied(self, node_id: int) -> None:
        """A node has answered CLUSTER_AUTHORIZATION_FAILED: says so once."""
        if not self._denied:
            self._denied = True
            log.warning(
                "another node refuses the calls of this one, so transactions cannot go on: the "
                "principal of nodes needs ClusterAction on the cluster, or a place in super.users",
                node=node_id,
            )

    def look(self) -> None:
        """Close what leads to nodes that have left, were started again or have another address.
        Called when members have changed."""
        for node_id, peer in list(self._peers.items()):
            if self._address_of(node_id) != peer.address:
                del self._peers[node_id]
                peer.close("has left the cluster or was started again")

    def close(self) -> None:
        """Close everything; calls fail from now on."""
        self._closed = True
        for peer in self._peers.values():
            peer.close("this node stops")
        self._peers.clear()

    def _peer(self, node_id: int) -> _Peer:
        address = self._address_of(node_id)
        if self._closed or address is None:
            raise PeerUnavailable(f"node {node_id} is not a member of the cluster")
        peer = self._peers.get(node_id)
        if peer is not None and peer.address != address:
            peer.close("was started again")
            peer = None
        if peer is None:
            peer = _Peer(node_id, address, self._config, self.clock, self._security, self._limits)
            self._peers[node_id] = peer
        return peer


class _Peer:
    """One node at one address."""

    def __init__(
        self,
        node_id: int,
        address: PeerAddress,
        config: CoordinatorConfig,
        clock: Clock,
        security: PeerSecurity,
        limits: PeerLimits,
    ) -> None:
        self.address = address
        self._where = f"node {node_id} at {address.host}:{address.port}"
        self._config = config
        self._clock = clock
        self._security = security
        self._limits = limits
        self._connection: PeerConnection | None = None
        self._old: PeerConnection | None = None
        self._ready: asyncio.Future[PeerConnection] | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._waiting = 0
        self._used_ms = 0
        self._not_before_ms = 0
        self._failing: str | None = None
        self._closed: str | None = None
        self._idle = Alarm(clock, self._check_idle)

    @property
    def connected(self) -> bool:
        return self._connection is not None and self._connection.usable

    async def call(self, ask: Ask) -> Any:
        self._check_room()
        self._used_ms = self._clock.monotonic_ms()
        self._idle.at_latest(self._used_ms + IDLE_MS)
        if self._connection is not None and self._connection.usable:
            return await self._connection.ask(ask)
        self._waiting += 1
        try:
            connection = await asyncio.shield(self._connect())
        finally:
            self._waiting -= 1
        return await connection.ask(ask)

    def _check_room(self) -> None:
        requests, size = self._waiting, 0
        if self._connection is not None:
            requests += self._connection.under_way
            size = self._connection.size
        if requests >= self._limits.requests or size >= self._limits.size:
            raise PeerUnavailable(f"{self._where}: too much is under way", REFUSED)

    def close(self, reason: str) -> None:
        self._closed = reason
        self._idle.cancel()
        if self._connecting is not None:
            self._connecting.cancel()
        if self._ready is not None and not self._ready.done():
            # A task that is cancelled before its first step tells nobody.
            self._ready.set_exception(PeerUnavailable(f"{self._where}: {reason}"))
            self._ready.exception()  # there may be nobody who waits
        for connection in (self._connection, self._old):
            if connection is not None:
                connection.close(reason)

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

    def _connect(self) -> asyncio.Future[PeerConnection]:
        """The connection that is being made. Raises PeerUnavailable."""
        if self._ready is not None:
            return self._ready
        if self._clock.monotonic_ms() < self._not_before_ms:
            raise PeerUnavailable(f"{self._where}: {self._failing}")
        if self._connection is not None:
            if self._old is not None:
                self._old.close("not used any more")
            self._connection.retire()
            self._old, self._connection = self._connection, None
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        self._connecting = loop.create_task(self._make(self._ready))
        return self._ready

    async def _make(self, ready: asyncio.Future[PeerConnection]) -> None:
        connection = PeerConnection(
            self._where,
            f"groupd-node-{self._config.node_id}",
            self._config.socket_request_max_bytes,
            self._clock,
            self._limits.timeout_ms,
        )
        task = asyncio.current_task()
        assert task is not None
        until_ms = self._clock.monotonic_ms() + CONNECT_MS
        timer = self._clock.call_at(until_ms, partial(_cancel, task))
        error: PeerUnavailable | None = None
        try:
            await self._open(connection)
        except asyncio.CancelledError:
            late = f"no connection in {CONNECT_MS} ms"
            error = PeerUnavailable(
                f"{self._where}: {self._closed or late}", FAILED if self._closed else TIMEOUT
            )
        except PeerUnavailable as failed:
            error = failed
        except LoginFailed as failed:
            error = PeerUnavailable(f"{self._where} {failed}")
        except OSError as failed:  # among them ssl.SSLError
            error = PeerUnavailable(f"{self._where}: {reason(failed)}")
        except Exception as failed:
            log.exception("no connection to another node", to=self._where)
            error = PeerUnavailable(f"{self._where}: {failed}")
        finally:
            timer.cancel()
            self._ready = self._connecting = None
        if error is None:
            self._connection, self._failing = connection, None
            if not ready.done():
                ready.set_result(connection)
            return
        connection.close(str(error))
        self._not_before_ms = self._clock.monotonic_ms() + RECONNECT_MS
        if self._failing is None:
            log.warning("no connection to another node", reason=str(error))
        self._failing = str(error)
        if not ready.done():  # `close` may have told already
            ready.set_exception(error)
            ready.exception()  # seen here, because every caller may have been cancelled

    async def _open(self, connection: PeerConnection) -> None:
        tls = self._security.tls
        host, port, _ = self.address
        await asyncio.get_running_loop().create_connection(
            lambda: connection,
            host,
            port,
            ssl=None if tls is None else tls(),
            server_hostname=None if tls is None else host,
        )
        known = await connection.ask(Ask(API_VERSIONS, lambda _: None, read_versions))
        if (api := missing(known, (ADD_PARTITIONS, WRITE_MARKERS))) is not None:
            raise PeerUnavailable(f"{self._where} does not offer {api.name} v{api.version}")
        if self._security.login is not None:
            lifetime_ms = await _log_in(connection, self._security.login())
            if lifetime_ms > 0:
                now_ms = self._clock.monotonic_ms()
                connection.expires_ms = now_ms + int(lifetime_ms * _LOGIN_SHARE)


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


async def _log_in(connection: PeerConnection, login: Login) -> int:
    """Returns for how many milliseconds the login counts. Raises LoginFailed, PeerUnavailable."""
    answer: Any = None
    while True:
        # In a thread: hashing a password takes milliseconds.
        step = await asyncio.to_thread(partial(_step, login, answer))
        if not isinstance(step, Ask):
            return step
        answer = await connection.ask(step)


def _step(login: Login, answer: Any) -> Ask | int:
    """The next call of a login, or its result."""
    try:
        return login.send(answer)
    except StopIteration as end:
        result: int = end.value
        return result
