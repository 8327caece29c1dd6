"""Calls of machines: what a shard asks of somebody outside of it, and how the answer comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from groupd.coordinator.core.types import OutsideCall

Callee = Callable[[OutsideCall], Awaitable[Any]]
"""Answers a call, or raises."""


class OutsideCalls:
    """Whom the machines of a broker may ask, by name."""

    def __init__(self) -> None:
        self._callees: dict[str, Callee] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def add(self, whom: str, callee: Callee) -> None:
        """From now on calls with this `whom` are answered by `callee`."""
        self._callees[whom] = callee

    def ask(self, call: OutsideCall, answered: Callable[[Any], None]) -> None:
        """`answered` gets the answer, or the Exception that came instead, in a later turn of the
        loop; nothing once `close` was called."""
        if self._closed:
            return
        task = asyncio.get_running_loop().create_task(self._ask(call, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, call: OutsideCall, answered: Callable[[Any], None]) -> None:
        callee = self._callees.get(call.whom)
        answer: Any
        if callee is None:
            answer = LookupError(f"nobody answers calls to {call.whom}")
        else:
            try:
                answer = await callee(call)
            except Exception as error:  # noqa: BLE001 - the machine decides what it means
                answer = error
        answered(answer)

    def close(self) -> None:
        """Nobody is asked, and no answer comes any more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
