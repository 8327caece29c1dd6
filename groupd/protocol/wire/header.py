"""Request headers v0-2 and response headers v0-1.

Request: api key, api version, correlation id; v1 adds the client id; v2 adds tagged fields but
keeps the client id in the older encoding. v2 belongs to the flexible versions of an API, v0 only to
ControlledShutdown v0.

Response: correlation id; v1 adds tagged fields (`Api.tagged_replies_from`).
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct as Layout
from sys import intern

from msgspec import Struct

from groupd.protocol.reader import READ_ERRORS, Reader, what_is_wrong
from groupd.protocol.wire.registry import Api, MalformedReply, MalformedRequest

_FIXED = Layout(">hhi")
_REQUEST_HEAD = Layout(">ihhih")
_CLIENT_ID_LENGTH = Layout(">h")
_REPLY_HEAD = Layout(">ii")
# The pad byte is an empty set of tagged fields.
_REPLY_HEAD_TAGGED = Layout(">iix")
_CONTROLLED_SHUTDOWN = 7
_MOST_TAGGED_FIELDS = 1000
"""The most tagged fields of a header. The limit is low because headers are read on the event loop;
no client sends more than one or two."""


class RequestHeader(Struct, frozen=True, gc=False):
    """`body_offset`: the position of the body in the frame. A null client id is None."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def parse_request_header(frame: bytes, apis: Mapping[int, Api]) -> RequestHeader:
    """Reads the header of a frame (without its length field). Raises MalformedRequest. The caller
    checks that `apis` has the key and serves the version."""
    try:
        api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None, 8)
        length: int = _CLIENT_ID_LENGTH.unpack_from(frame, 8)[0]
        end = 10 + length
        if length < 0:
            if length != -1:
                raise MalformedRequest(f"client id of {length} bytes")
            client_id = None
            end = 10
        elif end > len(frame):
            raise MalformedRequest(f"client id of {length} bytes, {len(frame) - 10} left")
        else:
            # Members and events keep the client id. Equal client ids share one object to save
            # memory.
            client_id = intern(frame[10:end].decode())
        # The body of an API with an unknown key cannot be read anyway.
        api = apis.get(api_key)
        if api is not None and api_version >= api.flexible_from:
            if frame[end] == 0:
                end += 1
            else:
                reader = Reader(frame, end, api_version, True, _MOST_TAGGED_FIELDS)
                reader.end()
                end = reader.at
    except READ_ERRORS as error:
        raise MalformedRequest(f"header: {what_is_wrong(error)}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, end)


def request_frame(
    api: Api, api_version: int, correlation_id: int, client_id: str, body: bytes | bytearray
) -> bytes:
    """Returns a whole request: length, header v1 or v2, body."""
    name = client_id.encode()
    tagged = b"\x00" if api.flexible(api_version) else b""  # the empty set of tagged fields
    size = _REQUEST_HEAD.size - 4 + len(name) + len(tagged) + len(body)
    head = _REQUEST_HEAD.pack(size, api.key, api_version, correlation_id, len(name))
    return b"".join((head, name, tagged, body))


def reply_frame(correlation_id: int, body: bytes | bytearray, *, tagged: bool) -> bytes | bytearray:
    """Returns a whole reply: length, correlation id, tagged fields if `tagged`, body. If `body` is
    a bytearray it is changed and returned, so that a large body is not in memory twice."""
    if tagged:
        head = _REPLY_HEAD_TAGGED.pack(5 + len(body), correlation_id)
    else:
        head = _REPLY_HEAD.pack(4 + len(body), correlation_id)
    if isinstance(body, bytes):
        return head + body
    body[:0] = head
    return body


def reply_offset(frame: bytes, api: Api, api_version: int) -> int:
    """Returns the position of the body in the frame of a reply (without its length field). Raises
    MalformedReply."""
    if api_version < api.tagged_replies_from:
        return 4
    try:
        reader = Reader(frame, 4, api_version, True, _MOST_TAGGED_FIELDS)
        reader.end()
    except READ_ERRORS as error:
        raise MalformedReply(f"header: {what_is_wrong(error)}") from error
    return reader.at
