"""Requests take their turn per partition in the order in which they arrived.

A producer sends several requests before the first is answered. Where a partition must be opened
first, later requests for it must not overtake. A request takes its place in all its queues at
once, without awaiting, so two requests can never wait for each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable


class Turn:
    """A place in the queues of some keys: `await wait()`, do the work, `leave()` in any case."""

    __slots__ = ("_before", "_keys", "_last", "_left")

    def __init__(self, last: dict[str, asyncio.Future[None]], keys: Iterable[str]) -> None:
        self._keys = tuple(keys)
        self._last = last
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._before = {last[key] for key in self._keys if key in last}
        for key in self._keys:
            last[key] = self._left

    async def wait(self) -> None:
        for before in self._before:
            await asyncio.shield(before)

    def leave(self) -> None:
        pending = [before for before in self._before if not before.done()]
        if pending:
            # Cancelled while waiting: those behind must still wait for those before.
            asyncio.gather(*pending).add_done_callback(lambda _: self._finish())
        else:
            self._finish()

    def _finish(self) -> None:
        self._left.set_result(None)
        for key in self._keys:
            if self._last.get(key) is self._left:
                del self._last[key]


class ArrivalOrder:
    """Queues by key; a key without queue costs nothing."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Future[None]] = {}

    def busy(self, keys: Iterable[str]) -> bool:
        """Does anyone stand before a newcomer?"""
        return any(key in self._last for key in keys)

    def enter(self, keys: Iterable[str]) -> Turn:
        return Turn(self._last, keys)
