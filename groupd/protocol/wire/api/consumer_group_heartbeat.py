"""ConsumerGroupHeartbeat (68), v0-1, flexible (KIP-848). v1 adds the subscribed regex; its
member id comes from the client (KIP-1082)."""

from __future__ import annotations

from struct import Struct

from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import OF_MEMBERS, api, code_and_message
from groupd.protocol.writer import Writer

# Throttle time and error; member epoch and heartbeat interval.
_HEAD = Struct(">ih")
_EPOCH_AND_INTERVAL = Struct(">ii")


def read(reader: Reader) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        reader.string(),
        reader.string(),
        reader.int32(),
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        subscribed_topic_names=reader.nullable_array(Reader.string),
        subscribed_topic_regex=reader.nullable_string() if reader.version >= 1 else None,
        server_assignor=reader.nullable_string(),
        topic_partitions=reader.nullable_structs(_read_topic),
    )


def _read_topic(reader: Reader) -> TopicPartitions:
    return TopicPartitions(reader.uuid(), reader.int32_array())


def write(writer: Writer, reply: ConsumerGroupHeartbeatReply) -> None:
    """v0 and v1 have the same reply."""
    buffer = writer.buffer
    buffer += _HEAD.pack(writer.throttle_ms, reply.error)
    writer.nullable_string(reply.error_message)
    writer.nullable_string(reply.member_id)
    buffer += _EPOCH_AND_INTERVAL.pack(reply.member_epoch, reply.heartbeat_interval_ms)
    if reply.assignment is None:
        writer.int8(-1)  # a nullable struct: null
        return
    writer.int8(1)
    for topic in writer.structs(reply.assignment):
        writer.uuid(topic.topic_id)
        writer.int32_array(topic.partitions)
    writer.end()


API = api(
    68,
    ConsumerGroupHeartbeatRequest,
    "0-1",
    "0+",
    read,
    write,
    code_and_message(ConsumerGroupHeartbeatReply),
    lane=OF_MEMBERS,
)
