"""The state of one share-partition at its leader: which records are in flight, who holds them, and
what is over (docs/spec/share-group.md#4).

This is pure code: it reads no log and no clock, and writes nothing. What must become durable is
returned as a `PendingWrite`, and the caller says how the write ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter

from groupd.coordinator.share_partitions.acknowledgements import check_held, spans_of_types
from groupd.coordinator.share_partitions.acquisition import Acquisition, LogBatch, Taking
from groupd.coordinator.share_partitions.in_flight_types import (
    DeadLetters,
    FinishedRecords,
    InFlightRange,
    PendingWrite,
)
from groupd.coordinator.share_partitions.locks import RecordLock, RecordLocks
from groupd.coordinator.share_partitions.runs import (
    ACQUIRED,
    COMPLETE,
    DeliveryEnd,
    OffsetRun,
    OffsetRuns,
    joined,
    stored_batches,
    stored_runs,
)
from groupd.protocol.messages.share_fetch import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
    AcquiredRecords,
)
from groupd.protocol.messages.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    ShareStateBatch,
)


class InFlightRecords:
    """The records of one share-partition from its start offset on.

    `start_offset`: all before it is over. `next_offset`: where to read next; it is below the end if
    there are records to deliver again, or offsets between the stored batches that were not read
    since the load. `delivery_complete_count`: how many records from the start offset on are over,
    or will be with the pending writes. `position` changes whenever there may be more to acquire.
    """

    __slots__ = (
        "_available_from",
        "_dead_letters",
        "_finished",
        "_gap",
        "_gap_end",
        "_locks",
        "_runs",
        "_writes",
        "delivery_complete_count",
        "next_offset",
        "position",
        "start_offset",
    )

    def __init__(
        self,
        start_offset: int,
        stored: Sequence[ShareStateBatch],
        delivery_count_limit: int,
        *,
        dead_letters: bool,
    ) -> None:
        """Loads a stored state (docs/spec/share-group.md#4.2). `start_offset` must not be -1.
        `dead_letters`: the group has a dead-letter queue; without one a stored ARCHIVING counts as
        ARCHIVED. Raises InvalidShareState."""
        self.start_offset = start_offset
        self.next_offset = start_offset
        self.delivery_complete_count = 0
        self.position = 0
        self._runs = OffsetRuns()
        self._locks = RecordLocks()
        self._writes = 0
        self._available_from = start_offset
        """There is nothing AVAILABLE before this offset."""
        self._gap: int | None = start_offset
        """The first offset of the gap window: the next hole that no read has passed since the load.
        None: the holes that there are have no records."""
        self._gap_end = -1
        """The last stored offset, at which the gap window ends."""
        self._finished: list[FinishedRecords] = []
        self._dead_letters: list[DeadLetters] = []
        self._load(stored, delivery_count_limit, dead_letters)
        self._settle()

    def _load(self, stored: Sequence[ShareStateBatch], limit: int, dead_letters: bool) -> None:
        for run in stored_runs(stored, self.start_offset, dead_letters=dead_letters):
            self._runs.add(run)
            if run.state in COMPLETE:
                self.delivery_complete_count += len(run)
            elif run.state == ARCHIVING:
                run.end = DeliveryEnd.LIMIT if run.delivery_count >= limit else DeliveryEnd.REJECTED
                letters = DeadLetters(run.first, run.last, run.delivery_count, run.end)
                self._dead_letters.append(letters)
            self._gap_end = run.last

    # What there is ----------------------------------------------------------------------------

    @property
    def end_offset(self) -> int:
        """The last offset in flight; the start offset if there is none."""
        return self._runs[-1].last if self._runs else self.start_offset

    @property
    def in_flight(self) -> int:
        """How many offsets are in flight, with holes, and with records that are over behind one
        that is not."""
        return self._runs[-1].last - self.start_offset + 1 if self._runs else 0

    @property
    def next_lock_ms(self) -> int | None:
        """When `expire` has something to do; None if there are no locks."""
        return self._locks.next_ms()

    def may_acquire(self, max_record_locks: int) -> bool:
        """Whether a read from `next_offset` may give something to a member."""
        within = bool(self._runs) and self.next_offset <= self._runs[-1].last
        return within or self.in_flight < max_record_locks

    def to_read(self, max_records: int, max_record_locks: int) -> tuple[int, int]:
        """The offset to read from, and the last one that is needed to acquire `max_records`."""
        first, run = self.next_offset, self._runs.first_available(self.next_offset)
        if run is not None and run.first == first and run.last - first + 1 >= max_records:
            return first, run.batch_last
        # Records that others hold may lie between those that can be acquired.
        known = max(first - 1, self.end_offset if self._runs else -1)
        return first, known + min(max_records, max(0, max_record_locks - self.in_flight))

    def ranges(self) -> Iterator[InFlightRange]:
        for run in self._runs:
            lock = run.lock
            yield InFlightRange(
                run.first,
                run.last,
                run.state,
                run.delivery_count,
                lock.member_id if lock is not None else None,
                lock.until_ms if lock is not None else None,
                run.write != 0,
                run.end,
            )

    # Acquiring --------------------------------------------------------------------------------

    def acquire(
        self, asked: Acquisition, read_from: int, found: Sequence[LogBatch]
    ) -> list[AcquiredRecords]:
        """Acquire records of what a read has found (docs/spec/share-group.md#4.4). `read_from`: the
        `next_offset` that the read began at, which may be another one by now. `found`: the batches
        of the log that the read returned, from the first which ends at or after `read_from`, in
        order and without those beyond the high watermark or the last stable offset."""
        if not found or asked.max_records <= 0 or found[-1][1] < self.start_offset:
            return []
        if read_from < found[0][0]:
            # What is in between is not in the log any more.
            if self._gap is not None:
                self._gap = max(self._gap, found[0][0])
            self._archive(read_from, found[0][0] - 1, (AVAILABLE,), DeliveryEnd.GAP)
        # Nothing before the next offset can be acquired.
        first, last = max(found[0][0], self.next_offset), found[-1][1]
        left = min(asked.max_records, asked.max_record_locks - self.in_flight)
        if left <= 0:
            # Nothing new may be acquired, but what is in flight already may.
            last = min(last, self.end_offset)
            left = min(asked.max_records, last - first + 1)
        if left <= 0:
            return []
        taking = Taking(asked, found, self._runs, left, first)
        taking.take(first, last, self._gap)
        if taking.acquired:
            self._locks.add(taking.lock)
            # What was left behind, such as the rest of a batch, may be acquired by others.
            left_from = taking.acquired[0].first_offset
            self._available_from = min(self._available_from, left_from)
            self.position += 1
        self._settle()
        return taking.acquired

    # Acknowledging ----------------------------------------------------------------------------

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        delivery_count_limit: int,
        *,
        renew_until_ms: int | None,
        dead_letters: bool,
    ) -> PendingWrite:
        """Acknowledge records (docs/spec/share-group.md#4.6), `batches` having passed
        `check_batches`. The records can be acknowledged no more, and are not delivered to anybody,
        until `confirm` or `undo`. `renew_until_ms`: when locks end that are renewed, which needs no
        write; None if the group does not allow it. `dead_letters`: the group has a dead-letter
        queue.

        Raises ApiError INVALID_RECORD_STATE if a record is not acquired by this member, or waits
        for a write; INVALID_REQUEST if an offset is beyond what is in flight. Then nothing has
        changed."""
        asked = check_held(
            self._runs, self.start_offset, member_id, batches, renew_until_ms is not None
        )
        changed: list[OffsetRun] = []
        ranges: list[LogBatch] = []
        renewed: list[LogBatch] = []
        for batch in asked:
            first = max(batch.first_offset, self.start_offset)
            kinds, ends = spans_of_types(batch, first)
            ranges.append((first, batch.last_offset))
            runs = iter(self._runs.exactly(first, batch.last_offset, *ends[:-1]))
            run = next(runs, None)
            for kind, end in zip(kinds, ends, strict=True):
                if kind == RENEW:
                    renewed.append((first, end - 1))
                while run is not None and run.last < end:
                    if kind == ACCEPT:
                        self._change(run, ACKNOWLEDGED, DeliveryEnd.ACCEPTED)
                    elif kind == GAP:
                        self._change(run, ARCHIVED, DeliveryEnd.GAP)
                    elif kind == REJECT:
                        state = ARCHIVING if dead_letters else ARCHIVED
                        self._change(run, state, DeliveryEnd.REJECTED)
                    elif kind == RELEASE:
                        self._let_go(run, delivery_count_limit, dead_letters)
                    if kind != RENEW:
                        changed.append(run)
                    run = next(runs, None)
                first = end
        if renewed and renew_until_ms is not None:
            self._renew(member_id, renewed, renew_until_ms)
        return self._write(changed, ranges)

    def _renew(self, member_id: str, ranges: Sequence[LogBatch], until_ms: int) -> None:
        lock = RecordLock(member_id, until_ms, ranges[0][0])
        for first, last in ranges:
            for run in self._runs.between(first, last):
                # An offset may end one batch of the request and begin the next.
                if run.state == ACQUIRED and run.lock is not None and run.lock is not lock:
                    self._locks.let_go(run.lock, len(run))
                    run.lock = lock
                    lock.held += len(run)
        if lock.held:
            self._locks.add(lock)

    # The end of locks -------------------------------------------------------------------------

    def release(
        self, member_id: str, delivery_count_limit: int, *, dead_letters: bool
    ) -> PendingWrite:
        """Release all that the member holds, as if it had acknowledged it with RELEASE."""
        changed = [run for lock in self._locks.of_member(member_id) for run in self._held(lock)]
        changed.sort(key=attrgetter("first"))
        for run in changed:
            self._let_go(run, delivery_count_limit, dead_letters)
        return self._write(changed, joined((run.first, run.last) for run in changed))

    def expire(self, now_ms: int, delivery_count_limit: int, *, dead_letters: bool) -> PendingWrite:
        """Release what is held by locks that are over at `now_ms`. Others may acquire the records
        at once. Records that wait for a write are left to it."""
        changed: list[OffsetRun] = []
        for lock in self._locks.pop_over(now_ms):
            for run in self._held(lock):
                self._let_go(run, delivery_count_limit, dead_letters)
                self._unlock(run)
                changed.append(run)
        write = self._write_anyway(changed)
        self._arrived([run for run in changed if run.state == AVAILABLE])
        self._find_next()
        return write

    def _held(self, lock: RecordLock) -> Iterator[OffsetRun]:
        """The runs that a lock holds, without those that wait for a write."""
        left = lock.held
        for run in self._runs.starting_at(lock.first):
            if run.lock is lock:
                left -= len(run)
                if not run.write:
                    yield run
                if not left:
                    break

    # Writes -----------------------------------------------------------------------------------

    def confirm(self, *writes: PendingWrite) -> list[FinishedRecords]:
        """The writes are durable, or there was nothing to write. Returns what has been finished
        since the last call of `confirm` or `undo`."""
        for write in writes:
            ended: list[OffsetRun] = []
            for run in self._waiting(write):
                run.write = 0
                self._unlock(run)
                ended.append(run)
            self._arrived(ended)
            for first, last in write.ranges:
                self._runs.join(first, last)
        self._settle()
        finished, self._finished = self._finished, []
        return finished

    def undo(self, *writes: PendingWrite) -> list[FinishedRecords]:
        """The writes have failed. Records that were acknowledged or released are held as before; if
        their lock is over by now, `next_lock_ms` is in the past and `expire` releases them. What
        `expire`, `archive`, `log_start_moved` and `dead_lettered` have done stays. Returns as
        `confirm`."""
        failed = [write for write in writes if not write.stays]
        for run in chain.from_iterable(map(self._waiting, failed)):
            if run.state in COMPLETE:
                self.delivery_complete_count -= len(run)
            run.state = ACQUIRED
            run.end = None
            run.write = 0
            if run.lock is not None:
                self._locks.add_again(run.lock)
        return self.confirm(*[write for write in writes if write.stays])

    def complete_with(self, write: PendingWrite) -> int:
        """The `delivery_complete_count` without what later writes than this one are to complete."""
        if write.number == self._writes:
            return self.delivery_complete_count
        later = [run for run in self._runs if run.write > write.number and run.state in COMPLETE]
        return self.delivery_complete_count - sum(map(len, later))

    def _waiting(self, write: PendingWrite) -> Iterator[OffsetRun]:
        for first, last in write.ranges:
            for run in self._runs.between(first, last):
                if run.write == write.number:
                    yield run

    def _write(
        self, changed: list[OffsetRun], ranges: Sequence[LogBatch], *, stays: bool = False
    ) -> PendingWrite:
        """A write of the states of these runs, which wait for it. `ranges`: where they are."""
        self._writes += 1
        changed.sort(key=attrgetter("first"))
        for run in changed:
            run.write = self._writes
        return PendingWrite(stored_batches(changed), self._writes, ranges, stays)

    def _write_anyway(self, changed: list[OffsetRun]) -> PendingWrite:
        """As `_write`, but the states stay even if it fails. So those that are AVAILABLE need not
        wait; the others do, because the start offset moves after the write."""
        ranges = [(run.first, run.last) for run in changed if run.state != AVAILABLE]
        write = self._write(changed, ranges, stays=True)
        for run in changed:
            if run.state == AVAILABLE:
                run.write = 0
        return write

    # What ends without an acknowledgement -----------------------------------------------------

    def archive(self, ranges: Iterable[LogBatch]) -> PendingWrite:
        """Archive records of aborted transactions, which readers of committed records do not get.
        As in Kafka it is not written: a new leader finds out again. The caller takes the ranges out
        of what was acquired, with `without`."""
        for first, last in ranges:
            self._archive(first, last, (ACQUIRED, AVAILABLE), DeliveryEnd.ABORTED)
        return self._write([], ())

    def _archive(self, first: int, last: int, states: tuple[int, ...], end: DeliveryEnd) -> None:
        for run in self._runs.exactly(first, last):
            if run.state in states and not run.write:
                self._change(run, ARCHIVED, end)
                self._unlock(run)
                self._finish(run)
        self._settle()

    def log_start_moved(self, offset: int) -> PendingWrite:
        """The log begins at `offset` now. All before it is over, also what is held or waits for a
        write: acknowledging it is no error. It is not written: the next write tells the start
        offset."""
        if offset > self.start_offset:
            self._runs.cut((offset,))
            gone = self._runs.between(self.start_offset, offset - 1)
            for run in gone:
                if run.state in COMPLETE:
                    self.delivery_complete_count -= len(run)
                if run.state not in COMPLETE or run.write:
                    run.end = DeliveryEnd.LOG_START
                    self._finish(run)
                self._unlock(run)
            del self._runs[: len(gone)]
            self.start_offset = offset
            self.position += 1
            self._settle()
        return self._write([], ())

    # Dead letters -----------------------------------------------------------------------------

    def to_dead_letter(self) -> list[DeadLetters]:
        """The records that became ARCHIVING since the last call. `dead_lettered` ends that state,
        whether they could be copied or not."""
        found, self._dead_letters = self._dead_letters, []
        return found

    def dead_lettered(self, ranges: Iterable[LogBatch]) -> PendingWrite:
        """Archive records that were ARCHIVING. They stay ARCHIVED even if the write fails."""
        changed: list[OffsetRun] = []
        for first, last in ranges:
            for run in self._runs.exactly(first, last):
                if run.state == ARCHIVING and not run.write:
                    self._change(run, ARCHIVED, run.end)
                    changed.append(run)
        return self._write_anyway(changed)

    # Changes of runs --------------------------------------------------------------------------

    def _change(self, run: OffsetRun, state: int, end: DeliveryEnd | None) -> None:
        run.state = state
        run.end = end
        if state in COMPLETE:
            self.delivery_complete_count += len(run)

    def _let_go(self, run: OffsetRun, limit: int, dead_letters: bool) -> None:
        """Make the run AVAILABLE, unless it has had its last delivery."""
        if run.delivery_count < limit:
            self._change(run, AVAILABLE, None)
        else:
            self._change(run, ARCHIVING if dead_letters else ARCHIVED, DeliveryEnd.LIMIT)

    def _unlock(self, run: OffsetRun) -> None:
        if run.lock is not None:
            self._locks.let_go(run.lock, len(run))
            run.lock = None

    def _finish(self, run: OffsetRun) -> None:
        if run.end is not None:
            self._finished.append(FinishedRecords(run.first, run.last, run.delivery_count, run.end))

    def _arrived(self, runs: Sequence[OffsetRun]) -> None:
        """These runs have reached their states."""
        for run in runs:
            if run.state == AVAILABLE:
                self._available_from = min(self._available_from, run.first)
                self.position += 1
            elif run.state == ARCHIVING:
                if run.end is not None:
                    self._dead_letters.append(
                        DeadLetters(run.first, run.last, run.delivery_count, run.end)
                    )
            else:
                self._finish(run)

    def _settle(self) -> None:
        """Move the start offset over what is over, and find out where to read next."""
        runs = self._runs
        if self._gap is not None:
            self._gap = self._next_gap(max(self._gap, self.start_offset))
        gap = self._gap
        over = 0
        for run in runs:
            if run.state not in COMPLETE or run.write or (gap is not None and run.first > gap):
                break
            over += 1
            self.delivery_complete_count -= len(run)
        start = self.start_offset
        if over:
            start = runs[over - 1].last + 1
            del runs[:over]
        if runs:
            # Holes at the start have no records, except those of the gap window.
            start = max(start, runs[0].first if gap is None else min(runs[0].first, gap))
        else:
            self._gap = gap = None
        if start != self.start_offset:
            self.start_offset = start
            self.position += 1
        self._find_next()

    def _next_gap(self, offset: int) -> int | None:
        """The first offset of the gap window from `offset` on that is in no run. The window is over
        once records beyond the stored batches are in flight."""
        if not self._runs or self._runs[-1].last != self._gap_end:
            return None
        for run in self._runs.starting_at(offset):
            if run.first > offset:
                return offset
            offset = run.last + 1
        return None

    def _find_next(self) -> None:
        """The next offset to read: the first of the gap window, or the first that is AVAILABLE, or
        else the one behind the last in flight (docs/spec/share-group.md#4.3)."""
        run = self._runs.first_available(self._available_from)
        if run is not None:
            offset = run.first
        else:
            offset = self._runs[-1].last + 1 if self._runs else self.start_offset
        self._available_from = offset
        self.next_offset = offset if self._gap is None else min(offset, self._gap)
