"""Request frames of the load generator, ready to send, and the one reply that it looks into.

A frame has its correlation id at bytes 8 to 12, so repeating a request is one slice assignment.
"""

from __future__ import annotations

import struct

from msgspec import Struct

from groupd.protocol.reader import Reader
from groupd.protocol.writer import Writer

_HEAD = struct.Struct(">ihhi")
_REPLY_BODY_AT = 9
"""The body of a reply begins behind correlation id, tagged fields and throttle time."""
CLIENT_ID = "groupd-bench"

Assigned = tuple[tuple[bytes, tuple[int, ...]], ...]
"""Partitions by topic id."""


class HeartbeatReply(Struct, frozen=True):
    """What the generator reads of a reply. `assigned` None: nothing new."""

    error: int
    member: str
    epoch: int
    assigned: Assigned | None


def request_frame(api_key: int, version: int, body: bytes | bytearray, flexible: bool) -> bytes:
    """A whole frame with correlation id 0."""
    head = Writer(flexible=False)
    head.nullable_string(CLIENT_ID)
    if flexible:
        head.int8(0)
    length = 8 + len(head.buffer) + len(body)
    return _HEAD.pack(length, api_key, version, 0) + head.buffer + body


def consumer_heartbeat(
    group: str,
    member: str,
    epoch: int,
    topics: tuple[str, ...] | None = None,
    owned: Assigned | None = None,
) -> bytes:
    """ConsumerGroupHeartbeat v1. If `topics` is given, a full request, as at a join."""
    writer = Writer(flexible=True)
    writer.string(group)
    writer.string(member)
    writer.int32(epoch)
    writer.nullable_string(None)
    writer.nullable_string(None)
    writer.int32(-1 if topics is None else 45000)
    if topics is None:
        writer.null_array()
    else:
        writer.array(topics, Writer.string)
    # librdkafka does the same: its mock cluster wants names and expression both or neither.
    writer.nullable_string(None if topics is None else "")
    writer.nullable_string(None)
    if owned is None:
        writer.null_array()
    else:
        writer.array_length(len(owned))
        for topic_id, partitions in owned:
            writer.uuid(topic_id)
            writer.int32_array(partitions)
            writer.end()
    writer.end()
    return request_frame(68, 1, writer.buffer, flexible=True)


def heartbeat_reply(frame: bytes) -> HeartbeatReply:
    """Reads a reply to ConsumerGroupHeartbeat v1, without its length. After an error the rest is
    empty."""
    reader = Reader(frame, _REPLY_BODY_AT, 1, flexible=True)
    error = reader.int16()
    reader.nullable_string()
    member, epoch = reader.nullable_string() or "", reader.int32()
    reader.int32()  # the interval
    assigned = None
    if reader.int8() >= 0:
        length = reader.array_length(18)
        assigned = tuple([_assigned_topic(reader) for _ in range(length)])
    return HeartbeatReply(error, member, epoch, assigned)


def _assigned_topic(reader: Reader) -> tuple[bytes, tuple[int, ...]]:
    topic = reader.uuid(), reader.int32_array()
    reader.end()
    return topic


def offset_commit(
    group: str, topic: str, partitions: int, offset: int, epoch: int = -1, member: str = ""
) -> bytes:
    """OffsetCommit v9, by default without a member: what an admin tool or a simple consumer
    sends."""
    writer = Writer(flexible=True)
    writer.string(group)
    writer.int32(epoch)
    writer.string(member)
    writer.nullable_string(None)
    writer.array_length(1)
    writer.string(topic)
    writer.array_length(partitions)
    for partition in range(partitions):
        writer.int32(partition)
        writer.int64(offset)
        writer.int32(-1)
        writer.nullable_string(None)
        writer.end()
    writer.end()
    writer.end()
    return request_frame(8, 9, writer.buffer, flexible=True)


def offset_fetch(group: str, topic: str, partitions: int) -> bytes:
    """OffsetFetch v6 of one topic: the newest that librdkafka's mock cluster reads."""
    writer = Writer(flexible=True)
    writer.string(group)
    writer.array_length(1)
    writer.string(topic)
    writer.int32_array(range(partitions))
    writer.end()
    writer.end()
    return request_frame(9, 6, writer.buffer, flexible=True)
