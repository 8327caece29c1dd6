"""Decides which requests of one connection may be under way together: those of the same lane (ADR
30).

Kafka works on one request of a connection at a time, and clients rely on that: a client that sends
Produce and then ListOffsets, without waiting in between, would otherwise get an offset from before
its own records. So a request starts when every request before it has been answered. Two kinds are
exceptions: their effects happen in order anyway, and together they can share an fsync.

- Requests of a group's members. The group has been changed or read when `submit` returns, and only
  the reply waits. Each request sees the state that the one before it left.
- Produce with the same transactional id, or without one. Offsets are assigned in the order of
  arrival (`coordinator.topics.produce`). Another transactional id is another lane: while a
  transaction is being verified, requests of others could overtake.
"""

from __future__ import annotations

from groupd.protocol.wire.api import (
    consumer_group_heartbeat,
    heartbeat,
    offset_commit,
    offset_fetch,
    produce,
)
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from groupd.protocol.wire.registry import MalformedRequest

GROUPS = "groups"

_OF_MEMBERS = frozenset(
    api.key.to_bytes(2, "big")
    for api in (
        consumer_group_heartbeat.API,
        heartbeat.API,
        offset_commit.API,
        offset_fetch.API,
    )
)
_PRODUCE = produce.API.key.to_bytes(2, "big")


def lane_of(frame: bytes) -> str | None:
    """The lane of a request; None if it must be the only one under way. `frame`: the request
    without its length field. It may be malformed."""
    key = frame[:2]
    if key in _OF_MEMBERS:
        return GROUPS
    return _lane_of_produce(frame) if key == _PRODUCE else None


def _lane_of_produce(frame: bytes) -> str | None:
    try:
        header = parse_request_header(frame, API_BY_KEY)
        name = produce.transactional_id_of(frame, header.body_offset, header.api_version)
    except MalformedRequest:
        return None
    return "produce" if name is None else f"produce/{name}"
