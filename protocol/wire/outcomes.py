"""Parts of replies that several APIs share: what became of each resource, of each partition."""

from __future__ import annotations

from collections.abc import Sequence

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.replicas import TopicOutcomes
from groupd.protocol.messages.topics import (
    AlterConfigsReply,
    AlterConfigsRequest,
    AlteredResource,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.wire.encode import Writer


def encode_altered(reply: AlterConfigsReply, *, flexible: bool) -> bytearray:
    """The reply to AlterConfigs and to IncrementalAlterConfigs."""
    writer = Writer(flexible=flexible)
    writer.int32(0)
    writer.array_length(len(reply.results))
    for result in reply.results:
        writer.int16(result.error)
        writer.nullable_string(result.error_message)
        writer.int8(result.resource_type)
        writer.string(result.name)
        writer.end()
    writer.end()
    return writer.buffer


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
    """Topics with an error for each partition, as ElectLeaders and AlterPartitionReassignments
    answer."""
    writer.array_length(len(topics))
    for topic in topics:
        writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for outcome in topic.partitions:
            writer.int32(outcome.partition)
            writer.int16(outcome.error)
            writer.nullable_string(outcome.error_message)
            writer.end()
        writer.end()
