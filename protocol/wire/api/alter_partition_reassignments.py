"""AlterPartitionReassignments (45), v0-1. Always flexible. v1 says whether the number of
replicas may change (KIP-860)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.replicas import (
    AlterPartitionReassignmentsReply,
    AlterPartitionReassignmentsRequest,
    PartitionOutcome,
    ReassignedTopic,
    TopicOutcomes,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.outcomes import write_topic_outcomes
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> AlterPartitionReassignmentsRequest:
    timeout_ms = reader.int32()
    allow_change = reader.boolean() if reader.version >= 1 else True
    topics = reader.array(_topic)
    reader.end()
    return AlterPartitionReassignmentsRequest(topics, allow_change, timeout_ms)


def _topic(reader: Reader) -> ReassignedTopic:
    name = reader.string()
    partitions = reader.array(_partition)
    reader.end()
    return ReassignedTopic(name, partitions)


def _partition(reader: Reader) -> tuple[int, tuple[int, ...] | None]:
    partition = reader.int32()
    replicas = reader.nullable_array(Reader.int32)
    reader.end()
    return partition, replicas


def encode(reply: AlterPartitionReassignmentsReply, version: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    if version >= 1:
        writer.boolean(reply.allow_replication_factor_change)
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    write_topic_outcomes(writer, reply.topics)
    writer.end()
    return writer.buffer


def failure(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsReply:
    return AlterPartitionReassignmentsReply(
        request.allow_replication_factor_change,
        code,
        message,
        tuple(
            TopicOutcomes(
                topic.name,
                tuple(PartitionOutcome(number, code, message) for number, _ in topic.partitions),
            )
            for topic in request.topics
        ),
    )


API = Api(
    45,
    "AlterPartitionReassignments",
    0,
    1,
    _FLEXIBLE_FROM,
    AlterPartitionReassignmentsRequest,
    decode,
    encode,
    failure,
)
