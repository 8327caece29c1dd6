"""The cleaner: keeps the logs of the shards short (docs/spec/offsets-and-log.md#8).

Records that the shards write stay raw for `groupd.history.retention.ms`. Meanwhile a second,
compacted log holds the same state, and shards load quickly from it. After that time the history
itself is cleaned in place. Without any retention it is cleaned at once, and no second log is
needed.

The cleaner works on one log at a time, in slices of two milliseconds with three times as long in
between, and no reply waits for it. A log that cannot be cleaned stays as it is: only its length
depends on cleaning.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.clock import elapsed_ns
from groupd.coordinator.runtime.log_cleaning import LogCleaning, Sleep, Throttle
from groupd.coordinator.runtime.shard_log import OwnedLog, ShardLog
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.records.batch import CorruptBatch
from groupd.protocol.records.compaction import NOWHERE, Rules, offsets_identity
from groupd.storage.log import LogError, LogFenced, LogUnavailable, PartitionLogs

log = structlog.get_logger("groupd.cleaner")

SLICE_NS = 2_000_000
PAUSE_PER_WORK = 3
LEAST_RECORDS = 1000
"""A log is not cleaned while it has fewer new records than this, or fewer new records than its
clean part has (Kafka's dirty ratio of one half)."""

FOR_EVER = -1


class CleanableShard(Protocol):
    """The part of a shard that the cleaner uses."""

    @property
    def state(self) -> CoordinatorState: ...
    @property
    def log(self) -> ShardLog | None: ...
    @property
    def durable_offset(self) -> int: ...


def _serving(shard: CleanableShard) -> ShardLog | None:
    return shard.log if shard.state is CoordinatorState.ACTIVE else None


class TimedThrottle(Throttle):
    """Works for `SLICE_NS` at a time, then sleeps `PAUSE_PER_WORK` times as long as it has
    worked."""

    __slots__ = ("_since_ns", "_sleep")

    def __init__(self, sleep: Sleep) -> None:
        super().__init__(turn=self._pause)
        self._sleep = sleep
        self._since_ns = elapsed_ns()

    def due(self, done: int = 1) -> bool:
        return elapsed_ns() - self._since_ns >= SLICE_NS

    async def _pause(self) -> None:
        worked_ns = elapsed_ns() - self._since_ns
        await self._sleep(worked_ns * PAUSE_PER_WORK / 1_000_000_000)
        self._since_ns = elapsed_ns()


class CleanerStats:
    __slots__ = ("dropped", "failures", "read", "runs")

    def __init__(self) -> None:
        self.runs = self.read = self.dropped = self.failures = 0


class Cleaner:
    """Cleans the logs of all shards in turn, every `log.cleaner.backoff.ms` between `start` and
    `close`."""

    def __init__(
        self,
        logs: PartitionLogs,
        shards: Sequence[CleanableShard],
        config: CoordinatorConfig,
        now: Callable[[], Instant],
        *,
        sleep: Sleep = asyncio.sleep,
        least_records: int = LEAST_RECORDS,
    ) -> None:
        self._logs = logs
        self._shards = shards
        self._config = config
        self._now = now
        self._sleep = sleep
        self._least_records = least_records
        self._task: asyncio.Task[None] | None = None
        self._bad: dict[str, int] = {}
        """The logs that could not be read: name -> owner epoch. They are not tried again until they
        are reloaded."""
        self.stats = CleanerStats()

    def start(self) -> None:
        if self._config.log_cleaner_enable:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="log-cleaner")

    async def close(self) -> None:
        """Stop. A transaction of the store that is under way still ends by itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    @property
    def dirty_records(self) -> int:
        """How many offsets a load would read that no cleaning has seen yet."""
        return sum(
            shard.durable_offset - max(opened.compacted_end, opened.history.clean_offset)
            for shard in self._shards
            if (opened := _serving(shard)) is not None
        )

    async def _run(self) -> None:
        while True:
            await self._sleep(self._config.log_cleaner_backoff_ms / 1000)
            await self.round()

    async def round(self) -> None:
        """Clean every log once, if cleaning is worth it."""
        for shard in self._shards:
            opened = _serving(shard)
            if opened is None:
                continue
            name = opened.history.name
            if self._bad.get(name) == opened.history.owner_epoch:
                continue
            try:
                await self._clean_shard(shard, opened)
            except LogFenced:
                log.info("shard was loaded anew while it was cleaned", log=name)
            except (LogError, CorruptBatch, ValueError) as error:
                self._failed(opened, error)
            except Exception as error:
                # A bug of ours. The log is as it was, and the next shards are cleaned.
                log.exception("cleaning failed", log=name)
                self._failed(opened, error)

    def _failed(self, opened: ShardLog, error: Exception) -> None:
        self.stats.failures += 1
        if not isinstance(error, LogUnavailable):
            self._bad[opened.history.name] = opened.history.owner_epoch
        log.warning("log is not cleaned", log=opened.history.name, reason=str(error))

    async def _clean_shard(self, shard: CleanableShard, opened: ShardLog) -> None:
        retention_ms = self._config.history_retention_ms
        lag_ms = self._config.log_cleaner_min_compaction_lag_ms
        compacted = opened.compacted
        if compacted.clean_offset and (retention_ms == 0 or not opened.compacted_end):
            await self._drop_compacted(opened)
        end = shard.durable_offset
        if retention_ms == 0:
            await self._clean(opened, opened.history, end, end, lag_ms)
            return
        await self._clean(opened, opened.compacted, end, end, lag_ms)
        if retention_ms != FOR_EVER:
            # The history must not be cleaned beyond the compacted log, or that would have to be
            # made again.
            up_to = min(end, opened.compacted_end)
            await self._clean(opened, opened.history, up_to, end, max(lag_ms, retention_ms))

    async def _drop_compacted(self, opened: ShardLog) -> None:
        """Empty the compacted log: it is behind the history, damaged, or not wanted any more."""
        opened.damaged = True
        name = opened.compacted.name
        await self._logs.delete([name], opened.owned)
        state = await self._logs.open(name, opened.owned)
        opened.compacted = OwnedLog(name, state.owner_epoch, state.start_offset, state.clean_offset)
        opened.damaged = False

    async def _clean(
        self, opened: ShardLog, target: OwnedLog, end: int, log_end: int, lag_ms: int
    ) -> None:
        """Clean `target` up to `end`. Records that are younger than `lag_ms` stay as they are."""
        least = max(self._least_records, target.records)
        if end - target.clean_offset < least:
            return
        now_ms = self._now().wall_ms
        if lag_ms:
            young = await self._logs.first_at_or_after(opened.history.name, now_ms - lag_ms + 1)
            end = end if young is None else min(end, young.base_offset)
        if end - target.clean_offset < least:
            return
        history = opened.history
        rules = Rules(
            now_ms,
            self._config.log_cleaner_delete_retention_ms,
            log_end - 1,
            self._config.producer_id_expiration_ms,
            NOWHERE if target is history else history.clean_offset,
        )
        cleaning = LogCleaning(
            self._logs,
            history,
            target,
            TimedThrottle(self._sleep),
            offsets_identity,
            self._config.produce_unpacked_max_bytes,
        )
        done = await cleaning.run(end, self._least_records, rules)
        if done is None:
            return
        target.records = done.kept
        self.stats.runs += 1
        self.stats.read += done.read
        self.stats.dropped += done.read - done.kept
        log.debug("log cleaned", log=target.name, read=done.read, kept=done.kept)
