"""ElectLeaders (43), v0-2. v1 adds the type of election (KIP-460), v2 is flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.replicas import (
    ElectLeadersReply,
    ElectLeadersRequest,
    PartitionOutcome,
    TopicOutcomes,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.outcomes import write_topic_outcomes
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 2
_PREFERRED = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ElectLeadersRequest:
    election_type = reader.int8() if reader.version >= 1 else _PREFERRED
    topics = reader.nullable_array(_topic)
    timeout_ms = reader.int32()
    reader.end()
    return ElectLeadersRequest(election_type, topics, timeout_ms)


def _topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    name = reader.string()
    partitions = reader.int32_array()
    reader.end()
    return name, partitions


def encode(reply: ElectLeadersReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    if version >= 1:
        writer.int16(reply.error)
    write_topic_outcomes(writer, reply.topics)
    writer.end()
    return writer.buffer


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


API = Api(43, "ElectLeaders", 0, 2, _FLEXIBLE_FROM, ElectLeadersRequest, decode, encode, failure)
