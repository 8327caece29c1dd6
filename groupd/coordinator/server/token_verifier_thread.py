"""Verifies the signatures of tokens in a thread, because that takes too long for the event loop.

The thread works on one token at a time, and the other tokens wait. Networks take turns, and within
a network the newest client comes first. A token is dropped when its connection ends. When more than
`WAITING_BYTES_MAX` wait, a client of the network with most bytes is turned away: the one that has
waited longest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from groupd.coordinator.security.sasl.mechanisms import Rejected, SaslStep
from groupd.coordinator.server.by_network import ByNetwork

WAITING_BYTES_MAX = 16 * 1024 * 1024
"""The most bytes of all messages that wait. A token has one or two thousand."""

MESSAGE_BYTES = 1024
"""How many bytes a waiting message counts for besides its own."""


class _Work(Struct, frozen=True):
    do: Callable[[], SaslStep]
    done: Callable[[SaslStep | None], None]


class TokenVerifierThread:
    def __init__(self, most: int = WAITING_BYTES_MAX) -> None:
        self._most = most
        self._thread: ThreadPoolExecutor | None = None
        self._busy = False
        self._closed = False
        self._line: ByNetwork[Hashable] = ByNetwork()
        self._work: dict[Hashable, _Work] = {}
        """The work of each client in the line."""

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return len(self._line)

    def run(
        self,
        client: Hashable,
        network: str,
        size: int,
        do: Callable[[], SaslStep],
        done: Callable[[SaslStep | None], None],
    ) -> None:
        """Calls `do` in the thread, and `done` in a later turn of the running loop: with the
        result, or with None if the client is turned away. `size`: the bytes that the work holds. A
        client has one piece of work at a time."""
        self._work[client] = _Work(do, done)
        self._line.add(client, network, size + MESSAGE_BYTES)
        while self._line.weight > self._most:
            oldest = self._line.oldest(self._line.heaviest())
            self._line.discard(oldest)
            turned_away = self._work.pop(oldest)
            asyncio.get_running_loop().call_soon(turned_away.done, None)
        self._next()

    def leave(self, client: Hashable) -> None:
        """Drops the work of a client that is gone, unless it has begun."""
        self._line.discard(client)
        self._work.pop(client, None)

    def close(self) -> None:
        self._closed = True
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> None:
        if self._busy or self._closed or not self._line:
            return
        self._busy = True
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "sasl")
        work = self._work.pop(self._line.take())
        future = asyncio.get_running_loop().run_in_executor(self._thread, work.do)

        def ended(future: asyncio.Future[SaslStep]) -> None:
            if future.cancelled():
                return
            self._busy = False
            self._next()
            error = future.exception()
            if error is None:
                work.done(future.result())
            else:
                # This is a bug of ours. The text of the error may hold a part of the token.
                what = f"cannot be judged: {type(error).__name__}"
                work.done(Rejected("Authentication failed", what))

        future.add_done_callback(ended)
