"""Replies that refuse a whole request of the offset APIs: where each of them has its error
(docs/spec/offsets-and-log.md#2.2).

The handlers use them for group errors, `runtime` for shards that are loading, that are on another
node, or that have failed.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.offsets import (
    CommitTopic,
    FetchedGroup,
    FetchedOffset,
    FetchedTopic,
    FetchTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    OffsetFetchGroup,
    PartitionError,
    TopicErrors,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
)


def on_every_partition(topics: Sequence[CommitTopic], code: ErrorCode) -> Sequence[TopicErrors]:
    def refused(topic: CommitTopic) -> TopicErrors:
        errors = mapped(lambda entry: PartitionError(entry.partition, code), topic.partitions)
        return TopicErrors(topic.name, errors, topic.topic_id)

    return mapped(refused, topics)


def refuse_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitReply:
    return OffsetCommitReply(on_every_partition(request.topics, code))


def refuse_txn_commit(
    request: TxnOffsetCommitRequest, code: ErrorCode, api_version: int
) -> TxnOffsetCommitReply:
    """The refusal of a TxnOffsetCommit. Producers before v2 do not know
    COORDINATOR_LOAD_IN_PROGRESS: they get 15."""
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < 2:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return TxnOffsetCommitReply(on_every_partition(request.topics, code))


def refuse_fetch(request: OffsetFetchGroup, code: ErrorCode, api_version: int) -> FetchedGroup:
    """The refusal of an OffsetFetch. v1 has no group error, so each partition of the request has
    the error."""
    if api_version >= 2:
        return FetchedGroup(request.group_id, error=code)

    def refused(topic: FetchTopic) -> FetchedTopic:
        offsets = mapped(lambda number: FetchedOffset(number, error=code), topic.partitions)
        return FetchedTopic(topic.name, offsets)

    return FetchedGroup(request.group_id, mapped(refused, request.topics or ()), code)


def refuse_delete(code: ErrorCode) -> OffsetDeleteReply:
    return OffsetDeleteReply(code)
