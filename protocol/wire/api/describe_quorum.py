"""DescribeQuorum (55), v0-2. Always flexible. v1 adds times (KIP-836), v2 messages, directories and
the controllers' addresses (KIP-853)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.quorum import (
    DescribeQuorumReply,
    DescribeQuorumRequest,
    QuorumPartition,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0
_LISTENER = "PLAINTEXT"


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DescribeQuorumRequest:
    topics = reader.array(_topic)
    reader.end()
    return DescribeQuorumRequest(topics)


def _topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    name = reader.string()
    partitions = reader.array(_partition)
    reader.end()
    return name, partitions


def _partition(reader: Reader) -> int:
    partition = reader.int32()
    reader.end()
    return partition


def encode(reply: DescribeQuorumReply, version: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int16(reply.error)
    if version >= 2:
        writer.nullable_string(reply.error_message)
    writer.array_length(len(reply.topics))
    for name, partitions in reply.topics:
        writer.string(name)
        writer.array_length(len(partitions))
        for partition in partitions:
            _write_partition(writer, partition, version)
        writer.end()
    if version >= 2:
        writer.array_length(len(reply.nodes))
        for node in reply.nodes:
            writer.int32(node.node_id)
            writer.array_length(1)
            writer.string(_LISTENER)
            writer.string(node.host)
            writer.uint16(node.port)
            writer.end()
            writer.end()
    writer.end()
    return writer.buffer


def _write_partition(writer: Writer, partition: QuorumPartition, version: int) -> None:
    writer.int32(partition.partition)
    writer.int16(partition.error)
    if version >= 2:
        writer.nullable_string(partition.error_message)
    writer.int32(partition.leader_id)
    writer.int32(partition.leader_epoch)
    writer.int64(partition.high_watermark)
    writer.array_length(len(partition.voters))
    for replica in partition.voters:
        writer.int32(replica.replica_id)
        if version >= 2:
            writer.uuid(replica.directory_id)
        writer.int64(replica.log_end_offset)
        if version >= 1:
            writer.int64(replica.last_fetch_ms)
            writer.int64(replica.last_caught_up_ms)
        writer.end()
    writer.array_length(0)  # observers
    writer.end()


def failure(
    request: DescribeQuorumRequest, code: ErrorCode, message: str | None
) -> DescribeQuorumReply:
    return DescribeQuorumReply(code, message)


API = Api(
    55, "DescribeQuorum", 0, 2, _FLEXIBLE_FROM, DescribeQuorumRequest, decode, encode, failure
)
