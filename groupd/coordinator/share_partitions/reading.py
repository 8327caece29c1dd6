"""What a ShareFetch reads of a log: whole record batches, as many as its member may acquire, and
which of them belong to aborted transactions (docs/spec/share-group.md#4.3)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

from msgspec import Struct

from groupd.coordinator.core.slices import Pace
from groupd.coordinator.share_partitions.acquisition import LogBatch
from groupd.coordinator.topics.fetch_reading import read_log
from groupd.coordinator.topics.partition import PartitionLog
from groupd.protocol.messages.share_fetch import AcquiredRecords
from groupd.protocol.records.batch import BatchHeader, CorruptBatch, parse_header
from groupd.storage.log import LogCorrupt

LEAST_READ_BYTES = 1 << 12
"""At least so much of a log is read at once."""


class ReadBatches(Struct, frozen=True):
    """Whole record batches. `starts`: where each batch begins in `records`. `aborted`: the batches
    among them that have records of aborted transactions."""

    records: bytes
    batches: Sequence[LogBatch]
    starts: Sequence[int]
    aborted: Sequence[LogBatch]

    def around(self, acquired: Sequence[AcquiredRecords]) -> bytes:
        """The batches in which the first to the last of the acquired records lie."""
        begin = bisect_left(self.batches, acquired[0].first_offset, key=itemgetter(1))
        end = bisect_right(self.batches, acquired[-1].last_offset, key=itemgetter(0))
        if (begin, end) == (0, len(self.batches)):
            return self.records
        ends = [*self.starts, len(self.records)]
        return self.records[ends[begin] : ends[end]]


async def read_batches(
    log: PartitionLog,
    offset: int,
    last_offset: int,
    max_bytes: int,
    isolation_level: int,
    pace: Pace,
    *,
    expected_bytes: int = LEAST_READ_BYTES,
    whole_first: bool,
) -> ReadBatches:
    """Read from `offset` on, until the batch with `last_offset` has come. At most `max_bytes`, but
    with `whole_first` at least one batch. `expected_bytes`: how many bytes that will probably be;
    `max_bytes` is often much more than the records that a member may acquire. Raises as
    `read_log`."""
    parts: list[bytes] = []
    batches: list[LogBatch] = []
    starts: list[int] = []
    aborted: list[LogBatch] = []
    size, limit = 0, max(expected_bytes, LEAST_READ_BYTES)
    while offset <= last_offset and (size < max_bytes or (whole_first and not parts)):
        left = max(0, max_bytes - size)
        must = whole_first and not parts
        part = await read_log(log, offset, min(limit, left), isolation_level, whole_first=must)
        if part.next_offset == offset:
            if not part.cut or limit >= left:
                break
            limit *= 4  # the next batch is larger than that
            continue
        begin = size
        aborting = _Aborting(part.aborted or ())
        while offset < part.next_offset and offset <= last_offset:
            if pace.due():
                await pace.turn()
            try:
                header = parse_header(part.records, size - begin)
            except CorruptBatch as error:
                raise LogCorrupt(f"{log.name} at offset {offset}: {error}") from error
            batch = header.base_offset, header.last_offset
            batches.append(batch)
            starts.append(size)
            if aborting.covers(header):
                aborted.append(batch)
            size += header.size
            offset = header.next_offset
        parts.append(part.records[: size - begin])
        limit *= 4
    return ReadBatches(parts[0] if len(parts) == 1 else b"".join(parts), batches, starts, aborted)


class _Aborting:
    """Walks along record batches and tells which ones belong to aborted transactions.
    `transactions`: (producer id, first offset) of each."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._coming = sorted(transactions, key=itemgetter(1), reverse=True)
        self._open: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        while self._coming and self._coming[-1][1] <= header.last_offset:
            self._open.add(self._coming.pop()[0])
        if header.producer_id not in self._open or not header.is_transactional:
            return False
        if header.is_control:
            self._open.discard(header.producer_id)
            return False
        return True
