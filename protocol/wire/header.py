"""Request headers v0-2 and response headers v0-1.

Request: api key, api version, correlation id; v1 adds the client id; v2 adds tagged fields but
keeps the client id in the older encoding. v2 belongs to the flexible versions of an API, v0
only to ControlledShutdown v0. Response: correlation id; v1 adds tagged fields and belongs to
the flexible versions, except that ApiVersions always answers with v0, so that a client which
does not know our versions yet can read it (KIP-511).
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from protocol.wire.apis import API_BY_KEY
from protocol.wire.reader import MalformedRequest, Reader

_FIXED = Struct(">hhi")
_CLIENT_ID_LENGTH = Struct(">h")
_REPLY_HEAD = Struct(">ii")
# The pad byte is the empty set of tagged fields.
_REPLY_HEAD_TAGGED = Struct(">iix")
_API_VERSIONS = 18
_CONTROLLED_SHUTDOWN = 7


class RequestHeader(NamedTuple):
    """A null client id is None."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def request_header_version(api_key: int, api_version: int) -> int:
    """0, 1 or 2; 1 for an unknown API key, which no body can follow anyway."""
    api = API_BY_KEY.get(api_key)
    if api is not None and api_version >= api.flexible_from:
        return 2
    return 0 if api_key == _CONTROLLED_SHUTDOWN and api_version == 0 else 1


def parse_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The header of a frame (without its length field), and where the body starts in it.

    The caller checks that the API and its version are served. Raises MalformedRequest.
    """
    try:
        api_key, api_version, correlation_id = _FIXED.unpack_from(frame)
        version = request_header_version(api_key, api_version)
        client_id, end = (None, 8) if version == 0 else _client_id(frame)
        if version == 2:
            if frame[end] == 0:
                end += 1
            else:
                reader = Reader(frame, end, api_version, flexible=True)
                reader.end()
                end = reader.at
    except (StructError, IndexError, UnicodeDecodeError) as error:
        raise MalformedRequest(f"header: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), end


def _client_id(frame: bytes) -> tuple[str | None, int]:
    length: int = _CLIENT_ID_LENGTH.unpack_from(frame, 8)[0]
    if length == -1:
        return None, 10
    end = 10 + length
    if length < 0 or end > len(frame):
        raise MalformedRequest(f"client id of {length} bytes, {len(frame) - 10} left")
    return frame[10:end].decode(), end


def reply_header_version(api_key: int, api_version: int) -> int:
    """0 or 1; ApiVersions always 0."""
    if api_key == _API_VERSIONS:
        return 0
    return 1 if api_version >= API_BY_KEY[api_key].flexible_from else 0


def reply_frame(correlation_id: int, body: bytes | bytearray, header_version: int) -> bytes:
    """A whole reply: length, correlation id, no tagged fields for header v1, body."""
    if header_version:
        return _REPLY_HEAD_TAGGED.pack(5 + len(body), correlation_id) + body
    return _REPLY_HEAD.pack(4 + len(body), correlation_id) + body
