"""Where a recorded or replayed broker lives. Inputs come in one by one, each with its time, and
each is worked on until nothing more happens.

An input is anything that can change what a broker does: a frame of a client, a timer, the end of a
store operation, an intervention. The time stands still between two inputs. Identifiers are made
from the recording's seed and the number of the input, so a build that makes one more of them gets
different identifiers for that input only.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from groupd.coordinator.core.types import Instant
from groupd.coordinator.recording.turn_loop import TurnLoop
from groupd.coordinator.runtime.clock import Clock, TimerHandle
from groupd.protocol.messages import TopicId


def one_slice() -> int:
    """A clock that stands still: long work runs to its end inside the input that has begun it, so
    that a replay does the same in the same order."""
    return 0


class World(ABC):
    """`number`, `instant`, `real_ms`: those of the input that is being worked on, or of the last
    one."""

    def __init__(self, seed: str) -> None:
        self.loop = TurnLoop(self)  # type: ignore[abstract]  # the other methods are never called
        self.inside = False
        self.number = 0
        self.instant = Instant(0, 0)
        self.real_ms = 0
        self._seed = seed
        self._made = 0

    def run(self, number: int, instant: Instant, real_ms: int, act: Callable[[], None]) -> None:
        """Work on one input by calling `act`. An error of `act` is raised."""
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
        """A new topic id. Its text form never begins with "-", as in Kafka."""
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
        """Set a timer, see `TimerSource`. `kind`: "clock" for the coordinator's time, "loop" for
        real time."""

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


class Elapsed:
    """The clock that long polls use: inside an input, the input's real time."""

    def __init__(self, world: World, outside: Callable[[], Instant]) -> None:
        self._world = world
        self._outside = outside

    def __call__(self) -> Instant:
        if not self._world.inside:
            return self._outside()
        return Instant(self._world.real_ms, self._world.instant.wall_ms)


def clock_of(world: World, clock: Clock) -> WorldClock:
    return WorldClock(world, clock.now)
