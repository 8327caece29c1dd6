"""Requests that come while this node may not answer: they wait for the lease, one lease at most."""

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
"""(since when, in monotonic ms; context; request)."""


class HeldBack:
    """One queue for all clients. Requests start in the order in which they came, and as long as
    there are some in `queue` every new one must wait behind them: the batches of a producer would
    otherwise reach their partition out of order. `start(context, request)` begins one."""

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
        """Start nothing more of it."""
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
            # Not before: whatever has come meanwhile had to wait behind it.
            self.queue.popleft()
            try:
                self._next(may_answer, context, request)
            except Exception:
                # All others wait behind it.
                log.exception("a request that had to wait cannot be started")
                context.token.lose()
            if pace.due():
                await pace.turn()

    def _next(self, may_answer: bool, context: RequestContext, request: Any) -> None:
        if may_answer:
            self._start(context, request)
        else:
            # Few of these replies can say: ask another node. A closed connection always does.
            context.token.end_without_reply()
