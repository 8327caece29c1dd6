"""Parts of requests and replies that several APIs share: resources, partitions, commits."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    PartitionError,
    TopicErrors,
)
from groupd.protocol.messages.replicas import TopicOutcomes
from groupd.protocol.messages.topics import (
    AlterConfigsReply,
    AlterConfigsRequest,
    AlteredResource,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.primitives import Reader, Writer

_COMMIT = Struct(">iq")
_COMMIT_WITH_EPOCH = Struct(">iqi")
_BARE_COMMIT = Struct(">iqiBB")
"""Partition, offset, leader epoch, length of the metadata + 1, number of tagged fields."""


def read_named_partitions(reader: Reader) -> tuple[str, tuple[int, ...]]:
    """Reads a topic with some of its partitions."""
    return reader.string(), reader.int32_array()


def write_altered(writer: Writer, reply: AlterConfigsReply) -> None:
    """Writes the reply to AlterConfigs or IncrementalAlterConfigs."""
    writer.int32(0)
    for result in writer.structs(reply.results):
        writer.int16(result.error)
        writer.nullable_string(result.error_message)
        writer.int8(result.resource_type)
        writer.string(result.name)


def alter_failure(
    request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    code: ErrorCode,
    message: str | None,
) -> AlterConfigsReply:
    """The same error for every resource of the request."""
    return AlterConfigsReply(
        tuple(
            AlteredResource(resource.resource_type, resource.name, code, message)
            for resource in request.resources
        )
    )


def write_topic_outcomes(writer: Writer, topics: Sequence[TopicOutcomes]) -> None:
    """Writes topics with an error for each partition, as ElectLeaders and
    AlterPartitionReassignments answer."""
    for topic in writer.structs(topics):
        writer.string(topic.name)
        for outcome in writer.structs(topic.partitions):
            writer.int32(outcome.partition)
            writer.int16(outcome.error)
            writer.nullable_string(outcome.error_message)


def read_commit_topics(reader: Reader, *, epoch_from: int, id_from: int) -> tuple[CommitTopic, ...]:
    """Reads the topics of OffsetCommit and TxnOffsetCommit. `epoch_from`, `id_from`: the versions
    from which partitions have a leader epoch, and topics an id instead of a name."""
    with_epoch = reader.version >= epoch_from
    by_id = reader.version >= id_from

    def topic(reader: Reader) -> CommitTopic:
        name = "" if by_id else reader.string()
        topic_id = reader.uuid() if by_id else NO_TOPIC_ID
        bare = _read_bare_partitions(reader) if reader.flexible else ()
        read = _read_partition if with_epoch else _read_partition_without_epoch
        return CommitTopic(name, bare or reader.structs(read), topic_id)

    return reader.structs(topic)


def _read_partition(reader: Reader) -> CommitPartition:
    number, offset, leader_epoch = reader.unpack(_COMMIT_WITH_EPOCH)
    return CommitPartition(number, offset, leader_epoch, reader.nullable_string())


def _read_partition_without_epoch(reader: Reader) -> CommitPartition:
    number, offset = reader.unpack(_COMMIT)
    return CommitPartition(number, offset, metadata=reader.nullable_string())


def _read_bare_partitions(reader: Reader) -> tuple[CommitPartition, ...]:
    """Reads all partitions of a topic at once if none has metadata, which is the usual case: then
    all have the same size. Otherwise it returns nothing and leaves the reader as it was. (Both APIs
    have leader epochs where they are flexible.)"""
    start = reader.at
    count = reader.length()
    at = reader.at
    end = at + count * _BARE_COMMIT.size
    if count > 0 and end <= len(reader.data) and reader.data[at + _COMMIT_WITH_EPOCH.size] <= 1:
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
    reader.at = start
    return ()


def write_commit_topics(writer: Writer, topics: Sequence[TopicErrors], *, id_from: int) -> None:
    """Writes the result of each partition, in the replies to the same two APIs."""
    pack = writer.packer("ih")
    for topic in writer.structs(topics):
        if writer.version >= id_from:
            writer.uuid(topic.topic_id)
        else:
            writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        writer.buffer += b"".join([pack(p.partition, p.error) for p in topic.partitions])


def commit_failure(topics: Sequence[CommitTopic], code: ErrorCode) -> tuple[TopicErrors, ...]:
    """The same error on every partition: these APIs have no error of the whole request."""
    return tuple(
        TopicErrors(
            topic.name,
            tuple([PartitionError(p.partition, code) for p in topic.partitions]),
            topic.topic_id,
        )
        for topic in topics
    )
