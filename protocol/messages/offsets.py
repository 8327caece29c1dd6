"""Committed offsets: OffsetCommit (8), OffsetFetch (9), OffsetDelete (47), TxnOffsetCommit (28).

A topic is named by `name`, by `topic_id`, or (after the front end resolved it) by both.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.values import value


@value
class CommitPartition:
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@value
class CommitTopic:
    name: str
    partitions: tuple[CommitPartition, ...]
    topic_id: TopicId = NO_TOPIC_ID


@value
class OffsetCommitRequest:
    group_id: str
    topics: tuple[CommitTopic, ...]
    generation_or_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1


@value
class PartitionError:
    partition: int
    error: ErrorCode


@value
class TopicErrors:
    name: str
    partitions: tuple[PartitionError, ...]
    topic_id: TopicId = NO_TOPIC_ID


@value
class OffsetCommitReply:
    topics: tuple[TopicErrors, ...]


@value
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[CommitTopic, ...]
    generation_or_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@value
class TxnOffsetCommitReply:
    topics: tuple[TopicErrors, ...]


@value
class FetchTopic:
    name: str
    partitions: tuple[int, ...]
    topic_id: TopicId = NO_TOPIC_ID


@value
class OffsetFetchGroup:
    """`topics` None = all. `member_id` None and epoch -1 = an anonymous reader."""

    group_id: str
    topics: tuple[FetchTopic, ...] | None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


@value
class OffsetFetchRequest:
    """v1-7 carry one group; it stands here as the only entry.

    The dispatcher splits it: a shard handles one `OffsetFetchGroup` and answers with one
    `FetchedGroup`.
    """

    groups: tuple[OffsetFetchGroup, ...]


@value
class FetchedOffset:
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@value
class FetchedTopic:
    """`partitions`: many are a `Lazily`."""

    name: str
    partitions: Sequence[FetchedOffset]
    topic_id: TopicId = NO_TOPIC_ID


@value
class FetchedGroup:
    """`topics` of a group-level error are empty here; v1 wants the error on each partition
    asked for, which the dispatcher fills in."""

    group_id: str
    topics: tuple[FetchedTopic, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@value
class OffsetFetchReply:
    groups: tuple[FetchedGroup, ...]


@value
class OffsetDeleteRequest:
    group_id: str
    topics: tuple[FetchTopic, ...]


@value
class OffsetDeleteReply:
    error: ErrorCode = ErrorCode.NONE
    topics: tuple[TopicErrors, ...] = ()
