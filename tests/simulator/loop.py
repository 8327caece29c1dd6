"""An event loop on virtual time, one for each life of the simulated process.

It offers just what the runtime uses. Killing it is killing the process: nothing that was waiting
on it ever runs again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from groupd.coordinator.runtime.pause_aware_clock import COUNTED_NS
from tests.simulator.world import Timer, World

COUNTED_MS = COUNTED_NS // 1_000_000


class VirtualLoop(asyncio.AbstractEventLoop):
    """While it is frozen (a long pause of the machine) what comes in waits, in order; timers wait
    until it has been read. `lost_ms`: what the process's clock does not count (ADR 34)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._ready: deque[asyncio.Handle] = deque()
        self.alive = True
        self.lost_ms = 0
        self.frozen_until_ms = -1
        self._frozen = False
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        self.failures: list[str] = []
        """What the loop's exception handler was told."""

    # The simulator's side

    def enter(self, run: Callable[..., None], *arguments: Any) -> None:
        """Runs something inside the process, and then all that it makes ready."""
        if not self.alive:
            return
        if self._frozen:
            self._held.append((run, arguments))
            return
        asyncio._set_running_loop(self)
        try:
            run(*arguments)
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            asyncio._set_running_loop(None)

    def freeze(self, for_ms: int) -> None:
        if not self._frozen:
            self._frozen = True
            self.frozen_until_ms = self._world.now_ms + for_ms
            self._world.after(for_ms, self._thaw, for_ms)

    def _thaw(self, after_ms: int) -> None:
        self._frozen = False
        self.lost_ms += max(0, after_ms - COUNTED_MS)
        held, self._held = self._held, []
        for run, arguments in held:
            self.enter(run, *arguments)

    def kill(self) -> None:
        self.alive = False
        self._ready.clear()

    # asyncio's side

    def time(self) -> float:
        return self._world.now_ms / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.alive

    def is_closed(self) -> bool:
        return not self.alive

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if self.alive:
            self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._world.at(round(when * 1000), self.enter, self._fire, handle)
        return handle

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        if not handle.cancelled():
            handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Does nothing: cancelled handles are skipped when their time comes."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Tasks of a dead process are simply gone; anything else is a defect."""
        if self.alive:
            self.failures.append(f"{context.get('message')}: {context.get('exception')!r}")


class VirtualTimer:
    """A timer of the process at `at_ms`, a time of the world without what the process has lost."""

    __slots__ = ("_at_ms", "_callback", "_loop", "_timer", "_world")

    def __init__(
        self, world: World, loop: VirtualLoop, at_ms: int, run: Callable[[], None]
    ) -> None:
        self._world = world
        self._loop = loop
        self._at_ms = at_ms
        self._callback: Callable[[], None] | None = run
        self._set()

    def cancel(self) -> None:
        self._callback = None
        self._timer.cancel()

    def _set(self) -> None:
        at_ms = self._at_ms + self._loop.lost_ms
        self._timer: Timer = self._world.at(at_ms, self._due)

    def _due(self) -> None:
        """Fires the timer. While the process is frozen it waits for the end of that, which moves
        its time."""
        if self._loop.frozen_until_ms > self._world.now_ms:
            self._timer = self._world.at(self._loop.frozen_until_ms, self._due)
        elif self._at_ms + self._loop.lost_ms > self._world.now_ms:
            self._set()
        else:
            self._loop.enter(self._fire)

    def _fire(self) -> None:
        if self._callback is not None:
            self._callback()
