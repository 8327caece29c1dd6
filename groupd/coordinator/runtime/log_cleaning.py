"""One cleaning of one log: survey what is new, then write what is left, piece by piece.

Every piece is one transaction of the store that replaces a range of rows. After a crash between two
of them the log holds the same state, and the next cleaning goes on. The order matters: the part
that is already clean is written first, in ascending order. So a tombstone gets its delete horizon
only when nothing that it hides is left.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec import Struct

from groupd.coordinator.core.slices import Pace, Steps, T
from groupd.coordinator.runtime.shard_log import OwnedLog
from groupd.coordinator.runtime.unpacking import unpacked
from groupd.protocol.records.batch import Batch, CorruptBatch, iter_batches, parse_header
from groupd.protocol.records.compaction import Compaction, KeyIdentity, Rules, Survey
from groupd.protocol.records.compression import Plain, UnpacksTooLarge
from groupd.storage.log import LogCorrupt, PartitionLogs, Replacement, StoredBatch

ROW_BYTES = 128 * 1024
"""The size of a clean row. A load has few rows to read then, and reads and checks each in a
millisecond."""

ROWS_MAX = 400
SOURCE_BYTES_MAX = 512 * 1024
"""Limits of what one transaction replaces, because appends wait for it."""


class Swap:
    """Rows from `first` on that are replaced by one row."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.end = first
        self._parts: list[bytes] = []
        self._rows = 0
        self._source_bytes = 0
        self._size = 0
        self._max_timestamp_ms = -1
        self._changed = False

    def fits_as_it_is(self, row: StoredBatch, changed: bool) -> bool:
        """Whether `row` may stay as it is, because nothing is gained by writing it again."""
        return not changed and not self.useful and len(row.payload) >= ROW_BYTES // 2

    def add(self, row: StoredBatch, left: bytes, max_timestamp_ms: int, changed: bool) -> None:
        """Add a row. `left`: the batches of it that stay. `max_timestamp_ms`: the newest timestamp
        in them, -1 if there are none."""
        self.end = row.last_offset + 1
        self._rows += 1
        self._source_bytes += len(row.payload)
        self._parts.append(left)
        self._size += len(left)
        self._max_timestamp_ms = max(self._max_timestamp_ms, max_timestamp_ms)
        self._changed |= changed

    @property
    def full(self) -> bool:
        return (
            self._size >= ROW_BYTES
            or self._rows >= ROWS_MAX
            or self._source_bytes >= SOURCE_BYTES_MAX
        )

    @property
    def useful(self) -> bool:
        """Whether writing changes anything: a row has changed, or small rows become one."""
        return self._changed or self._rows > 1

    def row(self) -> StoredBatch:
        payload = b"".join(self._parts)
        return StoredBatch(self.first, self.end - 1, self._max_timestamp_ms, payload)


Sleep = Callable[[float], Awaitable[None]]

READ_BYTES = 64 * 1024
KEYS_BYTES_MAX = 50 * 1024 * 1024
"""Limits the memory for the keys that one cleaning looks for, to some 200,000 committed offsets.
What is left is done by the next cleaning."""


class Cleaned(Struct, frozen=True):
    """What one cleaning did. `kept`: how many records the clean part of the log has now."""

    read: int
    kept: int


class Throttle(Pace):
    """Pauses a cleaning for other work after so many steps. In a recording the number of pauses
    must not depend on the speed of the machine."""

    async def run(self, steps: Steps[T]) -> T:
        """Run `steps` to the end. Each step counts, the last one too; a step handles some hundred
        records at most."""
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                result: T = ended.value
                break
            if self.due():
                await self.turn()
        if self.due():
            await self.turn()
        return result


class LogCleaning:
    """Cleans `target` with what `history` has from the target's clean offset on. The two may be the
    same log, which is then cleaned in place."""

    def __init__(
        self,
        logs: PartitionLogs,
        history: OwnedLog,
        target: OwnedLog,
        throttle: Throttle,
        identity: KeyIdentity,
        unpacked_max_bytes: int,
    ) -> None:
        self._logs = logs
        self._history = history
        self._target = target
        self._throttle = throttle
        self._identity = identity
        self._unpacked_max_bytes = unpacked_max_bytes

    async def run(self, end: int, least: int, rules: Rules) -> Cleaned | None:
        """Clean up to `end`, or less far if there are too many keys or open transactions. Returns
        None, and cleans nothing, if that is fewer than `least` offsets. Raises LogError,
        CorruptBatch."""
        start = self._target.clean_offset
        survey, reached = await self._survey(start, end)
        stable = survey.stable_end(reached)
        if stable - start < max(least, 1):
            return None
        if stable < reached:
            # Keys and producers beyond `stable` are not cleaned now and must not count.
            survey, _ = await self._survey(start, stable)
        compaction = Compaction(survey, rules)
        if self._target is self._history:
            await self._fold(compaction, self._target, self._target.start_offset, stable)
        else:
            await self._fold(compaction, self._target, self._target.start_offset, start)
            await self._fold(compaction, self._history, start, stable)
        return Cleaned(compaction.records_read, compaction.records_kept)

    async def _survey(self, start: int, end: int) -> tuple[Survey, int]:
        """Returns the survey of the range, and the offset that it has reached."""
        survey, reached = Survey(self._identity), start
        async for row in self._rows(self._history.name, start, end):
            for batch in iter_batches(row.payload):
                await self._throttle.run(survey.add(batch, await self._unpacked(batch)))
            reached = row.last_offset + 1
            if survey.size >= KEYS_BYTES_MAX:
                break
        return survey, reached

    async def _fold(self, compaction: Compaction, source: OwnedLog, start: int, end: int) -> None:
        """Write what is left of the rows of `source` in the range to the target."""
        dirty = self._target.clean_offset
        swap = Swap(start)
        async for row in self._rows(source.name, start, end):
            parts, max_timestamp_ms = [], -1
            for batch in iter_batches(row.payload):
                left = await self._throttle.run(
                    compaction.clean(batch, await self._unpacked(batch))
                )
                if left is not None:
                    parts.append(left)
                    max_timestamp_ms = max(max_timestamp_ms, parse_header(left).max_timestamp_ms)
            left_bytes = b"".join(parts)
            changed = row.base_offset >= dirty or left_bytes != row.payload
            if swap.fits_as_it_is(row, changed):
                swap = Swap(row.last_offset + 1)
                continue
            swap.add(row, left_bytes, max_timestamp_ms, changed)
            if swap.full:
                swap = await self._write(swap)
        await self._write(swap)

    async def _unpacked(self, batch: Batch) -> Plain:
        """Returns the records of a batch, uncompressed. Raises CorruptBatch, also if they are too
        large."""
        try:
            return await unpacked(batch.header, batch.payload, self._unpacked_max_bytes)
        except UnpacksTooLarge as error:
            raise CorruptBatch(
                f"the batch at offset {batch.header.base_offset} has {error}"
            ) from error

    async def _write(self, swap: Swap) -> Swap:
        """Write what the swap has collected, if that changes anything. Returns the next swap."""
        target = self._target
        if swap.useful:
            clean_offset = max(target.clean_offset, swap.end)
            await self._logs.replace(
                Replacement(
                    target.name,
                    target.owner_epoch,
                    swap.first,
                    swap.end,
                    (swap.row(),),
                    clean_offset,
                )
            )
            target.clean_offset = clean_offset
            await self._throttle.turn()
        return Swap(swap.end)

    async def _rows(self, name: str, start: int, end: int) -> AsyncIterator[StoredBatch]:
        """Yields whole rows of the range. Raises LogCorrupt if `end` lies within a row or if rows
        are missing."""
        while start < end:
            rows = await self._logs.read(name, start, READ_BYTES)
            await self._throttle.turn()
            if not rows:
                raise LogCorrupt(f"{name}: nothing at offset {start}")
            for row in rows:
                if row.base_offset >= end:
                    return
                if row.last_offset >= end:
                    raise LogCorrupt(f"{name}: a row goes from {row.base_offset} beyond {end}")
                yield row
                start = row.last_offset + 1
