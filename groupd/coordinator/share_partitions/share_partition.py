"""A share-partition at its leader: how the state of its records (`in_flight`) is loaded, and how
changes of it are made durable (docs/spec/share-group.md#4.2).

Changes are written one after the other. Those that come while a write is under way go together with
the next one. A change counts only once it is durable; if it cannot be written it is undone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

import structlog
from msgspec import Struct

from groupd.coordinator.persister import Persister
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.share_partitions.acquisition import Acquisition, LogBatch, without
from groupd.coordinator.share_partitions.counts import (
    ACQUIRED_BY_MEMBER,
    ARCHIVED_EVENT,
    LOADED,
    ShareCounts,
    ShareEvent,
)
from groupd.coordinator.share_partitions.group_settings import ShareGroupSettings
from groupd.coordinator.share_partitions.in_flight import InFlightRecords
from groupd.coordinator.share_partitions.in_flight_types import (
    DeadLetters,
    FinishedRecords,
    PendingWrite,
)
from groupd.coordinator.share_partitions.runs import DeliveryEnd, InvalidShareState
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partition_queries import TimeSearch
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import READ_COMMITTED
from groupd.protocol.messages.share_fetch import AcknowledgementBatch, AcquiredRecords
from groupd.protocol.messages.share_state import (
    AVAILABLE,
    NO_OFFSET,
    AskedShareState,
    ReadShareGroupStateRequest,
    ReadShareState,
    ShareStateReply,
    ShareStateResult,
    ShareStateTopic,
    WriteShareGroupStateRequest,
    WrittenShareState,
)
from groupd.storage.log import LogError

log = structlog.get_logger("groupd.share")

_NOT_READY = ErrorCode.COORDINATOR_NOT_AVAILABLE
_FENCED = ErrorCode.NOT_LEADER_OR_FOLLOWER
_SEEN_BY_MEMBERS = {
    ErrorCode.NONE: ErrorCode.NONE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: _NOT_READY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: _NOT_READY,
    ErrorCode.NOT_COORDINATOR: _NOT_READY,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: _FENCED,
    ErrorCode.FENCED_STATE_EPOCH: _FENCED,
}
"""Codes of the persister -> what members get; UNKNOWN_SERVER_ERROR for all others."""

_GONE = frozenset(
    {
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.INVALID_REQUEST,
    }
)
"""Codes of the persister after which the share-partition is loaded anew. INVALID_REQUEST: the state
was deleted."""


WRITE_BATCHES_MAX = 1000
"""At most so many batches of several changes are written at once."""

Bury = Callable[["SharePartition", Sequence[DeadLetters]], Awaitable[None]]


class ShareSurroundings(Struct, frozen=True):
    """What a share-partition needs. `settings(group id)`: the settings of a group, as they are now.
    `start(work)`: runs a coroutine as a task. `settled`: called with a share-partition that was
    loaded, or has nothing more to write. `bury(letters)`: returns when records are in the
    dead-letter queue, or cannot be put there."""

    persister: Persister
    clock: Clock
    search: TimeSearch
    settings: Callable[[str], ShareGroupSettings]
    counts: ShareCounts
    start: Callable[[Coroutine[Any, Any, None]], None]
    settled: Callable[[SharePartition], None]
    bury: Bury


Durable = asyncio.Future[ApiError | None]
"""Done when a change is durable (None) or has been undone (the error)."""


class _ShareChange(Struct, frozen=True):
    """A change that is to be written. `told`: people have heard already that it makes records
    available."""

    write: PendingWrite
    durable: Durable
    told: bool


class _LogMoved(asyncio.Event):
    """Waits for a log on behalf of all that wait for a share-partition of it: calls `moved()` when
    it would be set."""

    def __init__(self, moved: Callable[[], None]) -> None:
        super().__init__()
        self._moved = moved

    def set(self) -> None:
        self._moved()


class SharePartition:
    """What one share group has of one partition; a `long_polls.Watchable`. It begins to load when
    it is made: until then, and if that fails, `records` is None.

    `closed`: it is not used any more; look it up anew. `error`: why it could not be loaded.
    `moved(self)` is called when a lock has changed. `before`: the one in whose place it comes, if
    changes of that one may still be on their way to the persister. They are written at the same
    leader epoch, so this one is loaded after them.
    """

    def __init__(
        self,
        group_id: str,
        partition: PartitionLog,
        around: ShareSurroundings,
        moved: Callable[[SharePartition], None],
        before: SharePartition | None,
    ) -> None:
        self.group_id = group_id
        self.partition = partition
        self.records: InFlightRecords | None = None
        self.closed = False
        self.error: ApiError | None = None
        self.lock_timeouts = 0
        self.bytes_per_record = 0.0
        """The average of the last reading."""
        self._is_read = self._is_missed = False
        self._around = around
        self._moved = moved
        self._leader_epoch = partition.epochs.latest
        self._state_epoch = 0
        self._gone = False
        self._wakes = 0
        self._waiters: dict[asyncio.Event, int] = {}
        """In the order in which they came, with the position at that moment."""
        self._woken: asyncio.Event | None = None
        """The waiter that was woken last, until it has left."""
        self._log_moved = _LogMoved(self.wake)
        self._unwritten: list[_ShareChange] = []
        self._burials = 0
        self.writes = False
        """Whether changes are on their way to the persister."""
        self._written: asyncio.Event | None = None
        around.start(self._load(before))

    # Waiting for records ------------------------------------------------------------------

    # Of the requests that wait, one at a time is woken, the one that came first. When it has looked
    # and there is more to acquire, the next one is woken. So one record does not wake a hundred
    # members. A request that has looked since the position moved last is not woken: there was not
    # enough for it.

    @property
    def position(self) -> int:
        return self.partition.high_watermark + self._wakes

    def add_waiter(self, event: asyncio.Event) -> None:
        if not self._waiters:
            self.partition.add_waiter(self._log_moved)
        self._waiters[event] = self.position

    def remove_waiter(self, event: asyncio.Event) -> None:
        self._waiters.pop(event, None)
        if not self._waiters:
            self.partition.remove_waiter(self._log_moved)
        if event is self._woken:
            # It looks right now, or its client is gone.
            self._woken = None
            asyncio.get_running_loop().call_soon(self._wake_next)

    def wake(self) -> None:
        """Let waiting requests look again, if there may be something to acquire."""
        self._wakes += 1
        self._wake_next()

    def _wake_next(self) -> None:
        if not self._waiters or self._woken is not None or not self._has_more():
            return
        for event, seen in self._waiters.items():
            if seen != self.position:
                self._woken = event
                event.set()
            break

    def _has_more(self) -> bool:
        """Whether a request that looks now may acquire something."""
        records, log = self.records, self.partition
        if records is None or self._is_read or self.closed:
            return False
        settings = self._around.settings(self.group_id)
        committed = settings.isolation_level == READ_COMMITTED
        end_offset = log.last_stable_offset if committed else log.high_watermark
        return records.next_offset < end_offset and records.may_acquire(settings.max_record_locks)

    # Life ---------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """How many offsets are in flight; 0 until it is loaded."""
        return 0 if self.records is None else self.records.in_flight

    @property
    def idle(self) -> bool:
        """Whether nothing would be lost with it but what is durable: no record is locked, and no
        change is on its way."""
        records = self.records
        if records is None or self.writes or self._burials:
            return False
        return records.next_lock_ms is None

    async def written(self) -> None:
        """Wait until no change is on its way to the persister. It is closed, so there are no new
        ones."""
        if self.writes:
            self._written = self._written or asyncio.Event()
            await self._written.wait()

    def close(self, error: ApiError | None = None) -> None:
        """Give it up. Changes that are on their way to the persister are still answered."""
        self.closed = True
        self.error = error
        self._wakes += 1
        for event in self._waiters:
            event.set()

    async def _load(self, before: SharePartition | None) -> None:
        if before is not None:
            await before.written()
        around = self._around
        begun_ms = around.clock.monotonic_ms()
        try:
            self.records = await self._loaded()
        except Exception as error:
            if not isinstance(error, ApiError):
                log.exception("a share-partition cannot be loaded", group=self.group_id)
                error = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
            self.close(error)
        else:
            start_offset = self.records.start_offset
            around.counts.tell_listeners(self._event(start_offset, start_offset, LOADED))
            self._bury()
            self.wake()
        around.counts.loads += 1
        around.counts.load_ms += around.clock.monotonic_ms() - begun_ms
        around.settled(self)

    async def _loaded(self) -> InFlightRecords:
        number = self.partition.partition
        asked = AskedShareState(number, self._leader_epoch)
        topic = ShareStateTopic(self.partition.topic_id, (asked,))
        found = await self._ask(ReadShareGroupStateRequest(self.group_id, (topic,)))
        assert isinstance(found, ReadShareState)
        self._state_epoch = found.state_epoch
        start_offset = found.start_offset
        if start_offset == NO_OFFSET:
            start_offset = await self._first_offset()
        try:
            settings = self._around.settings(self.group_id)
            return InFlightRecords(
                start_offset,
                found.batches,
                settings.delivery_count_limit,
                dead_letters=settings.has_dead_letters,
            )
        except InvalidShareState as error:
            log.error(
                "the state of a share-partition is damaged",
                group=self.group_id,
                log=self.partition.name,
                reason=str(error),
            )
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error

    async def _first_offset(self) -> int:
        """Where a share-partition begins that no member has read yet. Raises ApiError
        OFFSET_NOT_AVAILABLE if no record is young enough."""
        settings, partition = self._around.settings(self.group_id), self.partition
        if settings.reset == "earliest":
            return partition.start_offset
        if settings.reset == "latest":
            return partition.high_watermark
        since_ms = self._around.clock.now().wall_ms - settings.reset_ms
        try:
            found = await self._around.search.at_or_after(
                partition, since_ms, partition.high_watermark
            )
        except LogError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if found is None or found[1] >= partition.high_watermark:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, "no record is young enough")
        return found[1]

    async def _ask(
        self, request: ReadShareGroupStateRequest | WriteShareGroupStateRequest
    ) -> ReadShareState | ShareStateResult:
        """The persister's entry for this share-partition. Raises ApiError with the code for
        members."""
        try:
            reply: ShareStateReply = await self._around.persister.ask(request)
            entry = reply.topics[0].partitions[0]
            assert isinstance(entry, ReadShareState | ShareStateResult)
        except Exception as error:
            log.exception("the persister has failed", group=self.group_id)
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR) from error
        self._gone = entry.error in _GONE
        code = _SEEN_BY_MEMBERS.get(entry.error, ErrorCode.UNKNOWN_SERVER_ERROR)
        if code is not ErrorCode.NONE:
            raise ApiError(code, entry.error_message)
        return entry

    # Reading ------------------------------------------------------------------------------

    # One request at a time reads for a share-partition. Others do without it meanwhile, and look
    # again afterwards.

    def begin_reading(self, max_record_locks: int) -> bool:
        """Take it for reading, if it is loaded and there may be something to acquire. Returns False
        if not; else call `end_reading` in any case."""
        if self._is_read:
            self._is_missed = True
            return False
        if self.closed or self.records is None or not self.records.may_acquire(max_record_locks):
            return False
        self._is_read = True
        return True

    def end_reading(self) -> int:
        """Let others read. Returns by how much the position has moved because they wait for it."""
        self._is_read = False
        missed, self._is_missed = self._is_missed, False
        self._wakes += missed
        self._wake_next()
        return int(missed)

    def acquire(
        self,
        asked: Acquisition,
        read_from: int,
        found: Sequence[LogBatch],
        aborted: Sequence[LogBatch],
    ) -> Sequence[AcquiredRecords]:
        """Lock records for a member. `found`: the record batches that were read from the offset
        `read_from` on. `aborted`: those of them that belong to aborted transactions; their records
        are archived."""
        assert self.records is not None
        acquired = self.records.acquire(asked, read_from, found)
        if aborted:
            self._write(self.records.archive(aborted))
            self._wakes += 1
            acquired = without(acquired, aborted)
        if self._around.counts.listeners:
            for one in acquired:
                at = one.first_offset, one.last_offset
                self._around.counts.tell_listeners(
                    self._event(*at, ACQUIRED_BY_MEMBER, "", one.delivery_count, asked.member_id)
                )
        self._moved(self)
        return acquired

    def log_start_moved(self, offset: int) -> None:
        """Records below `offset` are gone from the log."""
        assert self.records is not None
        self._write(self.records.log_start_moved(offset))
        self._wakes += 1

    # Acknowledgements and locks -----------------------------------------------------------

    def acknowledge(
        self,
        member_id: str,
        batches: Sequence[AcknowledgementBatch],
        settings: ShareGroupSettings,
        *,
        renew_until_ms: int | None,
    ) -> Durable:
        """Apply a member's acknowledgements, all or none. Raises ApiError INVALID_RECORD_STATE,
        INVALID_REQUEST; UNKNOWN_TOPIC_OR_PARTITION if it is not loaded."""
        if self.records is None or self.closed:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        write = self.records.acknowledge(
            member_id,
            batches,
            settings.delivery_count_limit,
            renew_until_ms=renew_until_ms,
            dead_letters=settings.has_dead_letters,
        )
        if renew_until_ms is not None:
            self._moved(self)
        return self._write(write)

    def release(self, member_id: str) -> None:
        """Release what the member holds: its session has ended."""
        if self.records is not None and not self.closed:
            settings = self._around.settings(self.group_id)
            self._write(
                self.records.release(
                    member_id,
                    settings.delivery_count_limit,
                    dead_letters=settings.has_dead_letters,
                )
            )

    def expire(self, now_ms: int) -> None:
        """Release records that were locked for too long."""
        if self.records is None or self.closed:
            return
        settings = self._around.settings(self.group_id)
        write = self.records.expire(
            now_ms, settings.delivery_count_limit, dead_letters=settings.has_dead_letters
        )
        count = sum([one.last_offset - one.first_offset + 1 for one in write.batches])
        self.lock_timeouts += count
        self._around.counts.lock_timeouts += count
        self._tell_released(write, "expired")  # others may have the records from now on
        self._write(write, told=True)
        self._moved(self)
        self._bury()
        self.wake()

    # Writing ------------------------------------------------------------------------------

    def _write(self, write: PendingWrite, *, told: bool = False) -> Durable:
        durable: Durable = asyncio.get_running_loop().create_future()
        change = _ShareChange(write, durable, told)
        if not write.batches:
            self._finish([change], None)
            return durable
        self._unwritten.append(change)
        if not self.writes:
            self.writes = True
            self._around.start(self._write_all())
        return durable

    async def _write_all(self) -> None:
        changes: list[_ShareChange] = []
        try:
            while self._unwritten:
                count = self._fit_together()
                changes, self._unwritten = self._unwritten[:count], self._unwritten[count:]
                error = None
                try:
                    await self._persist(changes)
                except ApiError as failed:
                    error = failed
                self._finish(changes, error)
        except Exception:
            log.exception("a share-partition has failed", group=self.group_id)
            self.close()
            for change in (*changes, *self._unwritten):
                if not change.durable.done():
                    change.durable.set_result(ApiError(ErrorCode.UNKNOWN_SERVER_ERROR))
        finally:
            self.writes = False
            if self._written is not None:
                self._written.set()
        self._around.settled(self)

    def _fit_together(self) -> int:
        """How many of the changes are written at once, so that no turn of the loop takes long."""
        left = WRITE_BATCHES_MAX
        for at, change in enumerate(self._unwritten):
            left -= len(change.write.batches)
            if left < 0 and at:
                return at
        return len(self._unwritten)

    async def _persist(self, changes: Sequence[_ShareChange]) -> None:
        records = self.records
        assert records is not None
        # Of the changes before these some may have failed, and those behind them may yet fail.
        written = WrittenShareState(
            self.partition.partition,
            self._state_epoch,
            self._leader_epoch,
            records.start_offset,
            records.complete_with(changes[-1].write),
            tuple([batch for change in changes for batch in change.write.batches]),
        )
        topic = ShareStateTopic(self.partition.topic_id, (written,))
        await self._ask(WriteShareGroupStateRequest(self.group_id, (topic,)))

    def _finish(self, changes: Sequence[_ShareChange], error: ApiError | None) -> None:
        """These changes are durable, or have failed."""
        records = self.records
        assert records is not None
        before, writes = records.position, [change.write for change in changes]
        self._tell(records.undo(*writes) if error is not None else records.confirm(*writes))
        for change in changes:
            if error is None and not change.told:
                self._tell_released(change.write, "released")
            if not change.durable.done():  # else its client is gone, and with it who has waited
                change.durable.set_result(error)
        self._bury()
        self._moved(self)
        if error is not None and self._gone:
            self.close()
        elif records.position != before:
            self.wake()

    # Dead letters and events --------------------------------------------------------------

    def _bury(self) -> None:
        """Copy records that are not delivered any more to the dead-letter queue, if there are."""
        assert self.records is not None
        letters = self.records.to_dead_letter()
        if letters:
            self._burials += 1
            self._around.start(self._buried(letters))

    async def _buried(self, letters: Sequence[DeadLetters]) -> None:
        try:
            await self._around.bury(self, letters)
        finally:
            self._burials -= 1
        if self.records is not None and not self.closed:
            ranges = [(one.first_offset, one.last_offset) for one in letters]
            self._write(self.records.dead_lettered(ranges))
        self._around.settled(self)

    def _tell(self, finished: Iterable[FinishedRecords]) -> None:
        for one in finished:
            accepted = one.end is DeliveryEnd.ACCEPTED
            count = one.last_offset - one.first_offset + 1
            if accepted:
                self._around.counts.accepted += count
            else:
                self._around.counts.archived[one.end] += count
            what, why = ("accepted", "") if accepted else (ARCHIVED_EVENT, one.end.value)
            self._around.counts.tell(
                self._event(one.first_offset, one.last_offset, what, why, one.delivery_count)
            )

    def _tell_released(self, write: PendingWrite, what: str) -> None:
        for batch in write.batches:
            if batch.delivery_state == AVAILABLE:
                at = batch.first_offset, batch.last_offset
                self._around.counts.tell(self._event(*at, what, "", batch.delivery_count))

    def _event(
        self,
        first_offset: int,
        last_offset: int,
        what: str,
        why: str = "",
        delivery_count: int = 0,
        member_id: str = "",
    ) -> ShareEvent:
        partition = self.partition
        return ShareEvent(
            self._around.clock.now().wall_ms,
            self.group_id,
            partition.topic_id,
            partition.partition,
            first_offset,
            last_offset,
            what,
            why,
            delivery_count,
            member_id,
        )
