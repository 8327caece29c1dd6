"""The world in which a recorded or replayed broker runs. Inputs come in one by one, each with its
time. The event loop runs everything that one input has started, and then stands still.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context
from typing import Any, TypeVarTuple

import structlog

from groupd.coordinator.core.types import Instant
from groupd.coordinator.host import Host
from groupd.coordinator.runtime.clock import TimerHandle
from groupd.protocol.messages import TopicId

# The broker's coroutines run on this loop, while the sockets are on a real event loop. Nothing here
# depends on when something happens in reality: callbacks run in the order in which they were set,
# timers fire when they are told to, and the time is that of the input. So the same inputs lead to
# the same steps.

InputArgs = TypeVarTuple("InputArgs")

log = structlog.get_logger("groupd.recording")


class TurnLoop(asyncio.AbstractEventLoop):
    """The parts of an event loop that tasks, futures, locks and timeouts need."""

    def __init__(self, world: World) -> None:
        self._world = world
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
        self,
        callback: Callable[[*InputArgs], object],
        *args: *InputArgs,
        context: Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*InputArgs], object],
        *args: *InputArgs,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*InputArgs], object],
        *args: *InputArgs,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)

        def fire() -> None:
            del self._cancels[handle]
            self._ready.append(handle)

        self._cancels[handle] = self._world.set_timer("loop", -int(-when * 1000 // 1), fire)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        cancel = self._cancels.pop(handle, None)
        if cancel is not None:
            cancel()

    def time(self) -> float:
        """The real time of the input in seconds."""
        return self._world.real_ms / 1000

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=name, context=context)

    def run_in_executor(
        self, executor: object, func: Callable[[*InputArgs], Any], *args: *InputArgs
    ) -> asyncio.Future[Any]:
        """Run `func` at once in this thread, because the end of another thread would not be an
        input."""
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


# The world ----------------------------------------------------------------------------------

# An input is anything that can change what a broker does: a frame of a client, a timer, the end of
# a store operation, an intervention. The time stands still between two inputs. Identifiers are made
# from the recording's seed and the number of the input, so a build that needs one more of them gets
# different identifiers only for that input.


def one_slice() -> int:
    """A clock that stands still. Long work runs to its end inside the input that has begun it, so a
    replay does the same in the same order."""
    return 0


class World(ABC):
    """A recorded or replayed world. `number`, `instant`, `real_ms`: of the input that is being
    worked on, or of the last one."""

    def __init__(self, seed: str) -> None:
        self.loop = TurnLoop(self)  # type: ignore[abstract]  # the other methods are never called
        self.inside = False
        self.number = 0
        self.instant = Instant(0, 0)
        self.real_ms = 0
        self._seed = seed
        self._made = 0

    def run(self, number: int, instant: Instant, real_ms: int, act: Callable[[], None]) -> None:
        """Work on one input by calling `act`. Raises what `act` raises."""
        self.number, self.instant, self.real_ms = number, instant, real_ms
        self._made = 0
        with _running(self.loop):
            self.inside = True
            try:
                try:
                    act()
                finally:
                    self.loop.drain()
            finally:
                self.inside = False

    def new_id(self) -> str:
        return str(self._uuid())

    def new_topic_id(self) -> TopicId:
        """A new topic id. As in Kafka its text form never begins with "-"."""
        while True:
            raw = self._uuid().bytes
            if raw[0] >> 2 != 62:
                return raw

    def _uuid(self) -> uuid.UUID:
        self._made += 1
        text = f"{self._seed}/{self.number}/{self._made}"
        return uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4)

    @abstractmethod
    def set_timer(self, kind: str, due_ms: int, fire: Callable[[], None]) -> Callable[[], None]:
        """Call `fire` as an input of its own at `due_ms`. Returns a function that cancels the
        timer. `kind`: "clock" for the coordinator's time, "loop" for real time."""

    def real_loop(self, loop: asyncio.AbstractEventLoop) -> AbstractContextManager[None]:
        """A context in which code runs outside the world, on the real loop."""
        return _running(loop)


@contextmanager
def _running(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Make `loop` the running loop. The running task is set aside, because from Python 3.14 on a
    thread has one running task, not one for each loop."""
    outer = asyncio._get_running_loop()
    task = None if outer is None else asyncio.current_task(outer)
    if outer is not None and task is not None:
        asyncio.tasks._leave_task(outer, task)
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(outer)
        if outer is not None and task is not None:
            asyncio.tasks._enter_task(outer, task)


class WorldTimer:
    """A `TimerHandle`."""

    __slots__ = ("cancel",)

    def __init__(self, cancel: Callable[[], None]) -> None:
        self.cancel = cancel


class WorldClock:
    """The coordinator's clock. Inside an input it shows the input's time, outside the time of
    `outside`."""

    def __init__(self, world: World, outside: Callable[[], Instant]) -> None:
        self._world = world
        self._outside = outside

    def now(self) -> Instant:
        return self._world.instant if self._world.inside else self._outside()

    def monotonic_ms(self) -> int:
        return self.now().monotonic_ms

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return WorldTimer(self._world.set_timer("clock", monotonic_ms, callback))


class WorldHost(Host):
    """A host whose identifiers come from the world, and its time while an input is worked on."""

    def __init__(self, world: World) -> None:
        self._world = world

    slices = staticmethod(one_slice)

    def elapsed(self) -> Callable[[], Instant]:
        world, outside = self._world, super().elapsed()
        return lambda: Instant(world.real_ms, world.instant.wall_ms) if world.inside else outside()

    def new_id(self) -> str:
        return self._world.new_id()

    def new_topic_id(self) -> TopicId:
        return self._world.new_topic_id()
