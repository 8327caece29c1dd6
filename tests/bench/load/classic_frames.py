"""Frames of the classic protocol, ready to send; all in versions without tagged fields."""

from __future__ import annotations

from groupd.protocol.writer import Writer
from tests.bench.frames import request_frame

REBALANCE_MS = 60_000
TYPE = "consumer"
PROTOCOL = "range"
ASSIGNMENT = bytes(10)
"""An assignment of version 0 with no topics and no user data."""


def _subscription(topic: str) -> bytes:
    writer = Writer(flexible=False)
    writer.int16(0)
    writer.array((topic,), Writer.string)
    writer.nullable_bytes(None)
    return bytes(writer.buffer)


def join(group: str, topic: str, member: str, session_ms: int) -> bytes:
    """JoinGroup v3, to which Kafka gives a member id at once; others want it asked for."""
    writer = Writer(flexible=False)
    writer.string(group)
    writer.int32(session_ms)
    writer.int32(REBALANCE_MS)
    writer.string(member)
    writer.string(TYPE)
    writer.array_length(1)
    writer.string(PROTOCOL)
    writer.bytes_(_subscription(topic))
    return request_frame(11, 3, writer.buffer, flexible=False)


def sync(group: str, generation: int, member: str) -> bytes:
    """SyncGroup v2 of a leader who gives itself no partitions, by an assignment that says so: Tansu
    does not take an assignment of no bytes."""
    writer = Writer(flexible=False)
    writer.string(group)
    writer.int32(generation)
    writer.string(member)
    writer.array_length(1)
    writer.string(member)
    writer.bytes_(ASSIGNMENT)
    return request_frame(14, 2, writer.buffer, flexible=False)


def heartbeat(group: str, generation: int, member: str) -> bytes:
    """Heartbeat v2."""
    writer = Writer(flexible=False)
    writer.string(group)
    writer.int32(generation)
    writer.string(member)
    return request_frame(12, 2, writer.buffer, flexible=False)
