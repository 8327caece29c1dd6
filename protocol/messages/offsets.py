"""Committed offsets: OffsetCommit (8), OffsetFetch (9), OffsetDelete (47), TxnOffsetCommit (28).

A topic is named by `name`, by `topic_id`, or (after the front end resolved it) by both.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.frozen import dataclass
from protocol.messages import NO_TOPIC_ID, TopicId


@dataclass(frozen=True, slots=True)
class CommitPartition:
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


@dataclass(frozen=True, slots=True)
class CommitTopic:
    name: str
    partitions: tuple[CommitPartition, ...]
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class OffsetCommitRequest:
    group_id: str
    topics: tuple[CommitTopic, ...]
    generation_or_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1


@dataclass(frozen=True, slots=True)
class PartitionError:
    partition: int
    error: ErrorCode


@dataclass(frozen=True, slots=True)
class TopicErrors:
    name: str
    partitions: tuple[PartitionError, ...]
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class OffsetCommitReply:
    topics: tuple[TopicErrors, ...]


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[CommitTopic, ...]
    generation_or_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class TxnOffsetCommitReply:
    topics: tuple[TopicErrors, ...]


@dataclass(frozen=True, slots=True)
class FetchTopic:
    name: str
    partitions: tuple[int, ...]
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class OffsetFetchGroup:
    """`topics` None = all. `member_id` None and epoch -1 = an anonymous reader."""

    group_id: str
    topics: tuple[FetchTopic, ...] | None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False


@dataclass(frozen=True, slots=True)
class OffsetFetchRequest:
    """v1-7 carry one group; it stands here as the only entry.

    The dispatcher splits it: a shard handles one `OffsetFetchGroup` and answers with one
    `FetchedGroup`.
    """

    groups: tuple[OffsetFetchGroup, ...]


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class FetchedTopic:
    name: str
    partitions: tuple[FetchedOffset, ...]
    topic_id: TopicId = NO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class FetchedGroup:
    """`topics` of a group-level error are empty here; v1 wants the error on each partition
    asked for, which the dispatcher fills in."""

    group_id: str
    topics: tuple[FetchedTopic, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class OffsetFetchReply:
    groups: tuple[FetchedGroup, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteRequest:
    group_id: str
    topics: tuple[FetchTopic, ...]


@dataclass(frozen=True, slots=True)
class OffsetDeleteReply:
    error: ErrorCode = ErrorCode.NONE
    topics: tuple[TopicErrors, ...] = ()
