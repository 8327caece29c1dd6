"""The client's side of the protocol: requests out, replies in. For commands, and for the calls
between the nodes of a cluster.

Every call uses one fixed version, which Kafka has since 2.8 (calls between brokers: since 4.0) and
still has in 4.x, so nothing is negotiated. A connection checks once, when it is opened, that the
broker has these versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from struct import Struct
from typing import Any, NamedTuple

from groupd.protocol.reader import BadBytes, Reader
from groupd.protocol.writer import Writer

_HEAD = Struct(">ihhi")


class Call(NamedTuple):
    """An API in the one version that is used."""

    key: int
    version: int
    name: str
    flexible: bool = False


API_VERSIONS = Call(18, 0, "ApiVersions")

Versions = dict[int, tuple[int, int]]
"""The lowest and the highest version by the key of the API."""


class Ask(NamedTuple):
    """A call with its body: `write` writes that of the request, `read` reads that of the reply and
    raises READ_ERRORS."""

    api: Call
    write: Callable[[Writer], None]
    read: Callable[[Reader], Any]


def request_frame(
    api: Call, correlation: int, client_id: str, write: Callable[[Writer], None]
) -> bytes:
    """A whole request with its length field. `write` writes the body."""
    writer = Writer(api.flexible, api.version)
    write(writer)
    name = client_id.encode()
    head = len(name).to_bytes(2) + name + (b"\x00" if api.flexible else b"")
    size = _HEAD.size - 4 + len(head) + len(writer.buffer)
    return _HEAD.pack(size, api.key, api.version, correlation) + head + writer.buffer


def reply_reader(api: Call, frame: bytes, correlation: int) -> Reader:
    """A reader of a reply's body. Raises READ_ERRORS; BadBytes if the reply is that to another
    request."""
    reader = Reader(frame, 0, api.version, flexible=api.flexible)
    if reader.int32() != correlation:
        raise BadBytes("replies out of order: is it a Kafka broker?")
    reader.end()
    return reader


def read_versions(reader: Reader) -> Versions:
    """The body of the reply to `API_VERSIONS`."""
    reader.int16()
    return dict(reader.array(lambda r: (r.int16(), (r.int16(), r.int16()))))


def missing(known: Versions, calls: Iterable[Call]) -> Call | None:
    """The first of `calls` that a broker with these versions does not offer."""
    for api in calls:
        low, high = known.get(api.key, (0, -1))
        if not low <= api.version <= high:
            return api
    return None
