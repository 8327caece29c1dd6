"""One share-partition in tests: short calls, and its state as text."""

from __future__ import annotations

from groupd.coordinator.share_partitions.acquisition import Acquisition, LogBatch
from groupd.coordinator.share_partitions.in_flight import InFlightRecords
from groupd.coordinator.share_partitions.in_flight_types import FinishedRecords, PendingWrite
from groupd.coordinator.share_partitions.runs import STATE_NAMES
from groupd.protocol.messages.share_fetch import BATCH_OPTIMIZED, AcknowledgementBatch
from groupd.protocol.messages.share_state import ShareStateBatch

LOCK_MS = 30_000


class OnePartition:
    """`stored`: (first offset, last offset, state, delivery count) of each batch. `finished`: what
    is over since the load, as text."""

    def __init__(
        self,
        *stored: tuple[int, int, int, int],
        start: int = 0,
        limit: int = 5,
        dead_letters: bool = False,
    ) -> None:
        self.limit = limit
        self.dead_letters = dead_letters
        self.now_ms = 0
        self.locks = 2000
        self.finished: list[str] = []
        batches = [ShareStateBatch(*one) for one in stored]
        self.records = InFlightRecords(start, batches, limit, dead_letters=dead_letters)

    def fetch(
        self,
        member: str,
        *found: LogBatch,
        most: int = 500,
        mode: int = BATCH_OPTIMIZED,
        batch_size: int = 500,
        read_from: int | None = None,
    ) -> list[str]:
        """What was acquired, as "first-last xcount"."""
        asked = Acquisition(
            member, most, batch_size, mode, self.locks, self.limit, self.now_ms + LOCK_MS
        )
        offset = self.records.next_offset if read_from is None else read_from
        acquired = self.records.acquire(asked, offset, found)
        return [f"{a.first_offset}-{a.last_offset} x{a.delivery_count}" for a in acquired]

    def begin(
        self, member: str, *batches: tuple[int, int, int | bytes], renew: bool = True
    ) -> PendingWrite:
        """Acknowledge (first offset, last offset, type or types); the write is under way then."""
        return self.records.acknowledge(
            member,
            [
                AcknowledgementBatch(
                    first, last, bytes((kinds,)) if isinstance(kinds, int) else kinds
                )
                for first, last, kinds in batches
            ],
            self.limit,
            renew_until_ms=self.now_ms + LOCK_MS if renew else None,
            dead_letters=self.dead_letters,
        )

    def acknowledge(self, member: str, *batches: tuple[int, int, int | bytes]) -> PendingWrite:
        """As `begin`, and the write is durable."""
        return self.confirm(self.begin(member, *batches))

    def release(self, member: str) -> PendingWrite:
        write = self.records.release(member, self.limit, dead_letters=self.dead_letters)
        return self.confirm(write)

    def begin_expiry(self) -> PendingWrite:
        return self.records.expire(self.now_ms, self.limit, dead_letters=self.dead_letters)

    def let_locks_end(self) -> PendingWrite:
        self.now_ms += LOCK_MS
        return self.confirm(self.begin_expiry())

    def confirm(self, write: PendingWrite) -> PendingWrite:
        self._finish(self.records.confirm(write))
        return write

    def undo(self, write: PendingWrite) -> None:
        self._finish(self.records.undo(write))

    def _finish(self, finished: list[FinishedRecords]) -> None:
        self.finished += [
            f"{one.first_offset}-{one.last_offset} {one.end.value}" for one in finished
        ]

    @property
    def states(self) -> list[str]:
        """Such as "0-9 acquired x1 ann"; with "..." while a write is under way."""
        return [
            f"{one.first_offset}-{one.last_offset} {STATE_NAMES[one.state]} x{one.delivery_count}"
            + (f" {one.member_id}" if one.member_id is not None else "")
            + (" ..." if one.write_pending else "")
            for one in self.records.ranges()
        ]

    @property
    def written(self) -> tuple[int, int]:
        """What the last write tells: the start offset, and how many records from there on are over
        with it."""
        return self.records.start_offset, self.records.delivery_complete_count

    @property
    def offsets(self) -> tuple[int, int, int]:
        """Start offset, end offset, and where to read next."""
        return self.records.start_offset, self.records.end_offset, self.records.next_offset


def written(write: PendingWrite) -> list[str]:
    return [
        f"{one.first_offset}-{one.last_offset} "
        f"{STATE_NAMES[one.delivery_state]} x{one.delivery_count}"
        for one in write.batches
    ]
