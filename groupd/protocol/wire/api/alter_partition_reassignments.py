"""AlterPartitionReassignments (45), v0-1. Always flexible. v1 says whether the number of
replicas may change (KIP-860)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.replicas import (
    AlterPartitionReassignmentsReply,
    AlterPartitionReassignmentsRequest,
    PartitionOutcome,
    ReassignedTopic,
    TopicOutcomes,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import write_topic_outcomes
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> AlterPartitionReassignmentsRequest:
    timeout_ms = reader.int32()
    allow_change = reader.boolean() if reader.version >= 1 else True
    topics = reader.structs(_topic)
    return AlterPartitionReassignmentsRequest(topics, allow_change, timeout_ms)


def _topic(reader: Reader) -> ReassignedTopic:
    name = reader.string()
    partitions = reader.structs(_partition)
    return ReassignedTopic(name, partitions)


def _partition(reader: Reader) -> tuple[int, tuple[int, ...] | None]:
    partition = reader.int32()
    replicas = reader.nullable_array(Reader.int32)
    return partition, replicas


def write(writer: Writer, reply: AlterPartitionReassignmentsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    if writer.version >= 1:
        writer.boolean(reply.allow_replication_factor_change)
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    yield from write_topic_outcomes(writer, reply.topics)


def failure(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsReply:
    def topic(asked: ReassignedTopic) -> TopicOutcomes:
        partitions = mapped(lambda item: PartitionOutcome(item[0], code, message), asked.partitions)
        return TopicOutcomes(asked.name, partitions)

    return AlterPartitionReassignmentsReply(
        request.allow_replication_factor_change, code, message, mapped(topic, request.topics)
    )


API = api(45, AlterPartitionReassignmentsRequest, "0-1", "0+", read, write, failure)
