"""The requests that the command line makes; each is made in one fixed version."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.core.offsets.store import TopicPartition as Place
from groupd.coordinator.moves.plan import Current
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Call
from groupd.protocol.writer import Writer

METADATA = Call(3, 12, "Metadata", flexible=True)
FIND_COORDINATOR = Call(10, 2, "FindCoordinator")
LIST_OFFSETS = Call(2, 2, "ListOffsets")
FETCH = Call(1, 4, "Fetch")
OFFSET_COMMIT = Call(8, 7, "OffsetCommit")
OFFSET_FETCH = Call(9, 5, "OffsetFetch")
OFFSET_DELETE = Call(47, 0, "OffsetDelete")

EARLIEST, LATEST = -2, -1


class PartitionMetadata(Struct, frozen=True):
    error: int
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class TopicMetadata(Struct, frozen=True):
    error: int
    name: str
    topic_id: TopicId
    internal: bool
    partitions: tuple[PartitionMetadata, ...]


class ClusterMetadata(Struct, frozen=True):
    """A cluster's brokers and topics. `brokers`: node id -> (host, port)."""

    brokers: Mapping[int, tuple[str, int]]
    topics: Mapping[str, TopicMetadata]


def error_name(code: int) -> str:
    """The error's name in Kafka; an unknown code as a number."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def metadata(
    connection: BlockingConnection, topics: Sequence[str] | None, *, strict: bool = True
) -> ClusterMetadata:
    """The cluster's brokers and topics; None = all topics. Topics that do not exist are absent;
    none is created. `strict`: a topic with any other error is a KafkaError; otherwise it is absent,
    too."""

    def write(writer: Writer) -> None:
        if topics is None:
            writer.null_array()
        else:
            for name in writer.structs(topics):
                writer.uuid(bytes(16))
                writer.nullable_string(name)
        writer.boolean(False)
        writer.boolean(False)
        writer.end()

    def partition(reader: Reader) -> PartitionMetadata:
        error, index, leader = reader.int16(), reader.int32(), reader.int32()
        reader.int32()
        replicas, in_sync = reader.int32_array(), reader.int32_array()
        reader.int32_array()  # offline replicas
        return PartitionMetadata(error, index, leader, replicas, in_sync)

    def topic(reader: Reader) -> TopicMetadata:
        error, name, topic_id = reader.int16(), reader.nullable_string() or "", reader.uuid()
        internal = reader.boolean()
        partitions = reader.structs(partition)
        reader.int32()
        return TopicMetadata(error, name, topic_id, internal, partitions)

    def broker(reader: Reader) -> tuple[int, tuple[str, int]]:
        node_id, host, port = reader.int32(), reader.string(), reader.int32()
        reader.nullable_string()
        return node_id, (host, port)

    def read(reader: Reader) -> ClusterMetadata:
        reader.int32()
        brokers = dict(reader.structs(broker))
        reader.nullable_string()
        reader.int32()
        found = {entry.name: entry for entry in reader.structs(topic)}
        for entry in list(found.values()):
            unknown = entry.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if unknown or (entry.error and not strict):
                del found[entry.name]
            elif entry.error:
                raise KafkaError(f"topic {entry.name}: {error_name(entry.error)}")
        return ClusterMetadata(brokers, found)

    return connection.call(METADATA, write, read)


def find_coordinator(connection: BlockingConnection, group_id: str) -> tuple[str, int]:
    """The host and port of the group's coordinator."""

    def write(writer: Writer) -> None:
        writer.string(group_id)
        writer.int8(0)

    def read(reader: Reader) -> tuple[str, int]:
        reader.int32()
        error = reader.int16()
        reader.nullable_string()
        reader.int32()
        host, port = reader.string(), reader.int32()
        if error:
            raise KafkaError(f"no coordinator of group {group_id}: {error_name(error)}")
        return host, port

    return connection.call(FIND_COORDINATOR, write, read)


def list_offsets(
    connection: BlockingConnection, places: Sequence[Place], timestamp: int
) -> dict[Place, int]:
    """The offsets for `timestamp` by partition: EARLIEST, LATEST, or the first record of that time
    or later, -1 where there is none. Partitions that fail are absent."""

    def write(writer: Writer) -> None:
        def partition(place: Place) -> None:
            writer.int32(place[1])
            writer.int64(timestamp)

        writer.int32(-1)
        writer.int8(0)
        _write_places(writer, places, partition)

    def partition(reader: Reader) -> tuple[int, int, int]:
        index, error = reader.int32(), reader.int16()
        reader.int64()
        return index, error, reader.int64()

    def read(reader: Reader) -> dict[Place, int]:
        reader.int32()
        found = reader.array(lambda r: (r.string(), r.array(partition)))
        return {
            (name, index): offset
            for name, parts in found
            for index, error, offset in parts
            if not error
        }

    return connection.call(LIST_OFFSETS, write, read)


def fetch(
    connection: BlockingConnection, topic: str, partition: int, offset: int, max_bytes: int
) -> bytes:
    """The batches from the one that holds `offset` on; the last one may be cut off."""

    def write(writer: Writer) -> None:
        for value in (-1, 1000, 1, max_bytes):
            writer.int32(value)
        writer.int8(0)

        def fields(_: Place) -> None:
            writer.int32(partition)
            writer.int64(offset)
            writer.int32(max_bytes)

        _write_places(writer, [(topic, partition)], fields)

    def read(reader: Reader) -> bytes:
        reader.int32()
        reader.int32()  # one topic
        reader.string()
        reader.int32()  # one partition
        reader.int32()
        error = reader.int16()
        reader.int64()
        reader.int64()
        reader.nullable_array(lambda r: (r.int64(), r.int64()))
        data = reader.nullable_bytes() or b""
        if error:
            raise KafkaError(f"{topic}-{partition} cannot be read: {error_name(error)}")
        return data

    return connection.call(FETCH, write, read)


def commit_offsets(
    connection: BlockingConnection, group_id: str, offsets: Mapping[Place, Current]
) -> dict[Place, int]:
    """Commit as an operator does: no member, generation -1. Returns an error code for each
    partition."""

    def write(writer: Writer) -> None:
        def partition(place: Place) -> None:
            wanted = offsets[place]
            writer.int32(place[1])
            writer.int64(wanted.offset)
            writer.int32(wanted.leader_epoch)
            writer.nullable_string(wanted.metadata)

        writer.string(group_id)
        writer.int32(-1)
        writer.string("")
        writer.nullable_string(None)
        _write_places(writer, list(offsets), partition)

    def read(reader: Reader) -> dict[Place, int]:
        reader.int32()
        return _read_errors(reader)

    return connection.call(OFFSET_COMMIT, write, read)


def fetch_offsets(connection: BlockingConnection, group_id: str) -> dict[Place, Current]:
    """Everything that the group has committed, by partition."""

    def write(writer: Writer) -> None:
        writer.string(group_id)
        writer.null_array()

    def partition(reader: Reader) -> tuple[int, Current, int]:
        index, offset, epoch = reader.int32(), reader.int64(), reader.int32()
        return index, Current(offset, epoch, reader.nullable_string() or ""), reader.int16()

    def read(reader: Reader) -> dict[Place, Current]:
        reader.int32()
        topics = reader.array(lambda r: (r.string(), r.array(partition)))
        error = reader.int16()
        found = {}
        for name, parts in topics:
            for index, offset, code in parts:
                error = error or code
                found[name, index] = offset
        if error:
            raise KafkaError(f"offsets of {group_id} cannot be read: {error_name(error)}")
        return found

    return connection.call(OFFSET_FETCH, write, read)


def delete_offsets(
    connection: BlockingConnection, group_id: str, places: Sequence[Place]
) -> dict[Place, int]:
    """Delete the offsets. Returns an error code for each partition."""

    def write(writer: Writer) -> None:
        writer.string(group_id)
        _write_places(writer, places, lambda place: writer.int32(place[1]))

    def read(reader: Reader) -> dict[Place, int]:
        error = reader.int16()
        reader.int32()
        if error:
            return dict.fromkeys(places, error)
        return _read_errors(reader)

    return connection.call(OFFSET_DELETE, write, read)


def _write_places(
    writer: Writer, places: Sequence[Place], partition: Callable[[Place], None]
) -> None:
    """Write [topic, [partition]] in the older encoding."""
    by_topic: dict[str, list[Place]] = {}
    for place in places:
        by_topic.setdefault(place[0], []).append(place)

    for name, its_places in writer.structs(by_topic.items()):
        writer.string(name)
        for place in writer.structs(its_places):
            partition(place)


def _read_errors(reader: Reader) -> dict[Place, int]:
    def partition(r: Reader) -> tuple[int, int]:
        return r.int32(), r.int16()

    topics = reader.array(lambda r: (r.string(), r.array(partition)))
    return {(name, index): error for name, parts in topics for index, error in parts}
