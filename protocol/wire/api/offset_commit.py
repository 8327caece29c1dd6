"""OffsetCommit (8), v2-10. v2-4 carry a retention time, v3 adds throttle time, v6 the leader
epoch, v7 the instance id, v8 is flexible, v9 allows member epochs (KIP-848), v10 names topics by
id instead of name.

There is no error above the partition: an error of the whole request stands on each.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    OffsetCommitReply,
    OffsetCommitRequest,
    PartitionError,
    TopicErrors,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 8
# Results: partition and error; the pad byte is the empty set of tagged fields.
# Partition and offset, from v6 on leader epoch, then length of metadata and number of tags.
_COMMIT = Struct(">iq")
_COMMIT_WITH_EPOCH = Struct(">iqi")
_COMMIT_FLEXIBLE = Struct(">iqiBB")
_RESULT = Struct(">ih").pack
_RESULT_FLEXIBLE = Struct(">ihx").pack


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> OffsetCommitRequest:
    group_id, epoch, member_id, instance_id, retention_ms = _read_head(reader)
    topics = reader.array(_read_topic)
    reader.end()
    return OffsetCommitRequest(group_id, topics, epoch, member_id, instance_id, retention_ms)


def _read_head(reader: Reader) -> tuple[str, int, str, str | None, int]:
    """Group, generation or epoch, member, instance, retention time in ms."""
    version = reader.version
    return (
        reader.string(),
        reader.int32(),
        reader.string(),
        reader.nullable_string() if version >= 7 else None,
        reader.int64() if version <= 4 else -1,
    )


def _read_topic(reader: Reader) -> CommitTopic:
    by_id = reader.version >= 10
    name = "" if by_id else reader.string()
    topic_id = reader.uuid() if by_id else NO_TOPIC_ID
    bare = _read_bare_partitions(reader) if reader.flexible else ()
    partitions = bare or reader.array(_partition_reader(reader))
    reader.end()
    return CommitTopic(name, partitions, topic_id)


def _partition_reader(reader: Reader) -> Callable[[Reader], CommitPartition]:
    if reader.flexible:
        return _read_partition_flexible
    return _read_partition if reader.version >= 6 else _read_partition_without_epoch


def _read_bare_partitions(reader: Reader) -> tuple[CommitPartition, ...]:
    """All at once, if they are as nearly always: without metadata, which makes them one fixed
    layout. Else nothing has been read."""
    start = reader.at
    count = reader.uvarint() - 1
    at = reader.at
    end = at + count * _COMMIT_FLEXIBLE.size
    if count > 0 and end <= len(reader.data) and reader.data[at + 16] <= 1:
        found = [
            CommitPartition(index, offset, leader_epoch, "" if length else None)
            for index, offset, leader_epoch, length, tags in _COMMIT_FLEXIBLE.iter_unpack(
                reader.data[at:end]
            )
            if length <= 1 and not tags
        ]
        if len(found) == count:
            reader.at = end
            return tuple(found)
    reader.at = start
    return ()


def _read_partition_flexible(reader: Reader) -> CommitPartition:
    # Metadata is nearly always null or empty, and then the partition is one fixed layout.
    data, at = reader.data, reader.at
    index, offset, leader_epoch, metadata_length, tagged = _COMMIT_FLEXIBLE.unpack_from(data, at)
    if metadata_length <= 1 and tagged == 0:
        reader.at = at + _COMMIT_FLEXIBLE.size
        return CommitPartition(index, offset, leader_epoch, "" if metadata_length else None)
    reader.at = at + _COMMIT_WITH_EPOCH.size
    partition = CommitPartition(index, offset, leader_epoch, reader.nullable_string())
    reader.end()
    return partition


def _read_partition(reader: Reader) -> CommitPartition:
    index, offset, leader_epoch = reader.unpack(_COMMIT_WITH_EPOCH)
    return CommitPartition(index, offset, leader_epoch, reader.nullable_string())


def _read_partition_without_epoch(reader: Reader) -> CommitPartition:
    index, offset = reader.unpack(_COMMIT)
    return CommitPartition(index, offset, metadata=reader.nullable_string())


def encode(reply: OffsetCommitReply, version: int) -> bytearray:
    flexible = version >= _FLEXIBLE_FROM
    pack = _RESULT_FLEXIBLE if flexible else _RESULT
    writer = Writer(flexible)
    buffer = writer.buffer
    if version >= 3:
        writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        if version >= 10:
            buffer += topic.topic_id
        else:
            writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        buffer += b"".join([pack(p.partition, p.error) for p in topic.partitions])
        writer.end()
    writer.end()
    return buffer


def failure(request: OffsetCommitRequest, code: ErrorCode, _: str | None) -> OffsetCommitReply:
    """The error stands on every partition of the request."""
    return OffsetCommitReply(
        tuple(
            TopicErrors(
                topic.name,
                tuple(PartitionError(p.partition, code) for p in topic.partitions),
                topic.topic_id,
            )
            for topic in request.topics
        )
    )


API = Api(8, "OffsetCommit", 2, 10, _FLEXIBLE_FROM, OffsetCommitRequest, decode, encode, failure)
