"""Retention of one partition: the oldest batches are deleted by age and by size. The rules are
Kafka's, with a batch where Kafka has a segment. `retention.bytes`: the oldest batch is deleted if
at least that many bytes are left. `retention.ms`: the oldest batch is deleted once its newest
record is older. Batches are deleted in the order of the log, and never at or above the high
watermark. The newest batch may be deleted too: Kafka closes its active segment when all of it is
too old.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from msgspec import Struct

from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.log_cleaning import Throttle
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.topic import Topic, log_name
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.storage.log import EXTENTS_MAX, MeasuredLogs, RowExtent

log = structlog.get_logger("groupd.retention")

NO_LIMIT = -1
LOG_END = 2**63 - 1
"""The end of a log that is not open, and to which nothing is appended."""


async def durable_rows(
    logs: MeasuredLogs, name: str, from_offset: int, end_offset: int, rows_max: int = EXTENTS_MAX
) -> list[RowExtent]:
    """The rows of a log from `from_offset` on that end below `end_offset`. An append under way does
    not count, even if the store has it already, because a replay of a recording has to see the same
    rows. Raises LogError."""
    rows = await logs.extents(name, from_offset, rows_max)
    return [row for row in rows if row.last_offset < end_offset]


class Deleted(Struct):
    """What retention has deleted. `rows`: rows of the store, nearly always one for each batch."""

    rows: int = 0
    size: int = 0


class Limits:
    """Which of the oldest rows to delete: those whose newest record is before `oldest_ms` (None: no
    limit on age), and those within the first `excess` bytes."""

    def __init__(self, oldest_ms: int | None, excess: int) -> None:
        self._oldest_ms = oldest_ms
        self._excess = excess

    def leading(self, rows: Sequence[RowExtent]) -> list[RowExtent]:
        """The first of `rows` that are to be deleted. Call it in the order of the log. A row that
        compaction has emptied is deleted together with the next row that is."""
        gone = 0
        for count, row in enumerate(rows, 1):
            if not row.size:
                continue
            if not self._is_old(row) and row.size > self._excess:
                break
            self._excess -= row.size
            gone = count
        return list(rows[:gone])

    def _is_old(self, row: RowExtent) -> bool:
        return self._oldest_ms is not None and 0 <= row.max_timestamp_ms < self._oldest_ms


class Retention:
    def __init__(
        self,
        partitions: Partitions,
        logs: MeasuredLogs,
        now: Callable[[], Instant],
        throttle: Throttle,
    ) -> None:
        self._partitions = partitions
        self._logs = logs
        self._now = now
        self._throttle = throttle
        self.deleted = Deleted()
        """What was deleted since the start."""

    async def check(self, topic: Topic, partition: int, settings: TopicSettings) -> None:
        """Delete what is beyond the topic's limits, some rows at a time. Raises LogError, and
        ApiError if the topic was deleted."""
        if not settings.has_policy("delete"):
            return
        name = log_name(topic.topic_id, partition)
        known = self._partitions.is_open(topic, partition)
        end = LOG_END if known is None else known.high_watermark
        oldest = await durable_rows(self._logs, name, 0, end, 1)
        limits = await self._limits(name, end, settings)
        if not oldest or (oldest[0].size and not limits.leading(oldest)):
            return
        opened = await self._partitions.open(topic, partition)
        limits = await self._limits(name, opened.high_watermark, settings)
        first, deleted = opened.start_offset, Deleted()
        while True:
            rows = await durable_rows(self._logs, name, 0, opened.high_watermark)
            gone = limits.leading(rows)
            if not gone:
                break
            end = gone[-1].last_offset + 1
            opened = await self._partitions.delete_before(topic, partition, end)
            deleted.rows += len(gone)
            deleted.size += sum(row.size for row in gone)
            await self._throttle.turn()
            if len(gone) < len(rows):
                break
        if not deleted.rows:
            return
        self.deleted.rows += deleted.rows
        self.deleted.size += deleted.size
        log.info(
            "old records deleted",
            topic=topic.name,
            partition=partition,
            from_offset=first,
            to_offset=opened.start_offset,
            bytes=deleted.size,
        )

    async def _limits(self, name: str, end_offset: int, settings: TopicSettings) -> Limits:
        retention_ms = settings.number("retention.ms")
        retention_bytes = settings.number("retention.bytes")
        oldest_ms = None if retention_ms < 0 else self._now().wall_ms - retention_ms
        excess = NO_LIMIT
        if retention_bytes >= 0:
            excess = await self._logs.size(name, end_offset) - retention_bytes
        return Limits(oldest_ms, excess)
