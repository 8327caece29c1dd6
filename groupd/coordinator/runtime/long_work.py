"""Work that may take long. It is done a slice at a time, so that all other requests are served in
between.

Work that grows with what a client sends or asks for (the parts of a request about many groups or
topics, the bytes of a long reply) is a generator that yields where other work may run. One step of
it takes well below a millisecond. All pieces of work share this one queue, so that a hundred long
requests delay a short one by no more than one of them does. In each turn of the event loop one
piece gets a slice of `SLICE_NS`, and in the next turn the next piece.

A piece of work keeps its results in memory until it is done. So at most `PIECES_AT_ONCE` pieces are
under way, and the others wait in line. The encoding of a reply does not wait in line: it belongs to
a request that has waited already.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from groupd.coordinator.core.slices import REQUEST_ITEMS, Pace, Steps
from groupd.coordinator.runtime.clock import elapsed_ns
from groupd.coordinator.runtime.waiting import Waiter

SLICE_NS = 2_000_000
PIECES_AT_ONCE = 16

T = TypeVar("T")


class _Queued(Struct, frozen=True):
    steps: Steps[Any]
    wanted: Callable[[], bool]
    done: Callable[[Any], None]
    limited: bool


def _always() -> bool:
    return True


class _Awaited(Generic[T]):
    """The result of work that a coroutine waits for. `future` is None when the result was taken."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[T] | None = asyncio.get_running_loop().create_future()

    def wanted(self) -> bool:
        return self.future is not None and not self.future.done()

    def set(self, result: T | Exception) -> None:
        if self.future is None or self.future.done():
            return
        if isinstance(result, Exception):
            self.future.set_exception(result)
        else:
            self.future.set_result(result)


class LongWork:
    """The queue of long work. `elapsed`: a clock in nanoseconds, which measures the slices. With a
    clock that stands still every piece runs to its end in one slice, as a recording needs it."""

    def __init__(self, elapsed: Callable[[], int] = elapsed_ns) -> None:
        self._elapsed = elapsed
        self._active: deque[_Queued] = deque()
        self._waiting: deque[_Queued] = deque()
        self._limited = 0
        """Active pieces that count against `PIECES_AT_ONCE`."""
        self._scheduled = False

    @property
    def under_way(self) -> int:
        """How many pieces are worked on, without those that wait in line."""
        return len(self._active)

    def add(
        self,
        steps: Steps[T],
        done: Callable[[T | Exception], None],
        wanted: Callable[[], bool] = _always,
    ) -> bool:
        """Work on `steps`. `done` gets their result, or the exception that ended them. If
        `wanted()` becomes false the work is dropped, and `done` is never called. Returns whether
        the work has ended at once, before its first yield."""
        ended = _step(steps)
        if ended is not None:
            done(ended.pop())
            return True
        self.add_later(steps, done, wanted)
        return False

    def add_later(
        self,
        steps: Steps[T],
        done: Callable[[T | Exception], None],
        wanted: Callable[[], bool] = _always,
    ) -> None:
        """The same as `add`, but no step is done before this returns, for a caller that has other
        work to finish."""
        self._waiting.append(_Queued(steps, wanted, done, True))
        self._admit()

    def add_reply(
        self,
        steps: Steps[T],
        done: Callable[[T | Exception], None],
        wanted: Callable[[], bool],
    ) -> None:
        """The same as `add`, for the bytes of a reply. They do not wait in line, because the
        request has done so."""
        self._active.append(_Queued(steps, wanted, done, False))
        self._schedule()

    def answer(self, waiter: Waiter, steps: Steps[None]) -> None:
        """Work on `steps`, which answer `waiter`. An error of `steps` fails the request."""

        def done(error: Exception | None) -> None:
            if error is not None:
                waiter.fail_with(error)

        ended = self.add(steps, done)
        if not ended and waiter in waiter.waiting:
            waiter.block_connection()

    async def run(self, steps: Steps[T]) -> T:
        """Returns what `steps` return. Raises what they raise. Cancelling the caller drops the
        work."""
        result = _Awaited[T]()
        self.add(steps, result.set, result.wanted)
        assert result.future is not None
        try:
            return await result.future
        finally:
            # An exception refers to the frames that it has passed. If one of these frames still
            # referred to the exception, it would stay until Python looks for cycles, with all that
            # the steps had in use.
            result.future = None

    def pace(self) -> Pace:
        """Returns a pace for a handler whose request may name thousands of partitions."""
        return Pace(REQUEST_ITEMS, self.turn)

    def turn(self) -> asyncio.Future[None]:
        """Returns a future that is done when it is the caller's turn. It is for a coroutine that
        waits for other things, too, and so cannot be a piece: it does one step after each turn."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(_: object) -> None:
            if not future.done():
                future.set_result(None)

        self.add_reply(_nothing(), done, lambda: not future.done())
        return future

    def _admit(self) -> None:
        while self._waiting and self._limited < PIECES_AT_ONCE:
            piece = self._waiting.popleft()
            if piece.wanted():
                self._active.append(piece)
                self._limited += 1
        self._schedule()

    def _schedule(self) -> None:
        if self._active and not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        piece = self._active.popleft()
        ended = self._work_on(piece) if piece.wanted() else []
        if ended is None:
            self._active.append(piece)
        elif piece.limited:
            self._limited -= 1
        try:
            if ended:
                piece.done(ended.pop())
        finally:
            self._admit()

    def _work_on(self, piece: _Queued) -> list[Any] | None:
        """Work for one slice. Returns the result in a list after the last step, else None."""
        until = self._elapsed() + SLICE_NS
        ended = None
        while ended is None and self._elapsed() < until:
            ended = _step(piece.steps)
        return ended


def _nothing() -> Steps[None]:
    yield from ()


def _step(steps: Steps[T]) -> list[T | Exception] | None:
    """Do one step. If it was the last one, returns a list with the result or the error. The caller
    must take it out and so leave the list empty: see `LongWork.run`."""
    try:
        next(steps)
    except StopIteration as ended:
        return [ended.value]
    except Exception as error:  # noqa: BLE001 - `done` deals with it
        return [error]
    return None
