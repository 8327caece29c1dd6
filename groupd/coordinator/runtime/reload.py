"""Loading the log of a shard at the start, and again after a failure."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
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


Load = Callable[[], Awaitable[None]]


class Reloaded(Protocol):
    """The part of a `LogShard` that `Reload` uses."""

    kind: str
    partition: int
    state: CoordinatorState
    loaded_records: int

    async def load(self) -> None:
        """Read the log and serve. Raises LoadFailed or LogError."""
        ...


class Reload:
    """Loads a shard. If that fails the shard is FAILED and refuses requests, while other shards
    serve. Unless the log is damaged the load is tried again with growing pauses."""

    __slots__ = ("_began_ms", "_clock", "_shard", "_task")

    def __init__(self, clock: Clock, shard: Reloaded) -> None:
        self._clock = clock
        self._shard = shard
        self._began_ms: deque[int] = deque(maxlen=QUICK_LOADS)
        """When the last loads began, without the very first one."""
        self._task: asyncio.Task[None] | None = None

    async def load_first(self, load: Load) -> None:
        """Load at the start. `load()` may know more about the log than later loads do."""
        try:
            await self._try(load)
        except LogError:
            if self._shard.state is not CoordinatorState.CLOSED:
                self.start(BACKOFF_MS)

    def start(self, delay_ms: int) -> None:
        """Load in a task of its own, first after `delay_ms`, until the load succeeds or cannot
        succeed. After several loads in a short time there is a pause: the shard may fail each time
        soon after its load, for example when it writes its first records."""
        began_ms, now_ms = self._began_ms, self._clock.monotonic_ms()
        if len(began_ms) == QUICK_LOADS and now_ms - began_ms[0] < BACKOFF_MS:
            delay_ms = max(delay_ms, BACKOFF_MS)
        name = f"reload-{self._shard.kind}-{self._shard.partition}"
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
            self._shard.state = CoordinatorState.LOADING
            try:
                if await self._try(self._shard.load):
                    self._log().info(
                        f"{self._shard.kind} reloaded",
                        shard=self._shard.partition,
                        records=self._shard.loaded_records,
                    )
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
            if self._shard.state is not CoordinatorState.CLOSED:
                self._shard.state = CoordinatorState.FAILED
            self._log().error(
                f"{self._shard.kind} cannot be loaded",
                shard=self._shard.partition,
                reason=str(error),
            )
            if isinstance(error, LogError) and not isinstance(error, LogCorrupt):
                raise
            return False
        return True

    def _log(self) -> Any:
        return structlog.get_logger(f"groupd.{self._shard.kind}")
