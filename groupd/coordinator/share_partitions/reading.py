"""What a ShareFetch reads of a log: whole record batches, as many as its member may acquire, and
which of them belong to aborted transactions (docs/spec/share-group.md#4.3)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import itemgetter

from msgspec import Struct

from groupd.coordinator.core.slices import Pace
from groupd.coordinator.share_partitions.acquisition import LogBatch
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.coordinator.topics.fetch_reading import read_log
from groupd.coordinator.topics.partition import PartitionLog
from groupd.protocol.messages.share_fetch import AcquiredRecords
from groupd.protocol.records.batch import BatchHeader, CorruptBatch, parse_header
from groupd.storage.log import LogCorrupt

LEAST_READ_BYTES = 1 << 14
"""At least so much of a log is read at once."""
READ_AHEAD = 12
"""What so many members will probably acquire is read at once, at most half of `KEPT_BYTES_MAX`."""

KEPT_BYTES_MAX = 2 << 20
KEPT_TOTAL_BYTES_MAX = 64 << 20
"""So much is kept at most of one share-partition, and of all together."""
BATCH_BYTES = 200
"""What is kept of a record batch takes so many bytes beside its records."""


class ReadBatches(Struct, frozen=True):
    """Whole record batches. `starts`: where each batch begins in `records`, which may have others
    around them, and where the last one ends. `aborted`: the batches among them that have records of
    aborted transactions, for readers of `isolation_level`."""

    records: bytes
    batches: Sequence[LogBatch]
    starts: Sequence[int]
    aborted: Sequence[LogBatch]
    isolation_level: int

    def around(self, acquired: Sequence[AcquiredRecords]) -> bytes:
        """The batches in which the first to the last of the acquired records lie."""
        begin = bisect_left(self.batches, acquired[0].first_offset, key=itemgetter(1))
        end = bisect_right(self.batches, acquired[-1].last_offset, key=itemgetter(0))
        return self.records[self.starts[begin] : self.starts[end]]

    def between(
        self, offset: int, last_offset: int, max_bytes: int, *, whole_first: bool
    ) -> ReadBatches:
        """The batches from the first one that ends at `offset` or behind it, which may lie behind
        offsets that the log does not have any more, to the first one that ends at `last_offset` or
        behind it. As many as fit into `max_bytes`; with `whole_first` at least one."""
        begin = bisect_left(self.batches, offset, key=itemgetter(1))
        end = bisect_left(self.batches, last_offset, lo=begin, key=itemgetter(1)) + 1
        fitting = bisect_right(self.starts, self.starts[begin] + max(0, max_bytes)) - 1
        end = min(len(self.batches), end, max(fitting, begin + whole_first))
        if (begin, end) == (0, len(self.batches)):
            return self
        batches = self.batches[begin:end]
        return ReadBatches(
            self.records,
            batches,
            self.starts[begin : end + 1],
            [one for one in self.aborted if batches and batches[0] <= one <= batches[-1]],
            self.isolation_level,
        )


class KeptBatches:
    """What was read last for each share-partition, as long as it is open, and there is more in it
    than was asked for. Members who acquire a few records at a time get the others of a batch from
    here, and need no SQL. What was not used for longest is dropped first. What is larger than
    `KEPT_BYTES_MAX` is not kept: whoever acquires a few records of such a batch reads all of it."""

    def __init__(self) -> None:
        self._kept: OrderedDict[SharePartition, ReadBatches] = OrderedDict()
        self.size = 0

    async def read(
        self,
        share: SharePartition,
        offset: int,
        last_offset: int,
        max_bytes: int,
        isolation_level: int,
        pace: Pace,
        *,
        expected_bytes: int,
        whole_first: bool,
    ) -> ReadBatches:
        """As `read_batches`, for `share`."""
        log, read = share.partition, self._kept.get(share)
        if (
            read is not None
            and read.isolation_level == isolation_level
            and max(read.batches[0][0], log.start_offset) <= offset
            and last_offset <= read.batches[-1][1]
        ):
            self._kept.move_to_end(share)
        else:
            read = await read_batches(
                log,
                offset,
                last_offset,
                max_bytes,
                isolation_level,
                pace,
                expected_bytes=expected_bytes,
                whole_first=whole_first,
            )
            if not share.closed:  # else nobody drops it
                self._keep(share, read)
        if read.batches and read.batches[-1][1] < last_offset:
            self.drop(share)  # nothing is left for others
        return read.between(offset, last_offset, max_bytes, whole_first=whole_first)

    def _keep(self, share: SharePartition, read: ReadBatches) -> None:
        self.drop(share)
        size = _size(read)
        if not read.batches or size > KEPT_BYTES_MAX:
            return
        self._kept[share] = read
        self.size += size
        while self.size > KEPT_TOTAL_BYTES_MAX:
            self.drop(next(iter(self._kept)))

    def drop(self, share: SharePartition) -> None:
        read = self._kept.pop(share, None)
        if read is not None:
            self.size -= _size(read)


def _size(read: ReadBatches) -> int:
    return len(read.records) + BATCH_BYTES * len(read.batches)


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
    """Read from `offset` on, until the batch with `last_offset` has come; what was read behind it
    is returned too. At most `max_bytes`, but with `whole_first` at least one batch.
    `expected_bytes`: how many bytes that will probably be; `max_bytes` is often much more than the
    records that a member may acquire. Raises as `read_log`."""
    parts: list[bytes] = []
    batches: list[LogBatch] = []
    starts: list[int] = []
    aborted: list[LogBatch] = []
    ahead = min(READ_AHEAD * expected_bytes, KEPT_BYTES_MAX // 2)
    size, limit = 0, max(ahead, expected_bytes, LEAST_READ_BYTES)
    while offset <= last_offset and (size < max_bytes or (whole_first and not parts)):
        left = max(0, max_bytes - size)
        must = whole_first and not parts
        part = await read_log(
            log, offset, min(limit, left), isolation_level, whole_first=must, may_cut=False
        )
        if part.next_offset == offset:
            if not part.cut or limit >= left:
                break
            limit *= 4  # the next batch is larger than that
            continue
        begin = size
        aborting = _Aborting(part.aborted or ())
        while offset < part.next_offset:
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
    records = parts[0] if len(parts) == 1 else b"".join(parts)
    return ReadBatches(records, batches, [*starts, size], aborted, isolation_level)


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
