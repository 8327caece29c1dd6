"""Heartbeats, the most frequent requests."""

from __future__ import annotations

from struct import Struct

from groupd.protocol.messages.classic_group import HeartbeatReply, HeartbeatRequest
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupd.protocol.schema import struct
from groupd.protocol.wire.registry import OF_MEMBERS, api, code_and_message, code_only
from groupd.protocol.writer import Writer

# The layouts of throttle time and error, and of member epoch and heartbeat interval.
_HEAD = Struct(">ih")
_EPOCH_AND_INTERVAL = Struct(">ii")


# v1 adds throttle time, v3 the instance id, v4 is flexible.
HEARTBEAT = api(
    12,
    "0-4",
    "4+",
    struct(
        HeartbeatRequest,
        "group_id:string generation_id:int32 member_id:string group_instance_id:string?@3+",
    ),
    struct(HeartbeatReply, "throttle@1+ error:error"),
    code_only(HeartbeatReply),
    lane=OF_MEMBERS,
)


def _write(writer: Writer, reply: ConsumerGroupHeartbeatReply) -> None:
    """v0 and v1 have the same reply."""
    buffer = writer.buffer
    buffer += _HEAD.pack(writer.throttle_ms, reply.error)
    writer.nullable_string(reply.error_message)
    writer.nullable_string(reply.member_id)
    buffer += _EPOCH_AND_INTERVAL.pack(reply.member_epoch, reply.heartbeat_interval_ms)
    if reply.assignment is None:
        writer.int8(-1)  # the nullable struct is null
        return
    writer.int8(1)
    for topic in writer.structs(reply.assignment):
        writer.uuid(topic.topic_id)
        writer.int32_array(topic.partitions)
    writer.end()


_TOPIC = struct(TopicPartitions, "topic_id:uuid partitions:[]int32")

# Always flexible (KIP-848). v1 adds the subscribed regex; its member id comes from the client
# (KIP-1082).
CONSUMER_GROUP_HEARTBEAT = api(
    68,
    "0-1",
    "0+",
    struct(
        ConsumerGroupHeartbeatRequest,
        "group_id:string member_id:string member_epoch:int32 instance_id:string? rack_id:string? "
        "rebalance_timeout_ms:int32 subscribed_topic_names:[]string? "
        "subscribed_topic_regex:string?@1+ server_assignor:string? topic_partitions:[]topic?",
        topic=_TOPIC,
    ),
    struct(
        ConsumerGroupHeartbeatReply,
        "throttle error:error error_message:string? member_id:string? member_epoch:int32 "
        "heartbeat_interval_ms:int32 assignment:assignment?",
        assignment=struct(None, "topics:[]topic", topic=_TOPIC),
    ),
    code_and_message(ConsumerGroupHeartbeatReply),
    write=_write,
    lane=OF_MEMBERS,
)
