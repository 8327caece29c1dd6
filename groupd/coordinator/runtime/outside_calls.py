"""Calls of machines: what a shard asks of somebody outside of it, and how the answer comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog

from groupd.coordinator.core.types import NO_TOKEN, OutsideCall
from groupd.protocol.errors import ApiError, ErrorCode

log = structlog.get_logger("groupd.calls")

Callee = Callable[[OutsideCall], Awaitable[Any]]
"""Answers a call, or raises: ApiError if that is nothing unusual. It sees to it itself that it ends
in time."""


def refuse_askers(calls: Iterable[OutsideCall], code: ErrorCode) -> None:
    """The requests that wait for answers to these calls get none."""
    for call in calls:
        if call.token is not NO_TOKEN:
            call.token.fail(code)


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
        loop; nothing once `close` was called. An Exception other than ApiError is logged."""
        if self._closed:
            return
        task = asyncio.get_running_loop().create_task(self._ask(call, answered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def answer(self, call: OutsideCall) -> Any:
        """The answer, or the Exception that came instead."""
        callee = self._callees.get(call.whom)
        if callee is None:
            return LookupError(f"nobody answers calls to {call.whom}")
        try:
            return await callee(call)
        except Exception as error:  # noqa: BLE001 - who has asked decides what it means
            return error

    async def _ask(self, call: OutsideCall, answered: Callable[[Any], None]) -> None:
        try:
            answer = await self.answer(call)
        except asyncio.CancelledError:
            if self._closed:
                raise
            # The callee waited for something that somebody else has cancelled.
            answer = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{call.whom} was interrupted")
        if isinstance(answer, Exception) and not isinstance(answer, ApiError):
            log.warning(
                "a call failed", whom=call.whom, group=call.group_id, error=answer, exc_info=answer
            )
        answered(answer)

    def close(self) -> None:
        """Nobody is asked, and no answer comes any more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
