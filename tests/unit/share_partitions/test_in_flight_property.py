"""Random members on one share-partition, compared with a model that has one entry per offset."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.share_partitions.acquisition import Acquisition, LogBatch, without
from groupd.coordinator.share_partitions.in_flight import InFlightRecords
from groupd.coordinator.share_partitions.in_flight_types import FinishedRecords, PendingWrite
from groupd.coordinator.share_partitions.runs import ACQUIRED
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_fetch import (
    ACCEPT,
    BATCH_OPTIMIZED,
    GAP,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
)
from groupd.protocol.messages.share_state import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE
from tests.support.examples import examples
from tests.unit.share_partitions.naive_records import (
    OVER,
    NaivePersister,
    NaiveRecord,
    NaiveRecords,
    read_log,
)

MEMBERS = "ann", "bob", "cid"
DURATION_MS = 50


class Members:
    """Three members, their leader, which may be another one at any time, and the log."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.limit = random.randint(2, 6)
        self.dead_letters = random.random() < 0.5
        self.now_ms = 0
        self.log: list[LogBatch] = []
        self.log_end = 0
        for _ in range(random.randint(2, 8)):
            self.produce()
        self.persister = NaivePersister(0)
        self.pending: list[tuple[PendingWrite, int]] = []
        self.accepted: set[int] = set()
        self.load()

    def load(self) -> None:
        self.records = InFlightRecords(
            self.persister.start,
            self.persister.read(),
            self.limit,
            dead_letters=self.dead_letters,
        )
        self.model = NaiveRecords(self.persister.start, self.persister.read(), self.dead_letters)
        self.letters: list[LogBatch] = []
        self.finished: set[int] = set()

    def _finish(self, finished: list[FinishedRecords]) -> set[int]:
        """Each record once."""
        offsets = [at for one in finished for at in range(one.first_offset, one.last_offset + 1)]
        assert len(set(offsets)) == len(offsets)
        assert not self.finished.intersection(offsets)
        self.finished.update(offsets)
        return set(offsets)

    # What happens to the log ------------------------------------------------------------------

    def step(self) -> None:
        ways = {
            self.produce: 4,
            self.compact: 1,
            self.delete_records: 0.3,
            self.fetch: 12,
            self.acknowledge: 12,
            self.acknowledge_what_is_not_held: 2,
            self.release: 2,
            self.end_write: 12,
            self.time_passes: 4,
            self.copy_dead_letters: 2,
            self.leader_starts_again: 0.5,
        }
        (way,) = self.random.choices(list(ways), list(ways.values()))
        way()
        self.same_as_the_model()

    def produce(self) -> None:
        size = self.random.randint(1, 12)
        if len(self.log) < 20:
            self.log.append((self.log_end, self.log_end + size - 1))
            self.log_end += size

    def compact(self) -> None:
        """The last batch stays, as in a log that is cleaned."""
        if len(self.log) > 2:
            self.log.remove(self.random.choice(self.log[:-1]))

    def delete_records(self) -> None:
        offset = self.random.randint(0, self.log_end)
        self.log = [batch for batch in self.log if batch[1] >= offset]
        moved = offset > self.model.start
        write = self.records.log_start_moved(offset)
        assert not write.batches
        ended = self.records.confirm(write)
        if moved:
            gone = self.model.forget_before(offset)
            assert gone <= self._finish(ended)

    # What members do --------------------------------------------------------------------------

    def fetch(self) -> None:
        member = self.random.choice(MEMBERS)
        mode = self.random.choice((BATCH_OPTIMIZED, RECORD_LIMIT))
        most, batch_size = self.random.randint(1, 20), self.random.randint(1, 20)
        locks, batches = self.random.randint(1, 60), self.random.randint(1, 4)
        read_from = self.records.next_offset
        found = read_log(self.log, read_from, batches)
        until_ms = self.now_ms + DURATION_MS
        asked = Acquisition(member, most, batch_size, mode, locks, self.limit, until_ms)
        end = self.records.start_offset + self.records.in_flight
        free = locks - self.records.in_flight
        might = self.records.may_acquire(locks)
        acquired = self.records.acquire(asked, read_from, found)

        model = self.model
        if found and found[-1][1] >= model.start:
            for offset in range(read_from, found[0][0]):
                record = model.records.get(offset)
                if record is not None and record.available:
                    record.state = ARCHIVED
            model.unseen -= set(range(read_from, found[0][0]))
            model.settle()
        got = 0
        last = -1
        for one in acquired:
            assert last < one.first_offset <= one.last_offset <= found[-1][1]
            for offset in range(one.first_offset, one.last_offset + 1):
                record = model.records.get(offset)
                assert offset >= model.start
                assert offset not in self.accepted
                assert record is None or record.available
                assert one.delivery_count == (1 if record is None else record.count + 1)
                assert one.delivery_count <= self.limit
                model.records[offset] = NaiveRecord(ACQUIRED, one.delivery_count, member, until_ms)
                model.unseen.discard(offset)
                got += 1
            last = one.last_offset
        if mode == RECORD_LIMIT:
            assert got <= most
            self._leave_rest(found, last)
        if got:
            assert might
            assert model.records or free > 0
        for first_offset, last_offset in found:
            for offset in range(max(end, first_offset), last_offset + 1):
                assert offset in model.records or offset > max(model.records, default=-1)
        model.settle()
        if acquired and self.random.random() < 0.05:
            aborted = self.random.choice(found)
            write = self.records.archive([aborted])
            assert not write.batches
            self._finish(self.records.confirm(write))
            for offset in range(aborted[0], aborted[1] + 1):
                record = model.records.get(offset)
                if record is not None and record.may_be_archived:
                    record.state = ARCHIVED
            model.settle()
            for one in without(acquired, [aborted]):
                assert not aborted[0] <= one.first_offset <= aborted[1]
                assert not aborted[0] <= one.last_offset <= aborted[1]

    def _leave_rest(self, found: list[LogBatch], last: int) -> None:
        """What RECORD_LIMIT leaves of the batch of the log that it divides."""
        for offset in range(last + 1, 1 + next((b[1] for b in found if b[0] <= last <= b[1]), -1)):
            if offset in self.model.records:
                break
            if self._in_flight(offset):
                self.model.records[offset] = NaiveRecord(AVAILABLE, 0)
                self.model.unseen.discard(offset)

    def _in_flight(self, offset: int) -> bool:
        return any(one.first_offset <= offset <= one.last_offset for one in self.records.ranges())

    def acknowledge(self) -> None:
        member = self.random.choice(MEMBERS)
        types = self.random.choices((0, 1, 1, 2, 2, 3, 4), k=self.random.randint(1, 12))
        held = self.model.held(member)
        if not held:
            return
        first = self.random.choice((held[0], self.random.choice(held)))
        runs: list[AcknowledgementBatch] = []
        if self.random.random() < 0.5:
            last = first
            while last + 1 in held:
                last += 1
            runs.append(AcknowledgementBatch(first, last, bytes(types[:1])))
        else:
            while len(types) > 1 and not set(range(first, first + len(types))) <= set(held):
                types = types[:-1]
            runs.append(AcknowledgementBatch(first, first + len(types) - 1, bytes(types)))
        if self.random.random() < 0.5:
            more = [offset for offset in held if offset > runs[0].last_offset]
            runs += [AcknowledgementBatch(at, at, bytes((ACCEPT,))) for at in more[:2]]
        renew_until_ms = self.now_ms + 2 * DURATION_MS
        write = self.records.acknowledge(
            member,
            runs,
            self.limit,
            renew_until_ms=renew_until_ms,
            dead_letters=self.dead_letters,
        )
        number = self._next_write(write)
        for batch in runs:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                index = offset - batch.first_offset if len(batch.types) > 1 else 0
                kind = batch.types[index]
                record = self.model.records[offset]
                if kind == RENEW:
                    record.until_ms = renew_until_ms
                    continue
                record.written = number
                if kind == RELEASE:
                    self.model.let_go(offset, self.limit, self.dead_letters)
                elif kind == ACCEPT:
                    record.state = ACKNOWLEDGED
                elif kind == GAP or not self.dead_letters:
                    record.state = ARCHIVED
                else:
                    assert kind == REJECT
                    record.state = ARCHIVING
        self._check_write(write, number)

    def acknowledge_what_is_not_held(self) -> None:
        member = self.random.choice(MEMBERS)
        first = self.random.randint(0, self.log_end)
        size = self.random.randint(1, 10)
        last = first + size - 1
        batch = AcknowledgementBatch(first, last, bytes((ACCEPT,)))
        at = [self.model.records.get(o) for o in range(max(first, self.model.start), last + 1)]
        good = all(
            one is not None
            and one.state == ACQUIRED
            and one.member == member
            and one.written is None
            for one in at
        )
        if good:
            return
        before = list(self.records.ranges())
        try:
            write = self.records.acknowledge(
                member, [batch], self.limit, renew_until_ms=None, dead_letters=False
            )
        except ApiError as refused:
            code = refused.code
        else:
            # There are holes in the range, and the member holds the rest.
            number = self._next_write(write)
            for one in at:
                if one is not None:
                    assert one.state == ACQUIRED
                    assert one.member == member
                    one.state, one.written = ACKNOWLEDGED, number
            return
        assert code in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
        assert list(self.records.ranges()) == before

    def release(self) -> None:
        member = self.random.choice(MEMBERS)
        write = self.records.release(member, self.limit, dead_letters=self.dead_letters)
        number = self._next_write(write)
        for offset in self.model.held(member):
            self.model.let_go(offset, self.limit, self.dead_letters)
            self.model.records[offset].written = number
        self._check_write(write, number)

    def _next_write(self, write: PendingWrite) -> int:
        self.model.writes += 1
        self.pending.append((write, self.model.writes))
        return self.model.writes

    def _check_write(self, write: PendingWrite, number: int) -> None:
        changed = {at: one for at, one in self.model.records.items() if one.written == number}
        assert {
            offset: (batch.delivery_state, batch.delivery_count)
            for batch in write.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        } == {at: (one.state, one.count) for at, one in changed.items()}

    # How writes end, and time -----------------------------------------------------------------

    def end_write(self) -> None:
        if not self.pending:
            return
        write, number = self.pending.pop(self.random.randrange(len(self.pending)))
        durable = self.random.random() < 0.8
        waiting = {at: one for at, one in self.model.records.items() if one.written == number}
        if durable:
            assert self.records.complete_with(write) == sum(
                one.state in OVER and (one.written or 0) <= number
                for one in self.model.records.values()
            )
            self.persister.write(self.records.start_offset, write.batches)
            ended = self.records.confirm(write)
        else:
            ended = self.records.undo(write)
        for record in waiting.values():
            record.written = None
            if not durable and not write.stays:
                record.state = ACQUIRED
        over = {at for at, one in waiting.items() if one.over}
        assert over <= self._finish(ended)
        for at in over:
            assert at not in self.accepted
            if waiting[at].state == ACKNOWLEDGED:
                self.accepted.add(at)
        self.model.settle()
        self._dead_letters()

    def time_passes(self) -> None:
        self.now_ms += self.random.randint(1, 60)
        write = self.records.expire(self.now_ms, self.limit, dead_letters=self.dead_letters)
        over = [
            offset
            for offset, one in self.model.records.items()
            if one.state == ACQUIRED and one.until_ms <= self.now_ms
        ]
        number = self._next_write(write)
        for offset in over:
            self.model.let_go(offset, self.limit, self.dead_letters)
            if self.model.records[offset].state != AVAILABLE:
                self.model.records[offset].written = number
        assert {
            offset
            for batch in write.batches
            for offset in range(batch.first_offset, batch.last_offset + 1)
        } == set(over)

    def _dead_letters(self) -> None:
        for letters in self.records.to_dead_letter():
            self.letters.append((letters.first_offset, letters.last_offset))

    def copy_dead_letters(self) -> None:
        self._dead_letters()
        ranges, self.letters = self.letters, []
        write = self.records.dead_lettered(ranges)
        number = self._next_write(write)
        for first, last in ranges:
            for offset in range(first, last + 1):
                record = self.model.records.get(offset)
                if record is not None and record.state == ARCHIVING and record.written is None:
                    record.state = ARCHIVED
                    record.written = number

    def leader_starts_again(self) -> None:
        self.pending.clear()
        durable = dict(self.persister.entries)
        self.load()
        for offset, (count, state) in durable.items():
            if offset >= self.records.start_offset:
                record = self.model.records[offset]
                assert record.count == count
                assert record.state == state or (state == ARCHIVING and not self.dead_letters)
        for offset in self.accepted:
            record = self.model.records.get(offset)
            assert offset < self.model.start or (record is not None and record.over)

    # What always holds ------------------------------------------------------------------------

    def same_as_the_model(self) -> None:
        model, records = self.model, self.records
        model.settle()
        tracked: dict[int, tuple[int, int, str | None, bool]] = {}
        last = -1
        for one in records.ranges():
            assert last < one.first_offset <= one.last_offset
            last = one.last_offset
            for offset in range(one.first_offset, last + 1):
                tracked[offset] = (
                    one.state,
                    one.delivery_count,
                    one.member_id if one.state == ACQUIRED else None,
                    one.write_pending,
                )
        assert tracked == {
            offset: (
                one.state,
                one.count,
                one.member if one.state == ACQUIRED else None,
                one.written is not None,
            )
            for offset, one in model.records.items()
        }
        assert records.start_offset == model.start
        assert records.end_offset == model.end
        assert records.delivery_complete_count == model.complete
        assert records.next_offset == model.next_offset
        held = [one.until_ms for one in model.records.values() if one.state == ACQUIRED]
        if held:
            assert records.next_lock_ms is not None
            assert records.next_lock_ms <= min(held)
        elif not any(one.written is not None for one in model.records.values()):
            assert records.next_lock_ms is None

    def all_ends(self) -> None:
        """Somebody accepts all that is left; then all is over."""
        while self.pending:
            write, _ = self.pending.pop()
            self.records.confirm(write)
        self.now_ms += 1000
        self.records.confirm(
            self.records.expire(self.now_ms, self.limit, dead_letters=self.dead_letters)
        )
        for _ in range(500):
            self._dead_letters()
            self.records.confirm(self.records.dead_lettered(self.letters))
            if self.records.next_offset >= self.log_end:
                break
            read_from = self.records.next_offset
            found = read_log(self.log, read_from, 3)
            if not found:
                break
            asked = Acquisition("zoe", 50, 50, BATCH_OPTIMIZED, 1000, self.limit, self.now_ms + 1)
            acquired = self.records.acquire(asked, read_from, found)
            batches = [
                AcknowledgementBatch(one.first_offset, one.last_offset, bytes((ACCEPT,)))
                for one in acquired
            ]
            write = self.records.acknowledge(
                "zoe", batches, self.limit, renew_until_ms=None, dead_letters=False
            )
            self.records.confirm(write)
        left = [one for one in self.records.ranges() if one.state not in OVER]
        in_log = [one for one in left if any(b[0] <= one.first_offset <= b[1] for b in self.log)]
        assert not in_log
        if not left:
            assert self.records.in_flight == 0
            assert self.records.delivery_complete_count == 0


@examples(60)
@given(seed=st.integers(0, 2**32))
def test_random_members(seed: int) -> None:
    members = Members(Random(seed))
    for _ in range(300):
        members.step()
    members.all_ends()
