"""Reads the records of a topic as a consumer of the chosen isolation level would get them.

`read_committed` gives no records of aborted transactions, and nothing from the first open
transaction on (KIP-98); `read_uncommitted` gives everything that is durable. Transaction markers do
not count as records.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, Literal, TypeAlias

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.topics.partition import ReadableLog
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.records.batch import Batch, iter_batches
from groupd.testing.engine import Engine
from groupd.testing.records import TestRecord, decode

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
ISOLATIONS = (READ_COMMITTED, READ_UNCOMMITTED)
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]
"""Kafka's names of the isolation levels."""

READ_BYTES = 256 << 10


class PartitionReader:
    """Reads one partition from `offset` on; `offset` None = from its start. Every call continues
    where the previous one ended. `changed` is set whenever there may be more to read, until
    `close`."""

    def __init__(
        self,
        engine: Engine,
        topic: Topic,
        partition: int,
        isolation: Isolation,
        offset: int | None = None,
        changed: asyncio.Event | None = None,
    ) -> None:
        self._engine = engine
        self._topic = topic
        self._partition = partition
        self._committed = isolation == READ_COMMITTED
        self._offset = 0 if offset is None else offset
        self._changed = changed
        self._log: ReadableLog | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The topic and the partition as text."""
        return self._topic.name, self._partition

    async def records(self) -> list[TestRecord]:
        """The records that were added since the last call."""
        found: list[TestRecord] = []
        async for start, batch in self._batches():
            found += [r for r in decode(batch, self._partition) if r.offset >= start]
        return found

    async def count(self) -> int:
        """How many records were added since the last call. A batch without gaps is not decoded."""
        found = 0
        async for start, batch in self._batches():
            header = batch.header
            offsets = header.last_offset - header.base_offset + 1
            if header.record_count == offsets:
                found += header.last_offset + 1 - max(start, header.base_offset)
            else:
                found += sum(r.offset >= start for r in decode(batch, self._partition))
        return found

    def close(self) -> None:
        if self._log is not None and self._changed is not None:
            self._log.remove_waiter(self._changed)
        self._log = None

    async def _batches(self) -> AsyncIterator[tuple[int, Batch]]:
        """Each batch that has visible records, with the first offset in it that counts."""
        log = await self._open()
        end = log.last_stable_offset if self._committed else log.high_watermark
        while self._offset < end:
            start = self._offset = max(self._offset, log.start_offset)
            payloads = await log.read(start, READ_BYTES, min_one=True)
            batches = [
                batch
                for payload in payloads
                for batch in iter_batches(payload)
                if batch.header.last_offset >= start and batch.header.base_offset < end
            ]
            if not batches:
                return
            self._offset = batches[-1].header.last_offset + 1
            aborted = log.aborted(start, self._offset) if self._committed else ()
            for batch in _visible(batches, aborted):
                yield start, batch
            await asyncio.sleep(0)  # let other tasks run

    async def _open(self) -> ReadableLog:
        if self._log is None or self._log.closed:
            self.close()
            self._log = await self._engine.readable(self._topic, self._partition)
            if self._changed is not None:
                self._log.add_waiter(self._changed)
        return self._log


def partitions_of(topic: Topic, partition: int | None) -> Sequence[int]:
    """The partition that is wanted, or all of them. Raises HarnessError for one that does not
    exist."""
    if partition is None:
        return range(topic.partitions)
    if not 0 <= partition < topic.partitions:
        raise HarnessError(
            f"topic {topic.name} has no partition {partition}: it has {topic.partitions}, from 0"
        )
    return [partition]


def _visible(batches: Sequence[Batch], aborted: Sequence[tuple[int, int]]) -> Iterator[Batch]:
    """Leaves out markers and the records of aborted transactions, as consumers do: an aborted
    transaction lasts from its first offset to the next marker of its producer."""
    waiting = sorted((first_offset, producer_id) for producer_id, first_offset in aborted)
    waiting.reverse()
    aborting: set[int] = set()
    for batch in batches:
        header = batch.header
        while waiting and waiting[-1][0] <= header.last_offset:
            aborting.add(waiting.pop()[1])
        if header.is_control:
            aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            yield batch
