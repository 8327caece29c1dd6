"""Committed offsets: OffsetCommit (8), OffsetFetch (9), OffsetDelete (47), TxnOffsetCommit (28).

A topic is given by `name` or by `topic_id`. After the front end has resolved it, both are set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeVar, overload

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.lazily import MadeAnew, mapped

T = TypeVar("T")


class CommitPartition(Struct, frozen=True, gc=False):
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None


class OffsetRows(MadeAnew[T]):
    """The partitions of a topic, by column: `numbers[i]` has `offsets[i]`. Many of them are read,
    checked and written in a few calls, not in a few for each. A subclass says what an item is."""

    __slots__ = ("leader_epochs", "metadata", "numbers", "offsets")

    item: Callable[..., T]

    def __init__(
        self,
        numbers: Sequence[int] = (),
        offsets: Sequence[int] = (),
        leader_epochs: Sequence[int] = (),
        metadata: Sequence[Any] = (),
    ) -> None:
        self.numbers = numbers
        self.offsets = offsets
        self.leader_epochs = leader_epochs
        self.metadata = metadata

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[T]:
        return map(self.item, self.numbers, self.offsets, self.leader_epochs, self.metadata)


class CommitRows(OffsetRows[CommitPartition]):
    """The partitions of a topic in a commit. A slice of them is of the same type."""

    __slots__ = ()

    item = CommitPartition

    @classmethod
    def of(cls, entries: Sequence[CommitPartition]) -> CommitRows:
        if isinstance(entries, cls):
            return entries
        return cls(*zip(*map(_fields, entries), strict=True))

    @overload
    def __getitem__(self, index: int) -> CommitPartition: ...
    @overload
    def __getitem__(self, index: slice) -> CommitRows: ...
    def __getitem__(self, index: int | slice) -> CommitPartition | CommitRows:
        number, offset = self.numbers[index], self.offsets[index]
        rest = self.leader_epochs[index], self.metadata[index]
        if isinstance(index, slice):
            return CommitRows(number, offset, *rest)  # type: ignore[arg-type]
        return CommitPartition(number, offset, *rest)  # type: ignore[arg-type]


_fields = attrgetter("partition", "offset", "leader_epoch", "metadata")


class CommitTopic(Struct, frozen=True):
    name: str
    partitions: CommitRows
    topic_id: TopicId = NO_TOPIC_ID


def commit_topic(
    name: str, partitions: Sequence[CommitPartition], topic_id: TopicId = NO_TOPIC_ID
) -> CommitTopic:
    return CommitTopic(name, CommitRows.of(partitions), topic_id)


class OffsetCommitRequest(Struct, frozen=True):
    group_id: str
    topics: tuple[CommitTopic, ...]
    generation_or_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1


class PartitionError(Struct, frozen=True, gc=False):
    partition: int
    error: ErrorCode


class TopicErrors(Struct, frozen=True):
    """`partitions` is a `Lazily` if there are many; likewise the other sequences of replies."""

    name: str
    partitions: Sequence[PartitionError]
    topic_id: TopicId = NO_TOPIC_ID


def failed_commit(topic: CommitTopic, code: ErrorCode) -> TopicErrors:
    """The answer for a topic if the whole commit has failed."""
    errors = mapped(lambda number: PartitionError(number, code), topic.partitions.numbers)
    return TopicErrors(topic.name, errors, topic.topic_id)


class OffsetCommitReply(Struct, frozen=True):
    topics: Sequence[TopicErrors]


class TxnOffsetCommitRequest(Struct, frozen=True):
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[CommitTopic, ...]
    generation_or_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class TxnOffsetCommitReply(Struct, frozen=True):
    topics: Sequence[TopicErrors]


class FetchTopic(Struct, frozen=True):
    name: str
    partitions: tuple[int, ...]
    topic_id: TopicId = NO_TOPIC_ID


class OffsetFetchGroup(Struct, frozen=True):
    """`topics` None = all topics; or, if `only` is set, all partitions of the topics in `only`: the
    server asks a shard for many topics in pieces. `member_id` None and epoch -1 = a reader that is
    no member."""

    group_id: str
    topics: tuple[FetchTopic, ...] | None
    member_id: str | None = None
    member_epoch: int = -1
    require_stable: bool = False
    only: tuple[str, ...] | None = None


class OffsetFetchRequest(Struct, frozen=True):
    """In v1-7 `groups` has one entry. Each group is a question of its own: its shard gets one
    `OffsetFetchGroup` and answers with one `FetchedGroup`."""

    groups: tuple[OffsetFetchGroup, ...]


class FetchedOffset(Struct, frozen=True):
    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchedRows(OffsetRows[FetchedOffset]):
    """The offsets of a topic in a reply, none of which has an error."""

    __slots__ = ()

    item = FetchedOffset


class FetchedTopic(Struct, frozen=True):
    name: str
    partitions: Sequence[FetchedOffset]
    topic_id: TopicId = NO_TOPIC_ID


class FetchedGroup(Struct, frozen=True):
    """If it has an error, only v1 shows `topics`, and only later versions show `error`."""

    group_id: str
    topics: Sequence[FetchedTopic] = ()
    error: ErrorCode = ErrorCode.NONE


def failed_fetch(group: OffsetFetchGroup, code: ErrorCode) -> FetchedGroup:
    """The answer for a group that failed as a whole, for every version: v1 has the error on each
    partition."""

    def failed(topic: FetchTopic) -> FetchedTopic:
        offsets = mapped(lambda number: FetchedOffset(number, error=code), topic.partitions)
        return FetchedTopic(topic.name, offsets, topic.topic_id)

    return FetchedGroup(group.group_id, mapped(failed, group.topics or ()), code)


class OffsetFetchReply(Struct, frozen=True):
    groups: Sequence[FetchedGroup]


class OffsetDeleteRequest(Struct, frozen=True):
    group_id: str
    topics: tuple[FetchTopic, ...]


class OffsetDeleteReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    topics: Sequence[TopicErrors] = ()
