"""ConsumerGroupHeartbeat (68), v0-1, flexible (KIP-848). v1 adds the subscribed regex; its
member id comes from the client (KIP-1082)."""

from __future__ import annotations

from struct import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0
# What follows the member epoch when nothing has changed: every field null, the timeout -1, no
# tagged fields. Settled members send nothing else, so it is worth one comparison.
_UNCHANGED = (
    b"\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00",
    b"\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00\x00",
)
# Throttle time (always 0) and error; member epoch and heartbeat interval.
_HEAD = Struct(">4xh")
_EPOCH_AND_INTERVAL = Struct(">ii")
# A nullable struct starts with -1 for null and 1 otherwise; then the reply's tagged fields.
_NULL_ASSIGNMENT_END = b"\xff\x00"
_ASSIGNMENT = b"\x01"


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ConsumerGroupHeartbeatRequest:
    group_id = reader.string()
    member_id = reader.string()
    member_epoch = reader.int32()
    if reader.data[reader.at :] == _UNCHANGED[reader.version]:
        return ConsumerGroupHeartbeatRequest(group_id, member_id, member_epoch)
    request = ConsumerGroupHeartbeatRequest(
        group_id,
        member_id,
        member_epoch,
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        subscribed_topic_names=reader.nullable_array(Reader.string),
        subscribed_topic_regex=reader.nullable_string() if reader.version >= 1 else None,
        server_assignor=reader.nullable_string(),
        topic_partitions=reader.nullable_array(_read_topic),
    )
    reader.end()
    return request


def _read_topic(reader: Reader) -> TopicPartitions:
    topic = TopicPartitions(reader.uuid(), reader.int32_array())
    reader.end()
    return topic


def encode(reply: ConsumerGroupHeartbeatReply, _: int) -> bytearray:
    """v0 and v1 answer with the same bytes."""
    writer = Writer(flexible=True)
    buffer = writer.buffer
    buffer += _HEAD.pack(reply.error)
    writer.nullable_string(reply.error_message)
    writer.nullable_string(reply.member_id)
    buffer += _EPOCH_AND_INTERVAL.pack(reply.member_epoch, reply.heartbeat_interval_ms)
    if reply.assignment is None:
        buffer += _NULL_ASSIGNMENT_END
        return buffer
    buffer += _ASSIGNMENT
    writer.array_length(len(reply.assignment))
    for topic in reply.assignment:
        buffer += topic.topic_id
        writer.int32_array(topic.partitions)
        writer.end()
    # One end for the assignment, one for the reply.
    writer.end()
    writer.end()
    return buffer


def failure(
    _: ConsumerGroupHeartbeatRequest, code: ErrorCode, message: str | None
) -> ConsumerGroupHeartbeatReply:
    return ConsumerGroupHeartbeatReply(code, message)


API = Api(
    68,
    "ConsumerGroupHeartbeat",
    0,
    1,
    _FLEXIBLE_FROM,
    ConsumerGroupHeartbeatRequest,
    decode,
    encode,
    failure,
)
