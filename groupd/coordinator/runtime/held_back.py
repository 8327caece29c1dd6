"""Requests that come while this node may not answer: they wait for its lease, at most as long as
one lease lasts."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import structlog

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.ownership import Ownership

log = structlog.get_logger("groupd.cluster")

_HeldRequest = tuple[int, RequestContext, Any]
"""(since when it waits, in monotonic ms; context; request)."""


class HeldBack:
    """One queue for the requests of all clients. They start in the order in which they came. As
    long as `queue` has requests every new one must wait behind them: otherwise the batches of a
    producer would reach their partition out of order. `start(context, request)` starts one."""

    def __init__(
        self,
        ownership: Ownership,
        clock: Clock,
        work: LongWork,
        start: Callable[[RequestContext, Any], None],
    ) -> None:
        self.queue: deque[_HeldRequest] = deque()
        self._ownership = ownership
        self._clock = clock
        self._work = work
        self._start = start
        self._task: asyncio.Task[None] | None = None

    def add(self, context: RequestContext, request: Any) -> None:
        self.queue.append((self._clock.monotonic_ms(), context, request))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="held-back")

    def close(self) -> None:
        """Start none of the waiting requests any more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            await self._all()
        finally:
            self._task = None

    async def _all(self) -> None:
        pace = self._work.pace()
        while self.queue:
            since_ms, context, request = self.queue[0]
            may_answer = await self._ownership.answering(since_ms)
            # Only now, because requests that came meanwhile had to wait behind this one.
            self.queue.popleft()
            try:
                self._next(may_answer, context, request)
            except Exception:
                # The error must not stop the requests behind this one.
                log.exception("a request that had to wait cannot be started")
                context.token.on_no_reply()
            if pace.due():
                await pace.turn()

    def _next(self, may_answer: bool, context: RequestContext, request: Any) -> None:
        if may_answer:
            self._start(context, request)
        else:
            # Few replies can tell the client to ask another node. A closed connection always does.
            context.token.end_without_reply()
