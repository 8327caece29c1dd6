"""How records are acquired: how many, where they are divided, and what is delivered alone
(docs/spec/share-group.md#4.4)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import attrgetter, itemgetter

from msgspec import Struct

from groupd.coordinator.share_partitions.locks import RecordLock
from groupd.coordinator.share_partitions.runs import ACQUIRED, OffsetRun, OffsetRuns
from groupd.protocol.messages.share_fetch import RECORD_LIMIT, AcquiredRecords
from groupd.protocol.messages.share_state import AVAILABLE

LogBatch = tuple[int, int]
"""First and last offset of a record batch of the log."""


class Acquisition(Struct, frozen=True):
    """What a member asks of one share-partition. `max_records`: what is left of the request's
    budget; `acquire_mode`: BATCH_OPTIMIZED or RECORD_LIMIT (KIP-1206). `max_record_locks`,
    `delivery_count_limit`: settings of the group. `lock_until_ms`: when the locks end."""

    member_id: str
    max_records: int
    batch_size: int
    acquire_mode: int
    max_record_locks: int
    delivery_count_limit: int
    lock_until_ms: int


class Taking:
    """One acquisition, from `first` on, while it goes on. `left`: how many records may be added to
    `acquired`. `lock`: the lock on them."""

    __slots__ = ("_asked", "_found", "_runs", "acquired", "left", "lock")

    def __init__(
        self, asked: Acquisition, found: Sequence[LogBatch], runs: OffsetRuns, left: int, first: int
    ) -> None:
        self._asked = asked
        self._found = found
        self._runs = runs
        self.lock = RecordLock(asked.member_id, asked.lock_until_ms, first)
        self.left = left
        self.acquired: list[AcquiredRecords] = []

    def take(self, first: int, last: int, gap: int | None) -> None:
        """Acquire from `first` to `last`: batches in flight, the holes between them from `gap` on,
        and what is behind. `gap` None: no holes, they have no records."""
        new = first
        for _, runs in groupby(self._runs.between(first, last), attrgetter("batch_first")):
            batch = list(runs)
            if gap is not None and max(new, gap) < batch[0].first:
                self._take_new(max(new, gap), batch[0].first - 1)
                if self.left <= 0:
                    return
            if not self._take_batch(batch, first, last) or self.left <= 0:
                return
            new = batch[-1].last + 1
        if new <= last:
            self._take_new(new, last)

    def _take_new(self, first: int, last: int) -> None:
        """Acquire offsets that are not in flight: whole batches of the log, up to the one that
        reaches the limit. RECORD_LIMIT acquires no more than the limit, and leaves the rest of the
        batch AVAILABLE."""
        limit = first + self.left - 1
        if limit < last:
            last = min(last, self._end_of_log_batch(limit))
        if self._asked.acquire_mode == RECORD_LIMIT:
            self._add_new(first, min(limit, last), last)
            return
        size = max(1, self._asked.batch_size)
        begin = bisect_left(self._found, first, key=itemgetter(0))
        for base, _ in islice(self._found, begin, None):
            if base > last:
                break
            if base - first >= size:
                before = base - 1
                self._add_new(first, before, before)
                first = base
        self._add_new(first, last, last)

    def _end_of_log_batch(self, offset: int) -> int:
        index = bisect_left(self._found, offset, key=itemgetter(1))
        if index < len(self._found) and self._found[index][0] <= offset:
            return self._found[index][1]
        return offset

    def _add_new(self, first: int, last: int, batch_last: int) -> None:
        # If equal offsets are one object, a run takes up to 64 bytes less.
        last = first if last == first else last
        batch_last = last if batch_last == last else batch_last
        self._runs.add(OffsetRun(first, last, first, batch_last, ACQUIRED, 1, None, self.lock))
        if last < batch_last:
            self._runs.add(OffsetRun(last + 1, batch_last, first, batch_last, AVAILABLE, 0))
        self.acquired.append(AcquiredRecords(first, last, 1))
        self.left -= last - first + 1
        self.lock.held += last - first + 1

    def _take_batch(self, batch: Sequence[OffsetRun], first: int, last: int) -> bool:
        """Acquire what is AVAILABLE from `first` to `last` of a batch that is in flight. Returns
        whether this acquisition may go on behind it.

        Records that were delivered often may be bad. So that they do not use up the deliveries of
        others, they are acquired alone: from half of the delivery limit on the fewer of a batch at
        a time the more often they were delivered, and one by one before their last delivery."""
        available = [run for run in batch if run.available]
        if not available:
            return True
        limit = self._asked.delivery_count_limit
        often = max(2, (limit + 1) // 2)
        throttled = max(map(attrgetter("delivery_count"), available)) >= often
        if throttled and self.acquired:
            return False
        most = self.left if self._asked.acquire_mode == RECORD_LIMIT else last - first + 1
        capped = False
        got = 0
        for run in available:
            count = run.delivery_count
            if limit > 2 and count == limit - 1:
                if got:
                    break
                most = 1
            elif count >= often and not capped:
                capped = True
                size = run.batch_last - run.batch_first + 1
                most = min(most, max(1, size >> (count - often + 1)))
            if got >= most:
                break
            run_first = max(first, run.first)
            run_last = min(last, run.last, run_first + most - got - 1)
            self._take_again(run, run_first, run_last, got > 0)
            got += run_last - run_first + 1
        return not throttled

    def _take_again(self, run: OffsetRun, first: int, last: int, same_batch: bool) -> None:
        if run.first < first or run.last > last:
            self._runs.cut((first, last + 1))
            (run,) = self._runs.between(first, last)
        run.state = ACQUIRED
        run.delivery_count = count = run.delivery_count + 1
        run.lock = self.lock
        self.left -= last - first + 1
        self.lock.held += last - first + 1
        if same_batch:
            before = self.acquired[-1]
            if before.last_offset + 1 == first and before.delivery_count == count:
                self.acquired[-1] = AcquiredRecords(before.first_offset, last, count)
                return
        self.acquired.append(AcquiredRecords(first, last, count))


def without(
    acquired: Sequence[AcquiredRecords], ranges: Iterable[LogBatch]
) -> list[AcquiredRecords]:
    """What is left of the acquired records without these ranges; both are in order, and neither
    overlaps itself."""
    left: list[AcquiredRecords] = []
    coming = iter(ranges)
    gone = next(coming, None)
    for one in acquired:
        first = one.first_offset
        while gone is not None and gone[0] <= one.last_offset:
            if first < gone[0]:
                left.append(AcquiredRecords(first, gone[0] - 1, one.delivery_count))
            first = max(first, gone[1] + 1)
            if gone[1] > one.last_offset:
                break  # the next one may be in this range, too
            gone = next(coming, None)
        if first <= one.last_offset:
            left.append(AcquiredRecords(first, one.last_offset, one.delivery_count))
    return left
