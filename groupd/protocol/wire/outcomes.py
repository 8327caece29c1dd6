"""Parts of requests and replies that several APIs share: resources, partitions, commits."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import cache
from itertools import islice
from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    PartitionError,
    TopicErrors,
)
from groupd.protocol.messages.replicas import PartitionOutcome, TopicOutcomes
from groupd.protocol.messages.topics import (
    AlterConfigsReply,
    AlterConfigsRequest,
    AlteredResource,
    AlterResource,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.writer import ROWS, Writer

_COMMIT = Struct(">iq")
_COMMIT_WITH_EPOCH = Struct(">iqi")
_BARE_COMMIT = Struct(">iqiBB")
"""Partition, offset, leader epoch, length of the metadata + 1, number of tagged fields."""

NEVER = 1 << 15
"""A version above all versions."""

_ROWS_PER_TOPIC = 10
"""A topic takes about as long to write as this many of its rows."""


def read_named_partitions(reader: Reader) -> tuple[str, tuple[int, ...]]:
    """Reads a topic with some of its partitions."""
    return reader.string(), reader.int32_array()


def write_partition_error(writer: Writer, result: tuple[int, ErrorCode]) -> None:
    """Writes a partition and its error."""
    partition, error = result
    writer.int32(partition)
    writer.int16(error)


def write_altered(writer: Writer, reply: AlterConfigsReply) -> Generator[None, None, None]:
    """Writes the reply to AlterConfigs or IncrementalAlterConfigs."""
    writer.throttle_time()
    yield from writer.structs_in_steps(reply.results, _write_altered)


def _write_altered(writer: Writer, result: AlteredResource) -> None:
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

    def failed(asked: AlterResource) -> AlteredResource:
        return AlteredResource(asked.resource_type, asked.name, code, message)

    return AlterConfigsReply(mapped(failed, request.resources))


def write_topic_outcomes(
    writer: Writer, topics: Sequence[TopicOutcomes]
) -> Generator[None, None, None]:
    """Writes topics with an error for each partition, as ElectLeaders and
    AlterPartitionReassignments answer."""
    yield from writer.long_structs_in_steps(topics, _write_outcomes)


def _write_outcomes(writer: Writer, topic: TopicOutcomes) -> Generator[None, None, None]:
    writer.string(topic.name)
    yield from writer.structs_in_steps(topic.partitions, _write_outcome)


def _write_outcome(writer: Writer, outcome: PartitionOutcome) -> None:
    writer.int32(outcome.partition)
    writer.int16(outcome.error)
    writer.nullable_string(outcome.error_message)


def read_commit_topics(reader: Reader, *, epoch_from: int, id_from: int) -> tuple[CommitTopic, ...]:
    """Reads the topics of OffsetCommit and TxnOffsetCommit. `epoch_from`, `id_from`: the versions
    from which partitions have a leader epoch, and topics an id instead of a name."""
    return reader.structs(_commit_topic(reader.version >= epoch_from, reader.version >= id_from))


@cache
def _commit_topic(with_epoch: bool, by_id: bool) -> Callable[[Reader], CommitTopic]:
    def topic(reader: Reader) -> CommitTopic:
        name = "" if by_id else reader.string()
        topic_id = reader.uuid() if by_id else NO_TOPIC_ID
        read = _read_partition if with_epoch else _read_partition_without_epoch
        bare = _read_bare_partitions(reader) if reader.flexible else ()
        return CommitTopic(name, bare or reader.structs(read), topic_id)

    return topic


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
    start, items = reader.at, reader.items
    count = reader.length()
    at = reader.at
    end = at + count * _BARE_COMMIT.size
    if count > 0 and end <= len(reader.data) and reader.data[at + _COMMIT_WITH_EPOCH.size] <= 1:
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


def write_commit_topics(
    writer: Writer, topics: Sequence[TopicErrors], *, id_from: int = NEVER
) -> Generator[None, None, None]:
    """Writes the result of each partition, in the replies to the same two APIs and to
    OffsetDelete, with stops if there are many."""
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


def commit_failure(topics: Sequence[CommitTopic], code: ErrorCode) -> Sequence[TopicErrors]:
    """The same error on every partition: these APIs have no error of the whole request."""

    def failed(topic: CommitTopic) -> TopicErrors:
        errors = mapped(lambda entry: PartitionError(entry.partition, code), topic.partitions)
        return TopicErrors(topic.name, errors, topic.topic_id)

    return mapped(failed, topics)
