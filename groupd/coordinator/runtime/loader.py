"""Reading a shard back from its log.

A load reads the compacted log and the history behind it. If there is no compacted log, or if it is
damaged, the load reads the whole history, which is complete by itself. Other work gets a turn every
few hundred records. They are counted, not timed, so that the same log is always read in the same
steps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

import structlog

from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.types import Instant, Outcome
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime import collector
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.commit_runs import take_run
from groupd.coordinator.runtime.shard_log import ShardLog
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    BatchRecord,
    CorruptBatch,
    check_whole,
    decode_marker,
    iter_batches,
    iter_records,
    read_records,
    records_data,
)
from groupd.protocol.records.codec import CorruptRecord, RecordDecoder, UnknownRecordType
from groupd.protocol.records.compression import Plain
from groupd.protocol.records.schema import Record
from groupd.storage.log import LogCorrupt, PartitionLogs, StoredBatch

log = structlog.get_logger("groupd.loader")

READ_BYTES = 1024 * 1024
TURN_RECORDS = 500
"""Other work gets a turn after this many records, which take some two milliseconds."""

SHORT_RUN = 4
"""A run of fewer records than this costs more than it saves. The next runs of its batch are hardly
longer."""


class LoadFailed(Exception):
    """The log holds something that must not be skipped. `str()` says what and where."""


class Replayed(NamedTuple):
    """A shard with its log replayed into it. `records`: how many were applied."""

    shard: GroupCoordinatorShard
    producers: ProducerStates
    records: int


class Loaded(NamedTuple):
    """A shard that is ready to serve. `outcome`: what was to be done when its timers were started.
    `records`: how many were applied."""

    shard: GroupCoordinatorShard
    producers: ProducerStates
    outcome: Outcome
    records: int


class _CompactedUnusable(Exception):
    """The compacted log cannot be read, but the history still can."""


async def load_anew(
    make_shard: Callable[[], GroupCoordinatorShard],
    bring_up_to_date: Callable[[GroupCoordinatorShard], None],
    logs: PartitionLogs,
    opened: ShardLog,
    clock: Clock,
) -> Loaded:
    """Returns a shard made from its log, with its timers started. Raises LoadFailed or LogError."""
    shard, producers, records = await load_shard(make_shard, logs, opened)
    # Topics and group configs may have changed while the log was read.
    bring_up_to_date(shard)
    return Loaded(shard, producers, timers_started(shard, opened, clock.now()), records)


def timers_started(shard: GroupCoordinatorShard, opened: ShardLog, now: Instant) -> Outcome:
    """Start the timers of a shard that has its state. Returns what is to be done. Raises
    LoadFailed."""
    name = opened.history.name
    try:
        return shard.on_loaded(now)
    except Exception as error:
        log.exception("shard cannot start its timers", log=name)
        raise LoadFailed(f"{name}: {type(error).__name__}: {error}") from error


async def load_shard(
    make_shard: Callable[[], GroupCoordinatorShard], logs: PartitionLogs, opened: ShardLog
) -> Replayed:
    """Returns a fresh shard with the log replayed into it. Raises LoadFailed, LogError. Unknown
    record types are skipped with a warning; a record that cannot be decoded fails the load
    (docs/spec/offsets-and-log.md#7)."""
    begin = opened.compacted_end or opened.history.start_offset
    with collector.pause(opened.next_offset - begin):
        loaded = await _load(make_shard, logs, opened)
        collector.keep(loaded.records)
    return loaded


async def _load(
    make_shard: Callable[[], GroupCoordinatorShard], logs: PartitionLogs, opened: ShardLog
) -> Replayed:
    end = opened.compacted_end
    if end:
        try:
            return await _Replay(make_shard(), logs).run(opened, end)
        except _CompactedUnusable as error:
            log.error("compacted log is damaged; reading the history", reason=str(error.__cause__))
            opened.damaged = True
    return await _Replay(make_shard(), logs).run(opened, opened.history.start_offset)


def check_batches(stored: StoredBatch) -> None:
    """Raises CorruptBatch as `checked_batches` does."""
    for _ in checked_batches(stored):
        pass


def checked_batches(stored: StoredBatch) -> Iterator[Batch]:
    """Yields the batches of a row of the store. Raises CorruptBatch, also if a batch has other
    offsets than the store has for its row."""
    expected = stored.base_offset
    for batch in iter_batches(stored.payload):
        header = batch.header
        check_whole(batch.payload, header)
        if not expected <= header.base_offset <= header.last_offset <= stored.last_offset:
            raise CorruptBatch(
                f"it says offsets {header.base_offset} to {header.last_offset}, "
                f"not {expected} to {stored.last_offset}"
            )
        expected = header.next_offset
        yield batch


class _Replay:
    """One attempt to load a shard."""

    def __init__(self, shard: GroupCoordinatorShard, logs: PartitionLogs) -> None:
        self._shard = shard
        self._producers = ProducerStates()
        self._logs = logs
        self._decoder = RecordDecoder()
        self._since = 0
        self._skipped: dict[int, int] = {}
        self._applied = 0

    async def run(self, opened: ShardLog, history_from: int) -> Replayed:
        """Replay the compacted log up to `history_from`, and the history from there on."""
        history, compacted = opened.history, opened.compacted
        if history_from > history.start_offset:
            try:
                await self._read(compacted.name, compacted.start_offset, history_from)
            except (LoadFailed, LogCorrupt) as error:
                raise _CompactedUnusable from error
            compacted.records = self._applied
        await self._read(history.name, history_from, opened.next_offset)
        for record_type, count in sorted(self._skipped.items()):
            log.warning(
                "unknown record type skipped", log=history.name, type=record_type, records=count
            )
        self._producers.transactions.durable(opened.next_offset)
        return Replayed(self._shard, self._producers, self._applied)

    async def _read(self, name: str, offset: int, end: int) -> None:
        while offset < end:
            rows = await self._logs.read(name, offset, READ_BYTES)
            if not rows:
                raise LoadFailed(f"{name}: nothing at offset {offset}, log end {end}")
            for row in rows:
                try:
                    for _ in self._replay(row):
                        await asyncio.sleep(0)
                except (CorruptRecord, CorruptBatch, ValueError) as error:
                    raise LoadFailed(f"{name} at offset {row.base_offset}: {error}") from error
                except Exception as error:
                    # A bug of ours. It must fail this shard, not the daemon.
                    log.exception("replay failed", log=name, offset=row.base_offset)
                    reason = f"{type(error).__name__}: {error}"
                    raise LoadFailed(f"{name} at offset {row.base_offset}: {reason}") from error
                offset = row.last_offset + 1

    def _replay(self, row: StoredBatch) -> Iterator[None]:
        """Replay the batches of a row; yields when other work gets a turn. Raises CorruptBatch."""
        for batch in checked_batches(row):
            if batch.header.producer_id >= 0:
                self._producers.replay(batch.payload, batch.header)
            if batch.header.is_control:
                for raw in iter_records(batch):
                    self._marker(batch.header.producer_id, raw)
            else:
                yield from self._data(batch)

    def _marker(self, producer_id: int, raw: BatchRecord) -> None:
        marker = decode_marker(raw)
        if marker is not None:
            self._shard.replay_marker(producer_id, marker.committed)

    def _data(self, batch: Batch) -> Iterator[None]:
        header, records = batch.header, records_data(batch.header, batch.payload)
        at, index = records.start, 0
        if not header.is_transactional:
            while index < header.record_count:
                most = min(header.record_count - index, TURN_RECORDS - self._since)
                run = take_run(self._decoder, header, records, at, index, most)
                if run is None:
                    break
                for group, topic, offsets in run.topics:
                    self._shard.replay_offsets(group, topic, offsets)
                at, index = run.position, index + run.records
                yield from self._count(run.records, run.records)
                if run.records < SHORT_RUN:
                    break  # the next runs are hardly longer
        yield from self._one_by_one(header, records, at, index)

    def _one_by_one(
        self, header: BatchHeader, records: Plain, at: int, index: int
    ) -> Iterator[None]:
        """Replay the records from position `at` on one by one. The first of them is number `index`
        of the batch."""
        base_offset, decode = header.base_offset, self._decoder.decode
        producer = (header.producer_id, header.producer_epoch) if header.is_transactional else None
        read, data = read_records(header, records, at, index), records.data
        while index < header.record_count:
            count = min(header.record_count - index, TURN_RECORDS - self._since)
            offsets: list[int] = []
            decoded: list[Record] = []
            for delta, _, key_at, key_size, size, _, headers_at, _ in islice(read, count):
                if key_size < 0:
                    continue
                key = data[key_at : key_at + key_size]
                value = None if size < 0 else data[headers_at - size : headers_at]
                try:
                    decoded.append(decode(key, value))
                except UnknownRecordType as unknown:
                    number = unknown.record_type
                    self._skipped[number] = self._skipped.get(number, 0) + 1
                else:
                    offsets.append(base_offset + delta)
            self._shard.replay_all(decoded, offsets, producer)
            index += count
            yield from self._count(count, len(decoded))
        next(read, None)  # checks that nothing follows the last record

    def _count(self, read: int, applied: int) -> Iterator[None]:
        self._applied += applied
        self._since += read
        if self._since >= TURN_RECORDS:
            self._since = 0
            yield
