"""Whole-request refusals of the offset APIs: where each of them puts an error
(docs/spec/offsets-and-log.md#2.2).

Used by the handlers for group errors and by the shell for shards that are loading, elsewhere or
failed.
"""

from __future__ import annotations

from collections.abc import Iterable

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import (
    CommitTopic,
    FetchedGroup,
    FetchedOffset,
    FetchedTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    OffsetFetchGroup,
    PartitionError,
    TopicErrors,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
)


def on_every_partition(topics: Iterable[CommitTopic], code: ErrorCode) -> tuple[TopicErrors, ...]:
    return tuple(
        TopicErrors(
            topic.name,
            tuple(PartitionError(entry.partition, code) for entry in topic.partitions),
            topic.topic_id,
        )
        for topic in topics
    )


def refuse_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitReply:
    return OffsetCommitReply(on_every_partition(request.topics, code))


def refuse_txn_commit(
    request: TxnOffsetCommitRequest, code: ErrorCode, api_version: int
) -> TxnOffsetCommitReply:
    """Producers before v2 do not know COORDINATOR_LOAD_IN_PROGRESS: they get 15."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < 2:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitReply(on_every_partition(request.topics, code))


def refuse_fetch(request: OffsetFetchGroup, code: ErrorCode, api_version: int) -> FetchedGroup:
    """v1 has no group error: it stands on each partition asked for."""
    if api_version >= 2:
        return FetchedGroup(request.group_id, error=code)
    topics = tuple(
        FetchedTopic(
            topic.name,
            tuple(FetchedOffset(partition, error=code) for partition in topic.partitions),
        )
        for topic in request.topics or ()
    )
    return FetchedGroup(request.group_id, topics, code)


def refuse_delete(code: ErrorCode) -> OffsetDeleteReply:
    return OffsetDeleteReply(code)
