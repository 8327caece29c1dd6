"""A connection for commands: its calls block the thread until the reply is there."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from threading import Thread
from typing import Any, TypeVar

from groupd.client.connection import ClientSecurity, KafkaConnection
from groupd.client.errors import CallFailed
from groupd.coordinator.runtime.clock import SystemClock
from groupd.protocol.errors import ErrorCode

CLIENT_ID = "groupd-cli"

T = TypeVar("T")


class KafkaError(Exception):
    """The broker did not answer, or it refused. `str()` is one line."""


class ClientLoop:
    """An event loop on a thread of its own, so that a command can wait even inside `asyncio.run`.
    `close` also closes the connections that it has opened."""

    def __init__(self, security: ClientSecurity) -> None:
        self._security = security
        self._connections: list[KafkaConnection] = []
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="kafka-client", daemon=True)
        self._thread.start()

    def open(self, host: str, port: int) -> BlockingConnection:
        """Opens a connection. Raises KafkaError."""
        connection = KafkaConnection(f"{host}:{port}", CLIENT_ID, SystemClock(), self._security)
        self.wait(connection.open(host, port))
        self._connections.append(connection)
        return BlockingConnection(connection, self)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Returns the result of `work`. Raises KafkaError."""
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result()
        except CallFailed as error:
            # Brokers do not say why they close a connection, so the message gives a hint.
            closed = isinstance(error.__cause__, ConnectionError) and self._security.login is None
            hint = "; does the broker want TLS or a login (--command-config)?" if closed else ""
            raise KafkaError(f"{error}{hint}") from None

    def close(self) -> None:
        self.wait(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        for connection in self._connections:
            connection.close("not used any more")
        await asyncio.sleep(0)  # sockets are closed in the loop's next iteration


class BlockingConnection:
    """An open connection. `where`: HOST:PORT."""

    def __init__(self, connection: KafkaConnection, loop: ClientLoop) -> None:
        self.where = connection.where
        self._connection = connection
        self._loop = loop

    def call(self, request: Any, version: int | None = None) -> Any:
        """As `KafkaConnection.call`. Raises KafkaError."""
        return self._loop.wait(self._connection.call(request, version))

    def check(self, error: ErrorCode, message: str | None) -> None:
        """Raises KafkaError unless `error`, from a reply of this broker, is NONE."""
        if error:
            text = f"{error.name}: {message}" if message else error.name
            raise KafkaError(f"{self.where} refused: {text}")
