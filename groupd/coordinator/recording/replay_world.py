"""The world of a replay: timers fire and store operations end when the recording says so.

Another build may set other timers than the recorded one, or ask the store for other things. A timer
that the recording does not know fires when it is `SLACK_MS` overdue; an operation that it does not
know ends at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from msgspec import Struct

from groupd.coordinator.recording.head import Restored
from groupd.coordinator.recording.world import World
from groupd.storage import log as storage_log
from groupd.storage.log import LogError, LogFenced, LogUnavailable

T = TypeVar("T")

SLACK_MS = 100

TimerKey = tuple[str, int]
"""A timer's kind and due time in milliseconds."""


class _Timer(Struct):
    key: TimerKey
    fire: Callable[[], None]


class ReplayWorld(World):
    """The world of a replay. `awaited`: how often timers of a kind and due time will still fire in
    the recording."""

    def __init__(self, seed: str, awaited: Counter[TimerKey]) -> None:
        super().__init__(seed)
        self.awaited = awaited
        self._timers: dict[int, _Timer] = {}
        self._set = 0
        self._earliest = {"clock": 0, "loop": 0}

    def set_timer(self, kind: str, due_ms: int, fire: Callable[[], None]) -> Callable[[], None]:
        number = self._set
        self._set += 1
        self._timers[number] = _Timer((kind, due_ms), fire)
        self._earliest[kind] = min(self._earliest[kind], due_ms)
        return lambda: self._cancel(number)

    def _cancel(self, number: int) -> None:
        self._timers.pop(number, None)

    def fire(self, number: int, key: TimerKey) -> None:
        """A timer fired in the recording. Fire the timer with this number if it has the same kind
        and due time, else the oldest timer that has. Does nothing if this build has set none."""
        self.awaited[key] -= 1
        timer = self._timers.get(number)
        if timer is None or timer.key != key:
            same = (one for one, timer in self._timers.items() if timer.key == key)
            number = next(same, -1)
        if number in self._timers:
            self._timers.pop(number).fire()

    def overdue(self, kind: str, now_ms: int) -> list[Callable[[], None]]:
        """Remove and return the overdue timers that do not fire in the recording, by due time."""
        if self._earliest[kind] + SLACK_MS > now_ms:
            return []
        late = [
            (timer.key[1], number)
            for number, timer in self._timers.items()
            if timer.key[0] == kind
            and timer.key[1] + SLACK_MS <= now_ms
            and self.awaited[timer.key] <= 0
        ]
        left = [timer.key[1] for timer in self._timers.values() if timer.key[0] == kind]
        self._earliest[kind] = min(left, default=now_ms)
        return [self._timers.pop(number).fire for _, number in sorted(late)]


class OperationEnding(Struct, frozen=True):
    """How an operation ended in the recording. `error`: None if it succeeded. `gave`: its result if
    that was recorded: a number, or the next offset by log."""

    error: LogError | None = None
    gave: int | dict[str, int] | None = None


class ReplayOperations:
    """The store operations of a replay, if the recorded store was outside the world. `began`,
    `ended`: the keys of the operations that began and ended in the recording."""

    def __init__(
        self, world: ReplayWorld, store: Restored, began: frozenset[str], ended: frozenset[str]
    ) -> None:
        self._world = world
        self._store = store
        self._began = began
        self._ended = ended
        self._over: dict[str, OperationEnding] = {}
        self._waiting: dict[str, Callable[[OperationEnding], None]] = {}
        self._doubtful: list[Callable[[], object]] = []
        """Appends that failed in the recording, although their records may have been written."""

    @property
    def inside(self) -> bool:
        return self._world.inside

    async def operate(self, key: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        future: asyncio.Future[T] = self._world.loop.create_future()
        end = partial(self._end, key, future, work)
        if key in self._over:
            end(self._over.pop(key))
        elif key in self._ended:
            self._waiting[key] = end
        elif key not in self._began:
            end(OperationEnding())
        # else the operation had not ended at the end of the recording
        return await future

    def end(self, key: str, ending: OperationEnding) -> None:
        """The operation ended at this point of the recording."""
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            self._over[key] = ending
        else:
            waiting(ending)

    def _end(
        self,
        key: str,
        future: asyncio.Future[T],
        work: Callable[[], Coroutine[Any, Any, T]],
        ending: OperationEnding,
    ) -> None:
        try:
            if ending.error is not None:
                if key.startswith("append#"):
                    self._doubtful.append(lambda: _now(work))
                raise ending.error
            if isinstance(ending.gave, dict):
                self._settle(ending.gave)
            result = _now(work)
        except LogError as error:
            if not future.done():
                future.set_exception(error)
            return
        if not future.done():
            number = cast(T, ending.gave)
            future.set_result(number if isinstance(ending.gave, int) else result)

    def _settle(self, ends: dict[str, int]) -> None:
        """If a log was longer in the recording than it is here, appends that seemed to fail were
        written. Write them here, until the log is as long."""
        doubtful, self._doubtful = self._doubtful, []
        for work in doubtful:
            if any(self._store.next_offset(name) < end for name, end in ends.items()):
                with suppress(LogError):
                    work()
            else:
                self._doubtful.append(work)


def _now(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of `work`, which never waits because the store of a replay is in memory."""
    coroutine = work()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise LogUnavailable("the store of a replay waits")


def error_of(kind: str, text: str, logs: list[str]) -> LogError:
    """The recorded error. An unknown kind becomes LogUnavailable, after which the broker
    retries."""
    if kind == "LogFenced":
        return LogFenced(logs)
    made = getattr(storage_log, kind, None)
    if isinstance(made, type) and issubclass(made, LogError):
        return made(text)
    return LogUnavailable(text)
