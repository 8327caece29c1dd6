"""DescribeQuorum (55), v0-2. Always flexible. v1 adds times (KIP-836), v2 messages, directories and
the controllers' addresses (KIP-853)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.messages.quorum import (
    DescribeQuorumReply,
    DescribeQuorumRequest,
    QuorumPartition,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_and_message
from groupd.protocol.writer import Writer

_LISTENER = "PLAINTEXT"


def read(reader: Reader) -> DescribeQuorumRequest:
    topics = reader.structs(_topic)
    return DescribeQuorumRequest(topics)


def _topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    name = reader.string()
    partitions = reader.structs(Reader.int32)
    return name, partitions


def write(writer: Writer, reply: DescribeQuorumReply) -> Generator[None, None, None]:
    writer.int16(reply.error)
    if writer.version >= 2:
        writer.nullable_string(reply.error_message)
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)
    if writer.version >= 2:
        for node in writer.structs(reply.nodes):
            writer.int32(node.node_id)
            writer.array_length(1)
            writer.string(_LISTENER)
            writer.string(node.host)
            writer.uint16(node.port)
            writer.end()


def _write_topic(
    writer: Writer, topic: tuple[str, tuple[QuorumPartition, ...]]
) -> Generator[None, None, None]:
    name, partitions = topic
    writer.string(name)
    yield from writer.structs_in_steps(partitions, _write_partition)


def _write_partition(writer: Writer, partition: QuorumPartition) -> None:
    writer.int32(partition.partition)
    writer.int16(partition.error)
    if writer.version >= 2:
        writer.nullable_string(partition.error_message)
    writer.int32(partition.leader_id)
    writer.int32(partition.leader_epoch)
    writer.int64(partition.high_watermark)
    for replica in writer.structs(partition.voters):
        writer.int32(replica.replica_id)
        if writer.version >= 2:
            writer.uuid(replica.directory_id)
        writer.int64(replica.log_end_offset)
        if writer.version >= 1:
            writer.int64(replica.last_fetch_ms)
            writer.int64(replica.last_caught_up_ms)
    writer.array_length(0)  # observers


API = api(
    55, DescribeQuorumRequest, "0-2", "0+", read, write, code_and_message(DescribeQuorumReply)
)
