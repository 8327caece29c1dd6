"""Which requests of one connection may be under way together.

Kafka works on one request of a connection at a time, and clients build on that: whoever produces
and then asks for the end of the log, without waiting in between, is told of the new records. So a
request starts when everything before it is answered. The exception are requests whose effect keeps
its order all the same; waiting for the log together, they share an fsync:

- requests of a group's members: the group has changed, or has been read, when `submit` returns, and
  only the reply waits. Each is fenced and answered by the state that the one before has left.
- Produce with the same transactional id, or none: offsets are given out in the order of arrival
  (`coordinator.topics.produce`). A transaction that is being verified would let others overtake.
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
    """Requests of the same lane may be under way together; None: this one is alone. `frame`: a
    request without its length field, which may be malformed."""
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
