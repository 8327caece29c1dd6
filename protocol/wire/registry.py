"""What an API is, and the table of all APIs.

Each `api/<name>.py` defines one `API`. ApiVersions is derived from this table, so what is
advertised is exactly what can be decoded and answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.wire.encode import Steps

Request = Any
Reply = Any


class Api(Struct, frozen=True):
    """One API key.

    `decode(frame, offset, version)` reads the body at `offset` (after the header) and raises
    `protocol.wire.reader.MalformedRequest`. `encode(reply, version)` gives the body without
    the header. `failure(request, code, message)` is the reply that carries an error of the
    whole request in the place where this API has room for it. `steps(reply, version)` is `encode`
    with stops, where a reply may be long.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    request_type: type
    decode: Callable[[bytes, int, int], Request]
    encode: Callable[[Reply, int], bytes | bytearray]
    failure: Callable[[Request, ErrorCode, str | None], Reply]
    steps: Callable[[Reply, int], Steps] | None = None

    def flexible(self, version: int) -> bool:
        return version >= self.flexible_from
