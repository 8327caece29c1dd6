"""What accepts connections: errors of `accept`, and connections that end as they come. On both
event loops."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
import uvloop
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.server import acceptor
from groupd.coordinator.server.acceptor import CONNECTIONS_PER_TURN, QUIET_MS, RETRY_MS, Acceptor
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.slot import Requests
from groupd.protocol.wire.registry import Api
from tests.support.manual_clock import ManualClock
from tests.support.raw import api_versions, close_with_reset
from tests.unit.server.harness import own_resources, send_frame

MOST = 3


class Answered(Requests):
    """Gives every request an empty reply."""

    def submit(self, slot: Any, api: Api, request: Any) -> None:
        send_frame(slot, b"ok")

    def forget(self, slot: Any) -> None:
        raise AssertionError("every request is answered at once")


class Scripted(socket.socket):
    """A listening socket with errors. `errors`: what the next calls of `accept` raise."""

    errors: list[int]
    calls = 0

    def accept(self) -> Any:
        self.calls += 1
        if self.errors:
            number = self.errors.pop(0)
            raise OSError(number, os.strerror(number))
        return super().accept()


class Server:
    def __init__(
        self, connections: OpenConnections[Connection] | None = None, **limits: Any
    ) -> None:
        self.config = CoordinatorConfig(**{"max_connections": MOST} | limits)
        self.clock, self.stats = ManualClock(), ConnectionStats()
        if connections is None:
            connections = OpenConnections(self.config)
        self.connections = connections
        self.socket = Scripted()
        self.socket.errors = []
        self.socket.bind(("127.0.0.1", 0))
        self.wrap: Callable[[Connection], asyncio.Protocol] = lambda connection: connection
        self.acceptor = Acceptor(
            self.socket,
            "PLAINTEXT",
            self.clock,
            self.connections,
            self.stats,
            self.make,
            lambda connection: self.wrap(connection),
        )
        self.acceptor.start()
        self.clients: list[socket.socket] = []
        self.made_errors: list[Exception] = []

    def make(self) -> Connection:
        if self.made_errors:
            raise self.made_errors.pop()
        shared = own_resources(self.config, clock=self.clock)
        return Connection(self.config, self.clock, Answered(), self.stats, self.connections, shared)

    def called(self, times: int) -> bool:
        return self.socket.calls == times

    def refused(self, number: int) -> bool:
        return self.stats.refused == number

    def connect(self, source: str = "") -> socket.socket:
        """A client, from the address `source`. The kernel connects it, whether it is accepted or
        not."""
        client = socket.create_connection(
            self.acceptor.address, source_address=(source, 0) if source else None
        )
        client.setblocking(False)
        self.clients.append(client)
        return client

    async def close(self) -> None:
        self.acceptor.close()
        for client in self.clients:
            client.close()
        for connection in self.connections:
            connection.abort()
        await until(lambda: not len(self.connections))


def on_both_loops(**limits: int) -> Callable[..., Callable[..., None]]:
    """Runs the test on both event loops, with a server that ends with it."""

    def decorate(test: Callable[[Server], Awaitable[None]]) -> Callable[..., None]:
        async def whole() -> None:
            server = Server(None, **limits)
            try:
                await test(server)
            finally:
                await server.close()
            assert (server.stats.open, server.stats.blocked) == (0, 0)

        @pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
        def run(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
            with asyncio.Runner(loop_factory=new_loop) as runner:
                runner.run(whole())

        run.__doc__ = test.__doc__
        return run

    return decorate


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def served(client: socket.socket) -> bool:
    client.send(api_versions(1))
    async with asyncio.timeout(10):
        return bool(await asyncio.get_running_loop().sock_recv(client, 100))


@on_both_loops()
async def test_without_descriptors_it_rests_and_tells_it_once(server: Server) -> None:
    server.socket.errors = [errno.EMFILE] * 3
    with capture_logs() as logs:
        client = server.connect()
        for calls in (1, 2, 3):
            await until(partial(server.called, calls))
            assert server.stats.blocked == 1
            server.clock.advance(RETRY_MS - 1)
            for _ in range(20):
                await asyncio.sleep(0)
            assert server.socket.calls == calls, "no busy loop"
            server.clock.advance(1)
        assert await served(client)
    (line,) = logs
    assert line["reason"] == f"[Errno {errno.EMFILE}] {os.strerror(errno.EMFILE)}"
    assert server.stats.blocked == 0


@on_both_loops()
async def test_an_error_of_one_client_stops_nobody_else(server: Server) -> None:
    server.socket.errors = [errno.ECONNABORTED, errno.EPROTO]
    with capture_logs() as logs:
        assert await served(server.connect())
    assert logs == []


@on_both_loops()
async def test_a_connection_that_is_reset_before_it_is_accepted_leaves_no_place(
    server: Server,
) -> None:
    for _ in range(5 * MOST):
        client = socket.create_connection(server.acceptor.address)
        close_with_reset(client)
    await until(lambda: server.stats.accepted == 5 * MOST)
    await until(lambda: not len(server.connections))
    for _ in range(MOST):
        assert await served(server.connect())


@on_both_loops()
async def test_a_connection_that_cannot_be_made_leaves_no_place(server: Server) -> None:
    errors: list[Exception] = [OSError(errno.EINVAL, "no socket"), MemoryError()] * MOST
    wrap = server.wrap

    def fail(connection: Connection) -> asyncio.Protocol:
        if errors:
            raise errors.pop()
        return wrap(connection)

    server.wrap = fail
    server.made_errors = [MemoryError()] * MOST
    loop = asyncio.get_running_loop()
    for _ in range(3 * MOST):
        assert await loop.sock_recv(server.connect(), 1) == b""
    assert len(server.connections) == 0
    for _ in range(MOST):
        assert await served(server.connect())


@on_both_loops(max_connections_per_ip=1)
async def test_a_refused_connection_leaves_no_place(server: Server) -> None:
    assert await served(server.connect())
    for number in range(1, 3 * MOST):
        server.connect()
        await until(partial(server.refused, number))
    await until(lambda: len(server.connections) == 1)
    assert server.stats.blocked == 0


@on_both_loops()
async def test_a_burst_does_not_pass_the_limit(server: Server) -> None:
    with capture_logs() as logs:
        clients = [server.connect() for _ in range(4 * MOST)]
        await until(lambda: server.stats.blocked and server.stats.open == MOST)
        assert len(server.connections) == MOST
        for client in clients:
            assert await served(client)
            assert len(server.connections) <= MOST
            client.close()
        await until(lambda: not len(server.connections))
    (line,) = logs
    assert line["limit"] == "max.connections"
    assert server.stats.blocked == 0


@on_both_loops()
async def test_the_limit_is_told_again_after_nobody_has_waited_for_a_while(server: Server) -> None:
    with capture_logs() as logs:
        for quiet_ms, lines in ((0, 1), (QUIET_MS - 1, 1), (QUIET_MS, 2)):
            server.clock.advance(quiet_ms)
            clients = [server.connect() for _ in range(MOST + 1)]
            await until(lambda: server.stats.blocked)
            assert [line["limit"] for line in logs] == ["max.connections"] * lines
            server.clock.advance(10 * QUIET_MS)
            for client in clients:
                client.close()
            await until(lambda: not (server.stats.blocked or len(server.connections)))


@on_both_loops()
async def test_who_is_closed_while_it_waits_lets_the_others_go_on(first: Server) -> None:
    """A place that is offered to a listener which closes is not lost."""
    second = Server(first.connections)
    clients = [first.connect() for _ in range(MOST)]
    for client in clients:
        assert await served(client)
    first.connect()
    await until(lambda: first.stats.blocked)
    late = second.connect()
    await until(lambda: second.stats.blocked)
    first.acceptor.close()
    clients[0].close()
    assert await served(late)
    assert (first.stats.blocked, second.stats.blocked) == (0, 0)
    await second.close()


@on_both_loops(max_connections=1000)
async def test_other_work_has_its_turn_in_a_storm(server: Server) -> None:
    for _ in range(4 * CONNECTIONS_PER_TURN):
        server.connect()
    most_accepted = most_opened = 0
    while server.stats.accepted < 4 * CONNECTIONS_PER_TURN:
        accepted, opened = len(server.connections), server.stats.accepted
        with patch.object(acceptor, "SOCKETS_PER_TURN", 2 * CONNECTIONS_PER_TURN):
            await asyncio.sleep(0)
        most_accepted = max(most_accepted, len(server.connections) - accepted)
        most_opened = max(most_opened, server.stats.accepted - opened)
    assert most_accepted == 2 * CONNECTIONS_PER_TURN
    assert most_opened == CONNECTIONS_PER_TURN


@on_both_loops(max_connections=1000)
async def test_a_client_from_elsewhere_does_not_wait_for_a_storm(server: Server) -> None:
    order: list[Connection] = []
    wrap = server.wrap

    def note(connection: Connection) -> asyncio.Protocol:
        order.append(connection)
        return wrap(connection)

    server.wrap = note
    for number in range(4 * CONNECTIONS_PER_TURN):
        server.connect("127.0.0.2" if number == 2 * CONNECTIONS_PER_TURN else "")
    await until(lambda: server.stats.accepted == 4 * CONNECTIONS_PER_TURN)
    hosts = [connection.host for connection in order]
    assert hosts.index("/127.0.0.2") <= 1


@on_both_loops(max_connections=1000)
async def test_who_stands_in_line_is_dropped_when_it_closes(server: Server) -> None:
    clients = [server.connect() for _ in range(4 * CONNECTIONS_PER_TURN)]
    await until(lambda: len(server.connections) == len(clients))
    in_line = len(clients) - server.stats.accepted
    server.acceptor.close()
    await until(lambda: len(server.connections) == server.stats.accepted)
    ended = 0
    for client in clients:
        with suppress(BlockingIOError):
            ended += client.recv(1) == b""
    assert 0 < ended <= in_line
