"""Waits for conditions without polling: they are checked whenever something happens.

They are checked at once, inside the notification, so that a wait does not miss a state that lasts
only until the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from groupd.coordinator.faults.errors import WaitTimeout

T = TypeVar("T")

TIMEOUT_S = 10.0
"""The timeout of a wait that does not set one."""


class _Waiter(Generic[T]):
    """One wait. `ready` returns None as long as the wait must go on."""

    __slots__ = ("future", "ready")

    def __init__(self, ready: Callable[[], T | None], future: asyncio.Future[T]) -> None:
        self.ready = ready
        self.future = future

    def look(self) -> None:
        if self.future.done():
            return
        try:
            result = self.ready()
        except Exception as error:  # noqa: BLE001 - it is raised in the task that waits
            self.future.set_exception(error)
            return
        if result is not None:
            self.future.set_result(result)


class Watch:
    """All waits on the broker's loop."""

    def __init__(self) -> None:
        self._waiters: list[_Waiter[object]] = []
        self._events: set[asyncio.Event] = set()

    def changed(self, *_: object) -> None:
        """Check every condition, because something has happened. Takes any arguments, so that it
        can be used as any listener."""
        for waiter in list(self._waiters):
            waiter.look()
        for event in self._events:
            event.set()

    async def until(
        self, ready: Callable[[], T | None], timeout_s: float, explain: Callable[[], str]
    ) -> T:
        """Wait for the first result of `ready` that is not None, and return it. Raises WaitTimeout,
        with the text of `explain`, after `timeout_s` seconds of real time."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiter = _Waiter(ready, future)
        waiter.look()
        self._waiters.append(waiter)  # type: ignore[arg-type]
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            raise WaitTimeout(f"not within {timeout_s:g} s: {explain()}") from None
        finally:
            self._waiters.remove(waiter)  # type: ignore[arg-type]

    async def until_read(
        self,
        look: Callable[[asyncio.Event], Awaitable[T | None]],
        timeout_s: float,
        explain: Callable[[], str],
    ) -> T:
        """The same as `until`, for a condition that has to read logs. It is checked after the
        notification, not inside it. `look` gets the event that starts a check; the reader of a log
        may set it too."""
        changed = asyncio.Event()
        self._events.add(changed)
        try:
            result = await look(changed)
            async with asyncio.timeout(timeout_s):
                while result is None:
                    await changed.wait()
                    changed.clear()
                    result = await look(changed)
                return result
        except TimeoutError:
            raise WaitTimeout(f"not within {timeout_s:g} s: {explain()}") from None
        finally:
            self._events.discard(changed)
