"""Decides which requests of one connection may be under way together: those of the same lane (ADR
30).

Kafka works on one request of a connection at a time, and clients rely on that: a client that sends
Produce and then ListOffsets, without waiting in between, would otherwise get an offset from before
its own records. So a request starts when every request before it has been answered. Exceptions are
requests whose effects happen in order anyway, and which together can share an fsync. Each API says
so in its row (`Api.lane`); one that says nothing runs alone on its connection.
"""

from __future__ import annotations

from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import parse_request_header
from groupd.protocol.wire.registry import MalformedRequest

_LANES = {api.key.to_bytes(2, "big"): api.lane for api in API_BY_KEY.values()}
_NAMED = {key: lane for key, lane in _LANES.items() if isinstance(lane, str)}
_READ = {key: lane for key, lane in _LANES.items() if callable(lane)}
"""By the first bytes of a frame: lanes that have one name, and those that are read in the frame."""


def lane_of(frame: bytes) -> str | None:
    """The lane of a request; None if it must be the only one under way. `frame`: the request
    without its length field. It may be malformed."""
    key = frame[:2]
    if (name := _NAMED.get(key)) is not None:
        return name
    if (lane := _READ.get(key)) is None:
        return None
    try:
        header = parse_request_header(frame, API_BY_KEY)
        return lane(frame, header.body_offset, header.api_version)
    except MalformedRequest:
        return None
