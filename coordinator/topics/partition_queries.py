"""What clients ask about single partitions: ListOffsets (2), OffsetForLeaderEpoch (23) and
DescribeProducers (61)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from groupd.coordinator.core.types import Operation, RequestContext
from groupd.coordinator.topics.checks import check_topic_access
from groupd.coordinator.topics.names import LEADER_EPOCH, check_topic_name
from groupd.coordinator.topics.partition import ReadableLog, check_leader_epoch, end_of_epoch
from groupd.coordinator.topics.partitions import Partitions
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
from groupd.protocol.messages.producers import (
    ActiveProducer,
    DescribedPartition,
    DescribedProducersTopic,
    DescribeProducersReply,
    DescribeProducersRequest,
)
from groupd.protocol.records.batch import CorruptBatch, iter_batches, iter_records, parse_header
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.storage.log import LogCorrupt, LogError

Answer = TypeVar("Answer")
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
"""From which version of ListOffsets on an offset may be asked for by this name."""

_SCAN_BYTES = 1 << 20

_Found = tuple[int, int]
"""(timestamp ms, offset)"""


async def answer_each(
    partitions: Partitions,
    topics: Iterable[Any],
    answer: Callable[[str, Any], Awaitable[Answer]],
    refused: Callable[[Any, ApiError], Answer],
    topic_answer: Callable[[str, tuple[Answer, ...]], TopicAnswer],
) -> tuple[TopicAnswer, ...]:
    """The topics of a reply, in the order of the request's `topics` (`name`, `partitions`). What
    `answer(topic name, partition as asked)` raises as ApiError or LogError is put into the reply by
    `refused(partition as asked, error)`."""
    answers = []
    for topic in topics:
        found = []
        for asked in topic.partitions:
            try:
                found.append(await answer(topic.name, asked))
            except (ApiError, LogError) as error:
                found.append(refused(asked, partitions.refusal(error)))
        answers.append(topic_answer(topic.name, tuple(found)))
    return tuple(answers)


# OffsetForLeaderEpoch -----------------------------------------------------------------------


async def offsets_for_leader_epochs(
    partitions: Partitions, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochReply:
    """Where an epoch ends, for consumers that check whether the log was truncated."""

    async def end(name: str, asked: LeaderEpochPartition) -> EpochEndOffset:
        check_topic_access(context, Operation.DESCRIBE, name)
        topic = partitions.resolve_name(name, asked.partition)
        log = await partitions.readable(topic, asked.partition)
        check_leader_epoch(asked.current_leader_epoch)
        epoch, end_offset = end_of_epoch(log, asked.leader_epoch)
        return EpochEndOffset(asked.partition, leader_epoch=epoch, end_offset=end_offset)

    def refused(asked: LeaderEpochPartition, error: ApiError) -> EpochEndOffset:
        return EpochEndOffset(asked.partition, error.code)

    return OffsetForLeaderEpochReply(
        await answer_each(partitions, request.topics, end, refused, EpochEndTopic)
    )


# DescribeProducers --------------------------------------------------------------------------


async def describe_producers(
    partitions: Partitions, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersReply:
    """The producers that a partition's log knows, and their open transactions."""

    async def producers(name: str, partition: int) -> DescribedPartition:
        check_topic_name(name)
        check_topic_access(context, Operation.READ, name)
        topic = partitions.resolve_name(name, partition)
        log = await partitions.readable(topic, partition)
        active = (
            ActiveProducer(
                producer_id,
                entry.epoch,
                entry.last_sequence,
                entry.last_timestamp_ms,
                entry.coordinator_epoch,
                -1 if entry.transaction_offset is None else entry.transaction_offset,
            )
            for producer_id, entry in log.producers.active()
        )
        return DescribedPartition(partition, producers=tuple(active))

    def refused(partition: int, error: ApiError) -> DescribedPartition:
        return DescribedPartition(partition, error.code, error.message)

    return DescribeProducersReply(
        await answer_each(partitions, request.topics, producers, refused, DescribedProducersTopic)
    )


# ListOffsets --------------------------------------------------------------------------------


async def list_offsets(
    partitions: Partitions, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsReply:
    """Offsets by time, or by name (earliest, latest, ...).

    READ_COMMITTED ends at the last stable offset. A timestamp is answered with the first record at
    or after it. Where a batch cannot be decompressed, its base offset is the answer: a reader that
    begins there misses nothing.
    """
    counts = Counter(
        (topic.name, asked.partition) for topic in request.topics for asked in topic.partitions
    )

    async def listed(name: str, asked: ListOffsetsPartition) -> ListedOffset:
        if counts[name, asked.partition] > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        check_topic_access(context, Operation.DESCRIBE, name)
        topic = partitions.resolve_name(name, asked.partition)
        least = _MIN_VERSIONS.get(asked.timestamp_ms, 0)
        if asked.timestamp_ms < EARLIEST_PENDING_UPLOAD or context.api_version < least:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        log = await partitions.readable(topic, asked.partition)
        check_leader_epoch(asked.current_leader_epoch)
        committed = request.isolation_level == READ_COMMITTED
        end_offset = log.last_stable_offset if committed else log.high_watermark
        found = await _find(log, asked.timestamp_ms, end_offset)
        if found is None:
            return ListedOffset(asked.partition)
        return ListedOffset(
            asked.partition, timestamp_ms=found[0], offset=found[1], leader_epoch=LEADER_EPOCH
        )

    def refused(asked: ListOffsetsPartition, error: ApiError) -> ListedOffset:
        return ListedOffset(asked.partition, error.code)

    return ListOffsetsReply(
        await answer_each(partitions, request.topics, listed, refused, ListedOffsetsTopic)
    )


async def _find(log: ReadableLog, timestamp_ms: int, end_offset: int) -> _Found | None:
    if timestamp_ms == LATEST:
        return -1, end_offset
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.start_offset
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None
    if timestamp_ms == MAX_TIMESTAMP:
        found = await _max_timestamp(log)
    else:
        found = await _at_or_after(log, timestamp_ms, end_offset)
    return None if found is None or found[1] >= end_offset else found


async def _max_timestamp(log: ReadableLog) -> _Found | None:
    batch = await log.with_max_timestamp()
    if batch is None or batch.max_timestamp_ms < 0:
        return None
    return _first_in_row(batch.payload, batch.max_timestamp_ms, log.start_offset)


async def _at_or_after(log: ReadableLog, timestamp_ms: int, end_offset: int) -> _Found | None:
    batch = await log.first_at_or_after(timestamp_ms)
    if batch is None:
        return None
    found = _first_in_row(batch.payload, timestamp_ms, log.start_offset)
    offset = batch.last_offset + 1
    # When DeleteRecords has cut the batch in two, or the cleaner was there, the matching record can
    # be gone.
    while found is None and offset < end_offset:
        payloads = await log.read(offset, _SCAN_BYTES, min_one=True)
        if not payloads:
            return None
        for payload in payloads:
            found = found or _first_in_row(payload, timestamp_ms, log.start_offset)
        offset = parse_header(payloads[-1]).next_offset
    return found


def _first_in_row(payload: bytes, timestamp_ms: int, start_offset: int) -> _Found | None:
    """The first record of the batches of one row that is at or after both."""
    for batch in iter_batches(payload):
        header = batch.header
        if header.max_timestamp_ms < timestamp_ms:
            continue
        try:
            for record in iter_records(batch):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return record.timestamp_ms, record.offset
        except UnsupportedCodec:
            return header.max_timestamp_ms, max(header.base_offset, start_offset)
        except CorruptBatch as error:
            raise LogCorrupt(str(error)) from error
    return None
