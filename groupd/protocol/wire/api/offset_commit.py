"""Offsets that members commit (OffsetCommit), that are committed in transactions (TxnOffsetCommit),
and that are deleted (OffsetDelete).

Commits are a hot path: partitions in their usual form are read, and replies written, by hand.
The replies of the two commits only have errors of partitions, so an error of the whole request is
put on each partition.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import islice
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    FetchTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetDeleteReply,
    OffsetDeleteRequest,
    PartitionError,
    TopicErrors,
    TxnOffsetCommitReply,
    TxnOffsetCommitRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.schema import Code, Codec, Shape, array, struct
from groupd.protocol.wire.registry import OF_MEMBERS, api, code_only, on_each
from groupd.protocol.writer import ROWS, Writer

_BARE_COMMIT = Struct(">iqiBB")
"""Partition, offset, leader epoch, length of the metadata + 1, number of tagged fields."""
_METADATA_AT = 16
"""The position of that length."""

_ROWS_PER_TOPIC = 10
"""To write a topic takes about as long as to write this many of its rows."""

_ID_FROM, _TXN_ID_FROM = 10, 6
"""The versions of OffsetCommit and TxnOffsetCommit from which topics have ids, not names."""


def _read_bare_partitions(reader: Reader) -> tuple[CommitPartition, ...]:
    """Reads all partitions of a topic at once if none has metadata, as in most requests: then all
    have the same size. Otherwise it returns an empty tuple and leaves the reader as it was. (The
    flexible versions of both APIs have leader epochs.)"""
    start, items = reader.at, reader.items
    count = reader.length()
    at = reader.at
    end = at + count * _BARE_COMMIT.size
    if count > 0 and end <= len(reader.data) and reader.data[at + _METADATA_AT] <= 1:
        reader.count(count)
        found = [
            CommitPartition(number, offset, leader_epoch, "" if length else None)
            for number, offset, leader_epoch, length, tags in _BARE_COMMIT.iter_unpack(
                reader.data[at:end]
            )
            if length <= 1 and not tags
        ]
        if len(found) == count:
            reader.at = end
            return tuple(found)
    reader.at, reader.items = start, items
    return ()


def _partitions(of: Shape) -> Codec:
    """The partitions of a topic in a request. `of`: the description of one partition."""
    items = array(of)

    def read(code: Code) -> str:
        one_by_one = items.read(code)
        return (
            f"{code.bind(_read_bare_partitions)}(r) or {one_by_one}"
            if code.flexible
            else one_by_one
        )

    return items._replace(read=read)


def _write_topics(
    writer: Writer, topics: Sequence[TopicErrors], *, id_from: int
) -> Generator[None, None, None]:
    """Writes the result of each partition for both APIs. Yields now and then if there are many."""
    pack = writer.packer("ih")
    room = ROWS
    for topic in writer.structs(topics):
        if writer.version >= id_from:
            writer.uuid(topic.topic_id)
        else:
            writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        rest = iter(topic.partitions)
        while some := [pack(p.partition, p.error) for p in islice(rest, max(room, 1))]:
            writer.buffer += b"".join(some)
            room -= len(some)
            if room <= 0:
                yield
                room = ROWS
        room -= _ROWS_PER_TOPIC


def _write(writer: Writer, reply: OffsetCommitReply) -> Generator[None, None, None]:
    if writer.version >= 3:
        writer.throttle_time()
    yield from _write_topics(writer, reply.topics, id_from=_ID_FROM)


def _write_txn(writer: Writer, reply: TxnOffsetCommitReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from _write_topics(writer, reply.topics, id_from=_TXN_ID_FROM)


def _failed(topic: CommitTopic, code: ErrorCode, _: str | None) -> TopicErrors:
    errors = mapped(lambda entry: PartitionError(entry.partition, code), topic.partitions)
    return TopicErrors(topic.name, errors, topic.topic_id)


_ERROR = struct(PartitionError, "partition:int32 error:error")

# v2-4 carry a retention time, v3 adds throttle time, v6 the leader epoch, v7 the instance id, v8 is
# flexible, v9 allows member epochs (KIP-848), v10 names topics by id.
OFFSET_COMMIT = api(
    8,
    "2-10",
    "8+",
    struct(
        OffsetCommitRequest,
        "group_id:string generation_or_epoch:int32 member_id:string group_instance_id:string?@7+ "
        "retention_time_ms:int64@2-4 topics:[]topic",
        topic=struct(
            CommitTopic,
            "name:string@0-9 topic_id:uuid@10+ partitions:partitions",
            partitions=_partitions(
                struct(
                    CommitPartition,
                    "partition:int32 offset:int64 leader_epoch:int32@6+ metadata:string?",
                )
            ),
        ),
    ),
    struct(
        OffsetCommitReply,
        "throttle@3+ topics:[]topic",
        topic=struct(
            TopicErrors, "name:string@0-9 topic_id:uuid@10+ partitions:[]error", error=_ERROR
        ),
    ),
    on_each(OffsetCommitReply, "topics", _failed),
    write=_write,
    lane=OF_MEMBERS,
)

# v2 adds the leader epoch, v3 is flexible and adds generation, member id and instance id, v4 and v5
# only change errors and transactions (KIP-890), v6 names topics by id (KIP-1319).
TXN_OFFSET_COMMIT = api(
    28,
    "0-6",
    "3+",
    struct(
        TxnOffsetCommitRequest,
        "transactional_id:string group_id:string producer_id:int64 producer_epoch:int16 "
        "generation_or_epoch:int32@3+ member_id:string@3+ group_instance_id:string?@3+ "
        "topics:[]topic",
        topic=struct(
            CommitTopic,
            "name:string@0-5 topic_id:uuid@6+ partitions:partitions",
            partitions=_partitions(
                struct(
                    CommitPartition,
                    "partition:int32 offset:int64 leader_epoch:int32@2+ metadata:string?",
                )
            ),
        ),
    ),
    struct(
        TxnOffsetCommitReply,
        "throttle topics:[]topic",
        topic=struct(
            TopicErrors, "name:string@0-5 topic_id:uuid@6+ partitions:[]error", error=_ERROR
        ),
    ),
    on_each(TxnOffsetCommitReply, "topics", _failed),
    write=_write_txn,
)

# Never flexible (KIP-496). The error comes before the throttle time. The struct of a partition is
# only an int32.
OFFSET_DELETE = api(
    47,
    "0",
    "none",
    struct(
        OffsetDeleteRequest,
        "group_id:string topics:[]topic",
        topic=struct(FetchTopic, "name:string partitions:[]int32"),
    ),
    struct(
        OffsetDeleteReply,
        "error:error throttle topics:[]topic",
        topic=struct(TopicErrors, "name:string partitions:[]error", error=_ERROR),
    ),
    code_only(OffsetDeleteReply),
)
