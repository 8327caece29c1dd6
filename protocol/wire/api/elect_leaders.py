"""ElectLeaders (43), v0-2. v1 adds the type of election (KIP-460), v2 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.replicas import (
    ElectLeadersReply,
    ElectLeadersRequest,
    PartitionOutcome,
    TopicOutcomes,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.outcomes import read_named_partitions, write_topic_outcomes
from groupd.protocol.wire.registry import api

_PREFERRED = 0


def read(reader: Reader) -> ElectLeadersRequest:
    election_type = reader.int8() if reader.version >= 1 else _PREFERRED
    topics = reader.nullable_structs(read_named_partitions)
    timeout_ms = reader.int32()
    return ElectLeadersRequest(election_type, topics, timeout_ms)


def write(writer: Writer, reply: ElectLeadersReply) -> None:
    writer.int32(0)
    if writer.version >= 1:
        writer.int16(reply.error)
    write_topic_outcomes(writer, reply.topics)


def failure(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersReply:
    return ElectLeadersReply(
        code,
        tuple(
            TopicOutcomes(
                name, tuple(PartitionOutcome(partition, code, message) for partition in partitions)
            )
            for name, partitions in request.topics or ()
        ),
    )


API = api(43, ElectLeadersRequest, "0-2", "2+", read, write, failure)
