"""Compaction of one partition: the newest record of every key stays. The rules are Kafka's.

Records below the last stable offset are compacted unless they are protected. Protected are records
younger than `min.compaction.lag.ms`, and those that Kafka's active segment would hold: records
younger than `segment.ms`, at most `segment.bytes` of them. A partition is compacted when the part
that was never compacted is more than `min.cleanable.dirty.ratio` of all records, or its oldest
record is older than `max.compaction.lag.ms`. `protocol.records.compaction` decides what is left of
a batch.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog
from msgspec import Struct

from groupd.coordinator.cleaning.retention import durable_rows
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.log_cleaning import KEYS_BYTES_MAX, LogCleaning, Rests
from groupd.coordinator.runtime.shard_log import OwnedLog
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.topic import Topic
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.records.compaction import Rules, plain_identity
from groupd.storage.log import MeasuredLogs

log = structlog.get_logger("groupd.compaction")


class Compacted(Struct):
    """Counts since the start. `read`, `dropped`: how many records compaction has read and
    removed."""

    runs: int = 0
    read: int = 0
    dropped: int = 0


class Dirty(Struct):
    """The measured part of a partition that was never compacted: rows from `start` to `end`.
    `records`: how many records the last compaction has left before it, 0 if unknown."""

    start: int
    end: int
    oldest_ms: int = -1
    size: int = 0
    records: int = 0


class Protected(Struct, frozen=True):
    """Which rows must not be compacted: those newer than `young_ms`, and those newer than
    `active_ms` within the last `active_size` bytes. `urgent_ms`: if a row that was never compacted
    is older, the partition is compacted whatever its dirty ratio."""

    young_ms: int
    active_ms: int
    active_size: int
    urgent_ms: int

    def frees(self, row_ms: int, size_with_it: int) -> bool:
        """Whether a row may be compacted. `row_ms`: the time of its newest record; `size_with_it`:
        bytes of the row and all later rows."""
        if row_ms > self.young_ms:
            return False
        return row_ms <= self.active_ms or size_with_it > self.active_size


class TopicCompaction:
    def __init__(
        self,
        partitions: Partitions,
        logs: MeasuredLogs,
        now: Callable[[], Instant],
        rests: Rests,
        config: CoordinatorConfig,
    ) -> None:
        self._partitions = partitions
        self._producer_expiration_ms = config.producer_id_expiration_ms
        self._unpacked_max_bytes = config.produce_unpacked_max_bytes
        self._logs = logs
        self._now = now
        self._rests = rests
        self._keys_bytes_max = KEYS_BYTES_MAX
        self._dirty: dict[str, Dirty] = {}
        self.compacted = Compacted()

    async def check(self, topic: Topic, partition: int, settings: TopicSettings) -> None:
        """Compact the partition if it is due. Raises LogError, CorruptBatch, UnsupportedCodec,
        ValueError if its start was moved meanwhile, and ApiError if the topic was deleted."""
        if not settings.has_policy("compact"):
            return
        opened = await self._partitions.open(topic, partition)
        dirty = await self._measure(opened)
        protected = self._protected(settings)
        least = settings.ratio("min.cleanable.dirty.ratio")
        if not protected.frees(dirty.oldest_ms, dirty.size):
            return
        urgent = dirty.oldest_ms < protected.urgent_ms
        if not urgent and not _is_worth_it(dirty, dirty.end, least):
            return
        end = min(await self._end(opened.name, dirty, protected), opened.last_stable_offset)
        if end > dirty.start and (urgent or _is_worth_it(dirty, end, least)):
            await self._compact(topic, opened, dirty, end, settings)

    def forget(self, known: set[str]) -> None:
        """Forget the measures of logs that are not in `known`."""
        for name in self._dirty.keys() - known:
            del self._dirty[name]

    async def _measure(self, opened: PartitionLog) -> Dirty:
        start = max(opened.clean_offset, opened.start_offset)
        dirty = self._dirty.get(opened.name)
        if dirty is None or dirty.start != start:
            records = 0 if dirty is None else dirty.records
            dirty = self._dirty[opened.name] = Dirty(start, start, records=records)
        end = opened.high_watermark
        while dirty.end < end:
            rows = await durable_rows(self._logs, opened.name, dirty.end, end)
            if not rows:
                break
            if dirty.end == dirty.start:
                dirty.oldest_ms = rows[0].max_timestamp_ms
            dirty.size += sum(row.size for row in rows)
            dirty.end = rows[-1].last_offset + 1
            await self._rests.turn()
        return dirty

    def _protected(self, settings: TopicSettings) -> Protected:
        now_ms = self._now().wall_ms
        max_lag_ms = settings.number("max.compaction.lag.ms")
        active_ms = min(settings.number("segment.ms"), max_lag_ms)
        return Protected(
            now_ms - settings.number("min.compaction.lag.ms"),
            now_ms - active_ms,
            settings.number("segment.bytes"),
            now_ms - max_lag_ms,
        )

    async def _end(self, name: str, dirty: Dirty, protected: Protected) -> int:
        """The offset up to which rows may be compacted."""
        at, left = dirty.start, dirty.size
        while at < dirty.end:
            rows = await durable_rows(self._logs, name, at, dirty.end)
            if not rows:
                break
            for row in rows:
                if not protected.frees(row.max_timestamp_ms, left):
                    return at
                left -= row.size
                at = row.last_offset + 1
            await self._rests.turn()
        return at

    async def _compact(
        self, topic: Topic, opened: PartitionLog, dirty: Dirty, end: int, settings: TopicSettings
    ) -> None:
        # The start offset may lie within a row.
        first = (await self._logs.extents(opened.name, opened.start_offset, 1))[0].base_offset
        clean_offset = max(opened.clean_offset, first)
        owned = OwnedLog(opened.name, opened.owner_epoch, first, clean_offset)
        rules = Rules(
            self._now().wall_ms,
            settings.number("delete.retention.ms"),
            opened.high_watermark - 1,
            self._producer_expiration_ms,
        )
        cleaning = LogCleaning(
            self._logs,
            owned,
            owned,
            self._rests,
            plain_identity,
            self._unpacked_max_bytes,
            self._keys_bytes_max,
        )
        try:
            done = await cleaning.run(end, 1, rules)
        finally:
            opened.compacted(owned.clean_offset)
        if done is None:
            return
        dirty.records = done.kept
        self.compacted.runs += 1
        self.compacted.read += done.read
        self.compacted.dropped += done.read - done.kept
        log.info(
            "partition compacted",
            topic=topic.name,
            partition=opened.partition,
            to_offset=owned.clean_offset,
            records_read=done.read,
            records_kept=done.kept,
        )


def _is_worth_it(dirty: Dirty, end: int, least: float) -> bool:
    """Whether the records up to `end` are more than the share `least` of all records."""
    count = end - dirty.start
    return count > 0 and count / (count + dirty.records) > least
