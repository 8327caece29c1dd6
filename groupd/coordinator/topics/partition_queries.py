"""What clients ask about single partitions: ListOffsets (2), OffsetForLeaderEpoch (23) and
DescribeProducers (61)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from groupd.coordinator.core.slices import Pace, repeated_in_steps, sorted_in_steps
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.producers.producer_state import ProducerEntry
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.topics.checks import check_topic_access
from groupd.coordinator.topics.names import check_topic_name
from groupd.coordinator.topics.partition import ReadableLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.time_search import Found, TimeSearch
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
from groupd.storage.log import LogError

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
"""The first version of ListOffsets in which each of these special timestamps may be asked for."""


async def answer_each(
    partitions: Partitions,
    pace: Pace,
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
    """Where an epoch ends, for consumers that check whether the log was truncated."""

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
    asked for twice is answered once."""
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
    """Offsets by time, or by name (earliest, latest, ...).

    READ_COMMITTED ends at the last stable offset. A timestamp is answered with the first record at
    or after it. Where a batch cannot be decompressed, or unpacks to too much, its base offset is
    the answer: a reader that begins there misses nothing.
    """
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
) -> Found | None:
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
