"""What an API is, and how its bodies are read and written.

Each `api/<name>.py` defines one `API`. ApiVersions is derived from the table of all of them
(`apis`), so what is advertised is exactly what can be decoded and answered.

Requests are read by hand, not with kio, because kio 0.6 does not survive hostile bytes: it
reserves memory for an announced array length before looking at what is left of the frame (a
30-byte frame aborts the process), rejects unknown tagged fields, which KIP-482 says to skip,
turns a null array into None where the schema forbids null, rejects booleans other than 0 and 1
and 64-bit durations beyond a timedelta. kio stays the oracle of the tests. Bytes after the body
are tolerated, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from inspect import isgeneratorfunction
from typing import Any, TypeVar

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.primitives import READ_ERRORS, Reader, Writer

Request = Any
Reply = Any

Steps = Generator[None, None, bytearray]
"""Makes the body of a reply, with stops where it is long."""

T = TypeVar("T")


class MalformedRequest(Exception):
    """The bytes are no valid request of the version that their header names."""


class Api(Struct, frozen=True):
    """One API key.

    `decode(frame, offset, version)` reads the body at `offset` (after the header) and raises
    MalformedRequest. `encode(reply, version)` gives the body without the header.
    `failure(request, code, message)` is the reply that carries an error of the whole request in
    the place where this API has room for it. `steps(reply, version)` is `encode` with stops, where
    a reply may be long.
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


Failure = Callable[[Any, ErrorCode, str | None], Reply]
Encode = Callable[[Reply, int], bytearray]


def api(
    key: int,
    request_type: type,
    versions: str,
    flexible: str,
    read: Callable[[Reader], Request],
    write: Callable[[Writer, Any], Any],
    failure: Failure,
) -> Api:
    """One API. `versions` and `flexible` are as in Kafka's message definitions, such as "0-4" and
    "4+" or "none". `read` takes the fields of a request off a reader, `write` gives those of a
    reply to a writer; the tagged fields behind them are none of their business. A `write` that is a
    generator is for long replies: it yields where others may have a turn."""
    first, _, last = versions.partition("-")
    max_version = int(last or first)
    flexible_from = max_version + 1 if flexible == "none" else int(flexible.removesuffix("+"))
    steps: Callable[[Reply, int], Steps] | None = None
    if isgeneratorfunction(write):
        encode, steps = _encoders_in_steps(write, flexible_from)
    else:
        encode = _encoder(write, flexible_from)
    return Api(
        key,
        request_type.__name__.removesuffix("Request"),
        int(first),
        max_version,
        flexible_from,
        request_type,
        decoder(read, flexible_from),
        encode,
        failure,
        steps,
    )


def decoder(
    read: Callable[[Reader], T], flexible_from: int, *, whole: bool = True
) -> Callable[[bytes, int, int], T]:
    """Makes `decode(frame, offset, version)` of a function that reads the fields of a request;
    only the first ones unless it is `whole`."""

    def decode(frame: bytes, offset: int, version: int) -> T:
        try:
            reader = Reader(frame, offset, version, version >= flexible_from)
            request = read(reader)
            if whole:
                reader.end()
        except READ_ERRORS as error:
            raise MalformedRequest(f"{type(error).__name__}: {error}") from error
        return request

    return decode


def _encoder(write: Callable[[Writer, Any], None], flexible_from: int) -> Encode:
    def encode(reply: Reply, version: int) -> bytearray:
        writer = Writer(version >= flexible_from, version)
        write(writer, reply)
        writer.end()
        return writer.buffer

    return encode


def _encoders_in_steps(
    write: Callable[[Writer, Any], Generator[None, None, None]], flexible_from: int
) -> tuple[Encode, Callable[[Reply, int], Steps]]:
    """`encode` and `steps` of an API with long replies."""

    def steps(reply: Reply, version: int) -> Steps:
        writer = Writer(version >= flexible_from, version)
        yield from write(writer, reply)
        writer.end()
        return writer.buffer

    def encode(reply: Reply, version: int) -> bytearray:
        return without_stops(steps(reply, version))

    return encode, steps


def code_only(reply_type: Callable[..., Reply]) -> Failure:
    """For replies that begin with an error code."""
    return lambda request, code, message: reply_type(error=code)


def code_and_message(reply_type: Callable[..., Reply]) -> Failure:
    """For replies that begin with an error code and a message."""
    return lambda request, code, message: reply_type(error=code, error_message=message)


def without_stops(steps: Steps) -> bytearray:
    """The body that `steps` makes."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            body: bytearray = ended.value
            return body
