"""Offsets that members commit (OffsetCommit), that are committed in transactions (TxnOffsetCommit),
and that are deleted (OffsetDelete).

Commits are a hot path: partitions in their usual form are read, and replies written, by hand.
The replies of the two commits only have errors of partitions, so an error of the whole request is
put on each partition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import islice
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitRows,
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
    failed_commit,
)
from groupd.protocol.primitives import INT32
from groupd.protocol.reader import Reader
from groupd.protocol.schema import Code, Codec, Shape, array, struct
from groupd.protocol.wire.registry import OF_MEMBERS, api, code_only, on_each
from groupd.protocol.writer import ROWS, Writer

_BARE_COMMIT = Struct(">iqixx")
"""Partition, offset, leader epoch; length of the metadata + 1, number of tagged fields."""
_METADATA_AT, _TAGS_AT = 16, 17
"""The positions of the last two."""
_WITHOUT_METADATA = (None, "").__getitem__

_ROW, _ROW_FLEXIBLE = Struct(">ih").pack, Struct(">ihx").pack
"""A result; the flexible one with its number of tagged fields."""
_ROWS_PER_TOPIC = 10
"""To write a topic takes about as long as to write this many of its rows."""


def _read_partitions(
    reader: Reader, one_by_one: Callable[[Reader], Sequence[CommitPartition]]
) -> CommitRows:
    """Reads all partitions of a topic at once if none has metadata, as in most requests: then all
    have the smallest size. Otherwise it uses `one_by_one`. (The flexible versions of both APIs have
    leader epochs.)"""
    start, items, size = reader.at, reader.items, _BARE_COMMIT.size
    count = reader.array_length(size)
    if count > 0:
        at = reader.at
        end = at + count * size
        rows = reader.data[at:end]
        lengths = rows[_METADATA_AT::size]
        if max(lengths) <= 1 and not any(rows[_TAGS_AT::size]):
            reader.at = end
            numbers, offsets, epochs = zip(*_BARE_COMMIT.iter_unpack(rows), strict=True)
            return CommitRows(numbers, offsets, epochs, tuple(map(_WITHOUT_METADATA, lengths)))
    reader.at, reader.items = start, items
    return CommitRows.of(one_by_one(reader))


def _partitions(of: Shape) -> Codec:
    """The partitions of a topic in a request. `of`: the description of one partition."""
    items = array(of)

    def read(code: Code) -> str:
        if not code.flexible:
            return f"{code.bind(CommitRows.of)}({items.read(code)})"
        inner = code.inner()
        one_by_one = inner.function("r", (f"return {items.read(inner)}",))
        return f"{code.bind(_read_partitions)}(r, {code.bind(one_by_one)})"

    return items._replace(read=read, inline=None)


def _writer(
    *, throttle_from: int, id_from: int
) -> Callable[[Writer, OffsetCommitReply | TxnOffsetCommitReply], Generator[None, None, None]]:
    """Returns the function that writes the replies of one of the two APIs: the result of each
    partition. It yields now and then if there are many. `throttle_from`, `id_from`: the first
    versions with a throttle time, and with ids of topics."""

    def write(
        writer: Writer, reply: OffsetCommitReply | TxnOffsetCommitReply
    ) -> Generator[None, None, None]:
        version, buffer = writer.version, writer.buffer
        pack, room = _ROW_FLEXIBLE if writer.flexible else _ROW, ROWS
        if version >= throttle_from:
            buffer += INT32.pack(writer.throttle_ms)
        writer.array_length(len(reply.topics))
        for topic in reply.topics:
            if version >= id_from:
                buffer += topic.topic_id
            else:
                writer.string(topic.name)
            writer.array_length(len(topic.partitions))
            rest, left = iter(topic.partitions), len(topic.partitions)
            while left > 0:
                some = [pack(p.partition, p.error) for p in islice(rest, max(room, 1))]
                buffer += b"".join(some)
                left -= len(some)
                room -= len(some)
                if room <= 0:
                    yield
                    room = ROWS
            room -= _ROWS_PER_TOPIC
            writer.end()

    return write


def _failed(topic: CommitTopic, code: ErrorCode, _: str | None) -> TopicErrors:
    return failed_commit(topic, code)


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
    write=_writer(throttle_from=3, id_from=10),
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
    write=_writer(throttle_from=0, id_from=6),
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
