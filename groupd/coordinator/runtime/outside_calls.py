"""Calls of machines: how a shard asks another coordinator or the topics, and how it gets the
answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any

import structlog

from groupd.coordinator.core.types import NO_TOKEN, OutsideCall
from groupd.protocol.errors import ApiError, ErrorCode

log = structlog.get_logger("groupd.calls")

Callee = Callable[[OutsideCall], Awaitable[Any]]
"""Answers a call, or raises an exception: ApiError for a case that is expected. A callee must end
in time by itself."""


def refuse_askers(calls: Iterable[OutsideCall], code: ErrorCode) -> None:
    """Fail the requests that wait for the answers to these calls."""
    for call in calls:
        if call.token is not NO_TOKEN:
            call.token.fail(code)


class OutsideCalls:
    """The callees that the machines of a broker may ask, by name."""

    def __init__(self) -> None:
        self._callees: dict[str, Callee] = {}
        self._tasks: dict[asyncio.Task[Any], object] = {}
        self._closed = False

    def add(self, whom: str, callee: Callee) -> None:
        """Let `callee` answer calls with this `whom` from now on."""
        self._callees[whom] = callee

    def ask(self, call: OutsideCall, answered: Callable[[Any], None], asker: object = None) -> None:
        """Ask the callee. `answered` gets its answer, or the Exception that came instead, in a
        later turn of the loop. It is not called any more after `close`. An Exception other than
        ApiError is logged. `asker`: who may give the call up."""
        if self._closed:
            return
        task = asyncio.get_running_loop().create_task(self.answer(call))
        self._tasks[task] = asker
        task.add_done_callback(partial(self._ended, call, answered))

    def give_up(self, asker: object) -> None:
        """Cancel the calls of `asker`: a callee must not try them again any more."""
        for task, its in self._tasks.items():
            if its is asker:
                task.cancel()

    async def answer(self, call: OutsideCall) -> Any:
        """Returns the answer, or the Exception that came instead."""
        callee = self._callees.get(call.whom)
        if callee is None:
            return LookupError(f"nobody answers calls to {call.whom}")
        try:
            return await callee(call)
        except Exception as error:  # noqa: BLE001 - who has asked decides what it means
            return error

    def _ended(
        self, call: OutsideCall, answered: Callable[[Any], None], task: asyncio.Task[Any]
    ) -> None:
        del self._tasks[task]
        if not task.cancelled():
            answer = task.result()
        elif self._closed:
            return
        else:
            # It was given up, or another task cancelled what the callee waited for.
            answer = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{call.whom} was interrupted")
        if isinstance(answer, Exception) and not isinstance(answer, ApiError):
            log.warning(
                "a call failed", whom=call.whom, group=call.group_id, error=answer, exc_info=answer
            )
        answered(answer)

    def close(self) -> None:
        """Cancel all calls. No answer comes any more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
