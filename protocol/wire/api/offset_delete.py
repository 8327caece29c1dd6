"""OffsetDelete (47), v0, never flexible (KIP-496). The error precedes the throttle time."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import FetchTopic, OffsetDeleteReply, OffsetDeleteRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_NEVER_FLEXIBLE = 1


@decoder(_NEVER_FLEXIBLE)
def decode(reader: Reader) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(reader.string(), reader.array(_read_topic))


def _read_topic(reader: Reader) -> FetchTopic:
    # The structs of the array hold nothing but the partition, so they read as an int32 array.
    return FetchTopic(reader.string(), reader.int32_array())


def encode(reply: OffsetDeleteReply, _: int) -> bytearray:
    writer = Writer(flexible=False)
    writer.int16(reply.error)
    writer.int32(0)
    writer.array_length(len(reply.topics))
    for topic in reply.topics:
        writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for partition in topic.partitions:
            writer.int32(partition.partition)
            writer.int16(partition.error)
    return writer.buffer


def failure(_: OffsetDeleteRequest, code: ErrorCode, __: str | None) -> OffsetDeleteReply:
    return OffsetDeleteReply(code)


API = Api(47, "OffsetDelete", 0, 0, _NEVER_FLEXIBLE, OffsetDeleteRequest, decode, encode, failure)
