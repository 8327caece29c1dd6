"""Loading a log at the start, and again after a failure: the same for shards and for the log of the
transaction coordinator."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, Protocol

import structlog

from groupd.coordinator.runtime.clock import Clock, pause
from groupd.coordinator.runtime.loader import LoadFailed
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.storage.log import LogCorrupt, LogError

BACKOFF_MS = 500
BACKOFF_MAX_MS = 10_000
QUICK_LOADS = 3
"""At most this many loads begin within `BACKOFF_MS`. The next one waits for `BACKOFF_MS`."""


@cache
def _logger(kind: str) -> Any:
    """Returns the logger for all owners of a kind: they are made by the dozen when a daemon
    starts."""
    return structlog.get_logger(f"groupd.{kind}")


Load = Callable[[], Awaitable[None]]


class Loadable(Protocol):
    state: CoordinatorState
    loaded_records: int

    async def load(self) -> None:
        """Read the log and serve. Raises LoadFailed or LogError."""
        ...


class Reload:
    """Loads its owner. If that fails the owner is FAILED and refuses requests, while other shards
    serve. Unless the log is damaged the load is tried again with growing pauses. `kind` and `where`
    are used in messages."""

    __slots__ = ("_began_ms", "_clock", "_kind", "_log", "_owner", "_task", "_where")

    def __init__(self, clock: Clock, owner: Loadable, kind: str, **where: int) -> None:
        self._clock = clock
        self._owner = owner
        self._kind = kind
        self._where = where
        self._began_ms: deque[int] = deque(maxlen=QUICK_LOADS)
        """When the last loads began, without the very first one."""
        self._log = _logger(kind)
        self._task: asyncio.Task[None] | None = None

    async def load_first(self, load: Load) -> None:
        """Load at the start. `load()` may know more about the log than later loads do."""
        try:
            await self._try(load)
        except LogError:
            if self._owner.state is not CoordinatorState.CLOSED:
                self.start(BACKOFF_MS)

    def start(self, delay_ms: int) -> None:
        """Load in a task of its own, first after `delay_ms`, until the load succeeds or cannot
        succeed. After several loads in a short time there is a pause: the shard may fail each time
        soon after its load, for example when it writes its first records."""
        began_ms, now_ms = self._began_ms, self._clock.monotonic_ms()
        if len(began_ms) == QUICK_LOADS and now_ms - began_ms[0] < BACKOFF_MS:
            delay_ms = max(delay_ms, BACKOFF_MS)
        name = "-".join(["reload", self._kind, *map(str, self._where.values())])
        self._task = asyncio.get_running_loop().create_task(self._run(delay_ms), name=name)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Wait until the task has ended, if there is one."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def _run(self, delay_ms: int) -> None:
        while True:
            await pause(self._clock, delay_ms)
            self._began_ms.append(self._clock.monotonic_ms())
            self._owner.state = CoordinatorState.LOADING
            try:
                if await self._try(self._owner.load):
                    records = self._owner.loaded_records
                    self._log.info(f"{self._kind} reloaded", **self._where, records=records)
            except LogError:
                delay_ms = min(max(2 * delay_ms, BACKOFF_MS), BACKOFF_MAX_MS)
            else:
                return

    async def _try(self, load: Load) -> bool:
        """Load once. Returns False if another attempt is of no use. Raises LogError if it may
        be."""
        try:
            await load()
        except (LoadFailed, LogError) as error:
            if self._owner.state is not CoordinatorState.CLOSED:
                self._owner.state = CoordinatorState.FAILED
            self._log.error(f"{self._kind} cannot be loaded", **self._where, reason=str(error))
            if isinstance(error, LogError) and not isinstance(error, LogCorrupt):
                raise
            return False
        return True
