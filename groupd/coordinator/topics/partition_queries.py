"""What clients ask about single partitions: ListOffsets (2) with its search by time,
OffsetForLeaderEpoch (23) and DescribeProducers (61).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

from groupd.coordinator.core.slices import Pace, Steps, repeated_in_steps, sorted_in_steps
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.producers.producer_state import ProducerEntry
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.unpacking import Unpacking
from groupd.coordinator.topics.checks import check_topic_access
from groupd.coordinator.topics.partition import ReadableLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.topic import check_topic_name
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    READ_COMMITTED,
    EpochEndOffset,
    EpochEndTopic,
    LeaderEpochPartition,
    ListedOffset,
    ListedOffsetsTopic,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsRequest,
    OffsetForLeaderEpochReply,
    OffsetForLeaderEpochRequest,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.producers import (
    ActiveProducer,
    DescribedPartition,
    DescribedProducersTopic,
    DescribeProducersReply,
    DescribeProducersRequest,
    DescribeProducersTopic,
)
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    CorruptBatch,
    iter_batches,
    parse_header,
    read_records,
)
from groupd.protocol.records.compression import Plain, UnpacksTooLarge, UnsupportedCodec
from groupd.storage.log import LogCorrupt, LogError, StoredBatch

_SCAN_BYTES = 1 << 20
_TURN_BATCHES = 250
_TURN_RECORDS = 2000
"""Batches, or records, that are read before other work gets a turn: about a millisecond."""

TimestampAndOffset = tuple[int, int]
"""(timestamp in ms, offset)"""


class SearchedLog(Protocol):
    @property
    def start_offset(self) -> int: ...
    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]: ...
    async def first_at_or_after(self, timestamp_ms: int) -> StoredBatch | None: ...
    async def with_max_timestamp(self) -> StoredBatch | None: ...


class TimeSearch:
    """Searches logs by time. `unpacked_max_bytes`: batches that unpack to more are not searched."""

    def __init__(self, unpacking: Unpacking, unpacked_max_bytes: int) -> None:
        self._unpacking = unpacking
        self._unpacked_max_bytes = unpacked_max_bytes

    async def latest(self, log: SearchedLog) -> TimestampAndOffset | None:
        """The first record with the largest timestamp. Raises LogError."""
        batch = await log.with_max_timestamp()
        if batch is None or batch.max_timestamp_ms < 0:
            return None
        return await self._in_row(batch.payload, batch.max_timestamp_ms, log.start_offset)

    async def at_or_after(
        self, log: SearchedLog, timestamp_ms: int, end_offset: int
    ) -> TimestampAndOffset | None:
        """The first record at or after `timestamp_ms`, below `end_offset`. Raises LogError."""
        batch = await log.first_at_or_after(timestamp_ms)
        if batch is None:
            return None
        found = await self._in_row(batch.payload, timestamp_ms, log.start_offset)
        offset = batch.last_offset + 1
        # The matching record can be gone, because DeleteRecords has cut the batch in two or the
        # cleaner has removed it.
        while found is None and offset < end_offset:
            payloads = await log.read(offset, _SCAN_BYTES, min_one=True)
            if not payloads:
                return None
            for payload in payloads:
                if found is None:
                    found = await self._in_row(payload, timestamp_ms, log.start_offset)
            offset = parse_header(payloads[-1]).next_offset
        return found

    async def _in_row(
        self, payload: bytes, timestamp_ms: int, start_offset: int
    ) -> TimestampAndOffset | None:
        """The first record in the batches of one row that is at or after `timestamp_ms` and
        `start_offset`."""
        try:
            candidates = await self._unpacking.work.run(_candidates(payload, timestamp_ms))
        except CorruptBatch as error:
            raise LogCorrupt(str(error)) from error
        for header, batch in candidates:

            def steps(
                records: Plain, header: BatchHeader = header
            ) -> Steps[TimestampAndOffset | None]:
                return _first(header, records, timestamp_ms, start_offset)

            try:
                limit = self._unpacked_max_bytes
                found = await self._unpacking.run(header, batch, limit, steps)
            except (UnsupportedCodec, UnpacksTooLarge):
                return header.max_timestamp_ms, max(header.base_offset, start_offset)
            except CorruptBatch as error:
                raise LogCorrupt(str(error)) from error
            if found is not None:
                return found
        return None


def _candidates(payload: bytes, timestamp_ms: int) -> Steps[list[Batch]]:
    """The batches of a row that may hold a record at or after `timestamp_ms`. Raises
    CorruptBatch."""
    found = []
    for count, batch in enumerate(iter_batches(payload), 1):
        if batch.header.max_timestamp_ms >= timestamp_ms:
            found.append(batch)
        if count % _TURN_BATCHES == 0:
            yield
    return found


def _first(
    header: BatchHeader, records: Plain, timestamp_ms: int, start_offset: int
) -> Steps[TimestampAndOffset | None]:
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    append_ms = header.max_timestamp_ms if header.is_log_append_time else None
    for count, (delta, time_delta_ms, *_) in enumerate(read_records(header, records), 1):
        time_ms = base_ms + time_delta_ms if append_ms is None else append_ms
        if time_ms >= timestamp_ms and base_offset + delta >= start_offset:
            return time_ms, base_offset + delta
        if count % _TURN_RECORDS == 0:
            yield
    return None


PartitionAnswer = TypeVar("PartitionAnswer")
TopicAnswer = TypeVar("TopicAnswer")

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(
    -1, -7, -1
)
_MIN_VERSIONS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
"""The first version of ListOffsets that allows each of these special timestamps."""


async def answer_each(
    partitions: Partitions,
    pace: Pace,
    topics: Iterable[Any],
    answer: Callable[[str, Any], Awaitable[PartitionAnswer]],
    refused: Callable[[Any, ApiError], PartitionAnswer],
    topic_answer: Callable[[str, tuple[PartitionAnswer, ...]], TopicAnswer],
) -> tuple[TopicAnswer, ...]:
    """The topics of a reply, in the order of the request's `topics` (`name`, `partitions`). If
    `answer(topic name, partition of the request)` raises ApiError or LogError, the entry is
    `refused(partition of the request, error)`."""
    answers = []
    for topic in topics:
        if pace.due():
            await pace.turn()
        found = []
        for asked in topic.partitions:
            if pace.due():
                await pace.turn()
            try:
                found.append(await answer(topic.name, asked))
            except (ApiError, LogError) as error:
                found.append(refused(asked, partitions.refusal(error)))
        answers.append(topic_answer(topic.name, tuple(found)))
    return tuple(answers)


# OffsetForLeaderEpoch -----------------------------------------------------------------------


async def offsets_for_leader_epochs(
    partitions: Partitions,
    work: LongWork,
    context: RequestContext,
    request: OffsetForLeaderEpochRequest,
) -> OffsetForLeaderEpochReply:
    """Where leader epochs end, for consumers that check whether the log was truncated."""

    any_topic = context.sees(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)

    async def end(name: str, asked: LeaderEpochPartition) -> EpochEndOffset:
        if not any_topic:
            check_topic_access(context, Operation.DESCRIBE, name)
        topic = partitions.resolve_name(name, asked.partition)
        log = await partitions.readable(topic, asked.partition, asked.current_leader_epoch)
        epoch, end_offset = log.epochs.end_of(asked.leader_epoch, log.high_watermark)
        return EpochEndOffset(asked.partition, leader_epoch=epoch, end_offset=end_offset)

    def refused(asked: LeaderEpochPartition, error: ApiError) -> EpochEndOffset:
        return EpochEndOffset(asked.partition, error.code)

    return OffsetForLeaderEpochReply(
        await answer_each(partitions, work.pace(), request.topics, end, refused, EpochEndTopic)
    )


# DescribeProducers --------------------------------------------------------------------------


async def describe_producers(
    partitions: Partitions,
    work: LongWork,
    context: RequestContext,
    request: DescribeProducersRequest,
) -> DescribeProducersReply:
    """The producers that a partition's log knows, and their open transactions. A partition that is
    named twice is answered once."""
    pace = work.pace()
    asked: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        if pace.due():
            await pace.turn()
        numbers = asked.setdefault(topic.name, {})
        for partition in topic.partitions:
            if pace.due():
                await pace.turn()
            numbers[partition] = None
    topics = mapped(lambda one: DescribeProducersTopic(one[0], tuple(one[1])), list(asked.items()))

    async def producers(name: str, partition: int) -> DescribedPartition:
        check_topic_name(name)
        check_topic_access(context, Operation.READ, name)
        topic = partitions.resolve_name(name, partition)
        log = await partitions.readable(topic, partition)
        active = []
        for producer_id, entry in await pace.through(sorted_in_steps(log.producers.active())):
            if pace.due():
                await pace.turn()
            active.append(_active(producer_id, entry))
        return DescribedPartition(partition, producers=tuple(active))

    def refused(partition: int, error: ApiError) -> DescribedPartition:
        return DescribedPartition(partition, error.code, error.message)

    return DescribeProducersReply(
        await answer_each(partitions, pace, topics, producers, refused, DescribedProducersTopic)
    )


def _active(producer_id: int, entry: ProducerEntry) -> ActiveProducer:
    return ActiveProducer(
        producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        -1 if entry.transaction_offset is None else entry.transaction_offset,
    )


# ListOffsets --------------------------------------------------------------------------------


async def list_offsets(
    partitions: Partitions,
    search: TimeSearch,
    work: LongWork,
    context: RequestContext,
    request: ListOffsetsRequest,
) -> ListOffsetsReply:
    """Offsets by time, or by name (earliest, latest ...). For READ_COMMITTED the log ends at the
    last stable offset. The answer to a timestamp is the first record at or after it. If its batch
    cannot be decompressed, or unpacks to too much, the answer is the batch's base offset: a reader
    that begins there misses nothing."""
    pace = work.pace()
    twice = await pace.through(
        repeated_in_steps(
            (topic.name, asked.partition) for topic in request.topics for asked in topic.partitions
        )
    )

    async def listed(name: str, asked: ListOffsetsPartition) -> ListedOffset:
        check_topic_access(context, Operation.DESCRIBE, name)
        if (name, asked.partition) in twice:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        topic = partitions.resolve_name(name, asked.partition)
        least = _MIN_VERSIONS.get(asked.timestamp_ms, 0)
        if asked.timestamp_ms < EARLIEST_PENDING_UPLOAD or context.api_version < least:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        log = await partitions.readable(topic, asked.partition, asked.current_leader_epoch)
        committed = request.isolation_level == READ_COMMITTED
        end_offset = log.last_stable_offset if committed else log.high_watermark
        found = await _find(search, log, asked.timestamp_ms, end_offset)
        if found is None:
            return ListedOffset(asked.partition)
        timestamp_ms, offset = found
        return ListedOffset(
            asked.partition,
            timestamp_ms=timestamp_ms,
            offset=offset,
            leader_epoch=log.epochs.at(offset),
        )

    def refused(asked: ListOffsetsPartition, error: ApiError) -> ListedOffset:
        return ListedOffset(asked.partition, error.code)

    return ListOffsetsReply(
        await answer_each(partitions, pace, request.topics, listed, refused, ListedOffsetsTopic)
    )


async def _find(
    search: TimeSearch, log: ReadableLog, timestamp_ms: int, end_offset: int
) -> TimestampAndOffset | None:
    if timestamp_ms == LATEST:
        return -1, end_offset
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    if timestamp_ms == MAX_TIMESTAMP:
        found = await search.latest(log)
    else:
        found = await search.at_or_after(log, timestamp_ms, end_offset)
    return None if found is None or found[1] >= end_offset else found
