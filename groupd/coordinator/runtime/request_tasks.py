"""Requests that a task answers: all that are not about groups, and those that must wait before a
shard can be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.data_routes import DataRoute
from groupd.coordinator.runtime.held_back import HeldBack
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.ownership import Ownership
from groupd.coordinator.runtime.waiting import Waiter
from groupd.protocol.errors import ErrorCode

CLOSE_TIMEOUT_S = 1.0


class RequestTasks:
    """One task for each request. `routes`: what answers the requests that are not about groups, by
    their types. They wait while this node may not answer."""

    def __init__(self, ownership: Ownership, clock: Clock, work: LongWork) -> None:
        self.routes: dict[type, DataRoute] = {}
        self._ownership = ownership
        self._tasks: set[asyncio.Task[None]] = set()
        self._reads: dict[Waiter, asyncio.Task[None]] = {}
        """Requests that only read from now on, so their tasks are cancelled when their client is
        gone."""
        self._held_back = HeldBack(ownership, clock, work, self._start)

    @property
    def busy(self) -> bool:
        """Whether a task does more than read."""
        return len(self._tasks) > len(self._reads)

    def submit(self, context: RequestContext, request: Any) -> None:
        """Start the route of a request, or let it wait."""
        waiter: Waiter = context.token
        route = self.routes.get(type(request))
        if route is None:
            waiter.fail(ErrorCode.UNSUPPORTED_VERSION)
            return
        if route.is_long is not None and route.is_long(request):
            waiter.block_connection()
        if self._held_back.queue or not self._ownership.may_answer():
            self._held_back.add(context, request)
        else:
            self._start(context, request)

    def run(self, waiter: Waiter, work: Coroutine[Any, Any, None]) -> None:
        """Run `work`, which answers `waiter`. If `work` fails the request fails."""
        task = asyncio.get_running_loop().create_task(self._run(waiter, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, waiter: Waiter) -> None:
        """The client is gone: cancel a request that only reads."""
        if (task := self._reads.get(waiter)) is not None:
            task.cancel()

    def close(self) -> None:
        """Start none of the waiting requests any more."""
        self._held_back.close()

    async def ended(self) -> None:
        """Wait after `close` until no task runs. After `CLOSE_TIMEOUT_S` the rest is cancelled."""
        if self._tasks:
            for task in (await asyncio.wait(self._tasks, timeout=CLOSE_TIMEOUT_S))[1]:
                task.cancel()

    def _start(self, context: RequestContext, request: Any) -> None:
        route = self.routes[type(request)]
        self.run(context.token, self._answer(route, context, request))

    async def _answer(self, route: DataRoute, context: RequestContext, request: Any) -> None:
        waiter: Waiter = context.token
        reply = await route.handle(context, request)
        if route.read is not None:
            if waiter not in waiter.waiting:
                return  # the client is gone
            task = asyncio.current_task()
            assert task is not None
            self._reads[waiter] = task
            try:
                reply = await route.read(context, request, reply)
            finally:
                del self._reads[waiter]
        waiter.answer(reply)

    async def _run(self, waiter: Waiter, work: Coroutine[Any, Any, None]) -> None:
        try:
            await (work if waiter.meter is None else waiter.meter.timed(work))
        except Exception as error:  # noqa: BLE001 - answered there
            waiter.fail_with(error)
