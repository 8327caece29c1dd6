"""A connection to SQLite in a thread of its own.

SQLite blocks its caller, so an event loop must not call it. A transaction goes to the thread as a
whole and its result comes back: one trip there and one back, however many statements it has. On a
busy event loop every trip costs, because the thread waits for the interpreter's lock and the result
for the loop's next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine

T = TypeVar("T")


class SqliteConnection:
    """See `storage.transactions.OpenConnection`. `thread_name`: for debuggers and for tests."""

    def __init__(self, engine: Engine, thread_name: str) -> None:
        self._engine = engine
        self._connection: Connection | None = None
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A daemon that ends without `close` must not wait for this thread for ever.
        self._thread = Thread(target=self._serve, name=thread_name, daemon=True)

    async def open(self) -> None:
        """Starts the thread and connects. Raises what the engine raises."""
        self._thread.start()
        try:
            await self._in_thread(self._connect)
        except BaseException:
            self._end_thread()
            raise

    def _connect(self) -> None:
        """In the thread."""
        self._connection = self._engine.connect()

    @property
    def invalidated(self) -> bool:
        return self._connection is None or self._connection.invalidated

    async def run_sync(self, work: Callable[[Connection], T], /) -> T:
        connection = self._connection
        assert connection is not None, "not open"
        return await self._in_thread(lambda: work(connection))

    async def invalidate(self) -> None:
        if self._connection is not None:
            await self._in_thread(self._connection.invalidate)

    async def close(self) -> None:
        await self._in_thread(self._disconnect)
        self._end_thread()

    def _disconnect(self) -> None:
        """In the thread."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _end_thread(self) -> None:
        self._calls.put(None)
        # It has answered its last call, so this takes microseconds.
        self._thread.join()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """What `work()` returns or raises, in the order of the calls."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def call() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - whoever waits gets it
                _answer(answer, answer.set_exception, error)
            else:
                _answer(answer, answer.set_result, result)

        self._calls.put(call)
        return await answer

    def _serve(self) -> None:
        """The thread."""
        while (call := self._calls.get()) is not None:
            call()
        self._disconnect()  # if the caller of `open` did not wait for it


def _answer(answer: asyncio.Future[Any], give: Callable[[Any], None], outcome: object) -> None:
    """From the thread into the loop that waits."""

    def in_loop() -> None:
        if not answer.done():
            give(outcome)

    with suppress(RuntimeError):  # the loop has ended
        answer.get_loop().call_soon_threadsafe(in_loop)
