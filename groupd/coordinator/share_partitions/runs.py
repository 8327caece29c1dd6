"""The offsets in flight of one share-partition: a sorted list of runs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from operator import attrgetter

from msgspec import Struct

from groupd.coordinator.share_partitions.locks import RecordLock
from groupd.protocol.messages.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    ShareStateBatch,
)

ACQUIRED = 1
"""The state of a record that a member holds. It is never stored; the other states are numbered as
in the durable state (docs/spec/share-group.md#4.5)."""
STATE_NAMES = {
    AVAILABLE: "available",
    ACQUIRED: "acquired",
    ACKNOWLEDGED: "acknowledged",
    ARCHIVING: "archiving",
    ARCHIVED: "archived",
}

COMPLETE = frozenset({ACKNOWLEDGED, ARCHIVED})
"""The states of records that will not be delivered any more."""

_FIRST, _LAST = attrgetter("first"), attrgetter("last")


class DeliveryEnd(Enum):
    """How the delivery of a record ended. ACCEPTED leads to ACKNOWLEDGED, the others to
    ARCHIVED."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    LIMIT = "delivery limit"
    GAP = "gap"
    """There is no record with this offset, or none for the consumer."""
    LOG_START = "log start"
    ABORTED = "aborted"


class OffsetRun(Struct, eq=False, gc=False):
    """Neighbouring offsets that share all of this. `batch_first`, `batch_last`: the batch which
    they were acquired with first, or stored with; a batch is divided into runs only where its
    offsets differ. `end`: None if the state is not an end, or was loaded. `write`: the number
    of the write that is to make `state` durable, 0 if there is none. `lock`: kept until then."""

    first: int
    last: int
    batch_first: int
    batch_last: int
    state: int
    delivery_count: int
    end: DeliveryEnd | None = None
    lock: RecordLock | None = None
    write: int = 0

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def available(self) -> bool:
        return self.state == AVAILABLE and not self.write

    def continued_by(self, other: OffsetRun) -> bool:
        """Whether `other` follows without a hole, in the same batch, and is equal."""
        return (
            self.last + 1 == other.first
            and self.batch_first == other.batch_first
            and self.state == other.state
            and self.delivery_count == other.delivery_count
            and self.lock is other.lock
            and self.write == other.write
            and self.end is other.end
        )


class OffsetRuns(list[OffsetRun]):
    """Runs in the order of their offsets; they do not overlap. Offsets between them are holes. A
    look-up takes logarithmic time; a change also moves what is behind it in memory."""

    __slots__ = ()

    def starting_at(self, offset: int) -> Iterator[OffsetRun]:
        """The runs that have an offset at or after this one."""
        for index in range(bisect_left(self, offset, key=_LAST), len(self)):
            yield self[index]

    def first_available(self, offset: int) -> OffsetRun | None:
        """The first run that is available, of those that have an offset at or after this one."""
        for index in range(bisect_left(self, offset, key=_LAST), len(self)):
            if self[index].available:
                return self[index]
        return None

    def between(self, first: int, last: int) -> list[OffsetRun]:
        """The runs that have an offset from `first` to `last`."""
        begin = bisect_left(self, first, key=_LAST)
        if begin < len(self) and self[begin].last == last:
            return self[begin : begin + 1]
        return self[begin : bisect_right(self, last, lo=begin, key=_FIRST)]

    def exactly(self, first: int, last: int, *bounds: int) -> list[OffsetRun]:
        """As `between`, after the runs at both ends were cut, so that no offset is outside, and at
        the bounds between them."""
        found = self.between(first, last)
        if found and (bounds or found[0].first < first or found[-1].last > last):
            self.cut((first, *bounds, last + 1))
            found = self.between(first, last)
        return found

    def cut(self, bounds: Sequence[int]) -> None:
        """Divide the runs so that none begins before and ends at or after one of these offsets,
        which are sorted."""
        begin = bisect_left(self, bounds[0], key=_LAST)
        end = bisect_right(self, bounds[-1], lo=begin, key=_FIRST)
        pieces: list[OffsetRun] = []
        offsets = iter(bounds)
        bound = next(offsets, None)
        for run in self[begin:end]:
            while bound is not None and bound <= run.last:
                if bound > run.first:
                    # Many runs have one offset; as one object it takes 32 bytes less.
                    last = run.first if bound == run.first + 1 else bound - 1
                    pieces.append(
                        OffsetRun(
                            run.first,
                            last,
                            run.batch_first,
                            run.batch_last,
                            run.state,
                            run.delivery_count,
                            run.end,
                            run.lock,
                            run.write,
                        )
                    )
                    run.first = bound
                bound = next(offsets, None)
            pieces.append(run)
        if len(pieces) > end - begin:
            self[begin:end] = pieces

    def join(self, first: int, last: int) -> None:
        """Make one run of equal neighbours from `first` to `last`, and of those beside them."""
        begin = max(0, bisect_left(self, first, key=_LAST) - 1)
        end = bisect_right(self, last, lo=begin, key=_FIRST) + 1
        joined: list[OffsetRun] = []
        for run in self[begin:end]:
            if joined and joined[-1].continued_by(run):
                joined[-1].last = run.last
            else:
                joined.append(run)
        if len(joined) < len(self[begin:end]):
            self[begin:end] = joined

    def add(self, run: OffsetRun) -> None:
        """Its offsets are in no other run."""
        self.insert(bisect_left(self, run.first, key=_LAST), run)


def stored_batches(runs: Sequence[OffsetRun]) -> tuple[ShareStateBatch, ...]:
    """The durable form of these runs, which are in order: neighbours with the same state and count
    are one batch."""
    batches: list[ShareStateBatch] = []
    first = last = state = count = -1
    for run in runs:
        if run.first == last + 1 and run.state == state and run.delivery_count == count:
            last = run.last
            continue
        if first >= 0:
            batches.append(ShareStateBatch(first, last, state, count))
        first, last, state, count = run.first, run.last, run.state, run.delivery_count
    if first >= 0:
        batches.append(ShareStateBatch(first, last, state, count))
    return tuple(batches)


def joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges, which are in order, with neighbours made one."""
    found: list[tuple[int, int]] = []
    for first, last in ranges:
        if found and found[-1][1] + 1 == first:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found


class InvalidShareState(ValueError):
    """Stored batches that no leader can have written: one below the start offset, or reversed, or
    with an offset of the batch before it, or with an unknown state."""


def stored_runs(
    stored: Iterable[ShareStateBatch], start_offset: int, *, dead_letters: bool
) -> Iterator[OffsetRun]:
    """The runs that stored batches stand for (docs/spec/share-group.md#4.2). Without a dead-letter
    queue ARCHIVING counts as ARCHIVED. Raises InvalidShareState."""
    least = start_offset
    for batch in stored:
        first, last, state = batch.first_offset, batch.last_offset, batch.delivery_state
        if not least <= first <= last:
            raise InvalidShareState(
                f"The stored batch {first} to {last} is not a range from {least} on."
            )
        if state not in (AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED):
            raise InvalidShareState(
                f"The stored batch {first} to {last} has the unknown state {state}."
            )
        least = last + 1
        if state == ARCHIVING and not dead_letters:
            state = ARCHIVED
        yield OffsetRun(first, last, first, last, state, batch.delivery_count)
