"""An event loop that runs everything that one input has started, and then stands still.

The broker's coroutines live on it, while the sockets live on a real event loop. Nothing here
depends on when something happens: callbacks run in the order in which they were set, timers fire
when they are told to, and the time is that of the input. So the same inputs lead to the same steps.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Protocol, TypeVarTuple

import structlog

Args = TypeVarTuple("Args")

log = structlog.get_logger("groupd.recording")


class TimerSource(Protocol):
    """Sets the loop's timers. `real_ms` is the time of the input that is being worked on."""

    @property
    def real_ms(self) -> int: ...

    def set_timer(self, kind: str, due_ms: int, fire: Callable[[], None]) -> Callable[[], None]:
        """Call `fire` as an input of its own at `due_ms`. Returns a function that cancels the
        timer."""
        ...


class TurnLoop(asyncio.AbstractEventLoop):
    """The parts of an event loop that tasks, futures, locks and timeouts need."""

    def __init__(self, timers: TimerSource) -> None:
        self._timers = timers
        self._ready: deque[asyncio.Handle] = deque()
        self._cancels: dict[asyncio.TimerHandle, Callable[[], None]] = {}

    def drain(self) -> None:
        """Run the callbacks that are ready, and those that they make ready, until none is left."""
        ready = self._ready
        while ready:
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def call_soon(
        self, callback: Callable[[*Args], object], *args: *Args, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Args], object],
        *args: *Args,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def fire() -> None:
            del self._cancels[handle]
            self._ready.append(handle)

        self._cancels[handle] = self._timers.set_timer("loop", -int(-when * 1000 // 1), fire)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        cancel = self._cancels.pop(handle, None)
        if cancel is not None:
            cancel()

    def time(self) -> float:
        """The real time of the input, in seconds."""
        return self._timers.real_ms / 1000

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(
        self, executor: object, func: Callable[[*Args], Any], *args: *Args
    ) -> asyncio.Future[Any]:
        """Run `func` at once in this thread: when another thread would end is not an input."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is raised where the future is awaited
            future.set_exception(error)
        return future

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        log.error("callback failed", what=context.get("message"), exc_info=context.get("exception"))
