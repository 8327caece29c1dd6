"""When a shard is loaded, and what becomes of it if that fails."""

from __future__ import annotations

from typing import Protocol

import structlog

from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.loader import LoadFailed
from groupd.coordinator.runtime.reload import BACKOFF_MS, Reload
from groupd.coordinator.runtime.shard_log import ShardLog
from groupd.coordinator.runtime.shard_state import ShardState
from groupd.storage.log import LogCorrupt, LogError

log = structlog.get_logger("groupd.shard")


class Loadable(Protocol):
    """The shard runtime, as far as this needs it."""

    partition: int
    state: ShardState
    loaded_records: int

    async def load(self, opened: ShardLog | None = None) -> None:
        """Raises LoadFailed or LogError."""
        ...


class ShardReload(Reload):
    """Loads a shard at start, and again after `start`. One that cannot be loaded refuses, the
    others serve; it is tried again unless its log is damaged."""

    __slots__ = ("_shard",)

    def __init__(self, clock: Clock, shard: Loadable) -> None:
        super().__init__(clock, self._load_again, f"reload-{shard.partition}")
        self._shard = shard

    async def load_first(self, opened: ShardLog) -> None:
        try:
            await self._try_to_load(opened)
        except LogError:
            self.start(BACKOFF_MS)

    async def _load_again(self) -> None:
        """One attempt; raises LogError if another one may help."""
        shard = self._shard
        shard.state = ShardState.LOADING
        if await self._try_to_load():
            log.info("shard reloaded", shard=shard.partition, records=shard.loaded_records)

    async def _try_to_load(self, opened: ShardLog | None = None) -> bool:
        try:
            await self._shard.load(opened)
        except LogError as error:
            self._failed(error)
            if not isinstance(error, LogCorrupt):
                raise
        except LoadFailed as error:
            self._failed(error)
        else:
            return True
        return False

    def _failed(self, error: Exception) -> None:
        shard = self._shard
        if shard.state is not ShardState.CLOSED:
            shard.state = ShardState.FAILED
        log.error("shard cannot be loaded", shard=shard.partition, reason=str(error))
