"""ElectLeaders (43), v0-2. v1 adds the type of election (KIP-460), v2 is flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.replicas import (
    ElectLeadersReply,
    ElectLeadersRequest,
    PartitionOutcome,
    TopicOutcomes,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import read_named_partitions, write_topic_outcomes
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer

_PREFERRED = 0


def read(reader: Reader) -> ElectLeadersRequest:
    election_type = reader.int8() if reader.version >= 1 else _PREFERRED
    topics = reader.nullable_structs(read_named_partitions)
    timeout_ms = reader.int32()
    return ElectLeadersRequest(election_type, topics, timeout_ms)


def write(writer: Writer, reply: ElectLeadersReply) -> Generator[None, None, None]:
    writer.throttle_time()
    if writer.version >= 1:
        writer.int16(reply.error)
    yield from write_topic_outcomes(writer, reply.topics)


def failure(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersReply:
    def topic(asked: tuple[str, tuple[int, ...]]) -> TopicOutcomes:
        partitions = mapped(lambda item: PartitionOutcome(item, code, message), asked[1])
        return TopicOutcomes(asked[0], partitions)

    return ElectLeadersReply(code, mapped(topic, request.topics or ()))


API = api(43, ElectLeadersRequest, "0-2", "2+", read, write, failure)
