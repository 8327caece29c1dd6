"""What an API is, and how its bodies are read and written.

Each `api/<name>.py` defines one `API`. ApiVersions is derived from the table of all of them
(`apis`), so groupd advertises exactly what it can decode and answer.

Requests are read by hand, not with kio, because kio 0.6 fails on hostile bytes. It reserves memory
for an announced array length before it looks at what is left of the frame (a 30-byte frame aborts
the process). It rejects unknown tagged fields, which KIP-482 says to skip, turns a null array into
None where the schema forbids null, and rejects booleans other than 0 and 1 and 64-bit durations
beyond a timedelta. The tests still compare with kio. Bytes after the body are tolerated, as in
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from inspect import isgeneratorfunction
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.reader import (
    NO_LIMIT,
    READ_ERRORS,
    Reader,
    SecretFinder,
    TooManyItems,
    what_is_wrong,
)
from groupd.protocol.writer import Writer

Request = Any
Reply = Any

Steps = Generator[int, None, bytearray]
"""Makes the body of a reply, with stops if it is long; each tells how many bytes there are."""

Lane = str | Callable[[bytes, int, int], str]
"""The name of a lane, or a function of (frame, offset, version) that gives it and raises
MalformedRequest."""

OF_MEMBERS = "members"
"""The lane of requests that change or read one group, each at once when its turn comes; only their
replies wait."""

T = TypeVar("T")


class MalformedRequest(Exception):
    """The bytes are not a valid request of the version in their header."""


class LongRequest(MalformedRequest):
    """The request has more items than `decode` was told to read."""


class Decode(Protocol):
    def __call__(
        self, frame: bytes, offset: int, version: int, max_items: int = NO_LIMIT, /
    ) -> Request: ...


class Counted(Protocol):
    def __call__(
        self, frame: bytes, offset: int, version: int, max_items: int = NO_LIMIT, /
    ) -> tuple[Request, int]: ...


class Encode(Protocol):
    def __call__(self, reply: Reply, version: int, throttle_ms: int = 0, /) -> bytearray: ...


class InSteps(Protocol):
    def __call__(self, reply: Reply, version: int, throttle_ms: int = 0, /) -> Steps: ...


class Api(Struct, frozen=True):
    """One API key.

    `decode(frame, offset, version, max_items)` reads the body at `offset` (behind the header) and
    raises MalformedRequest, or LongRequest if its arrays have more items than that. `counted` is
    the same, but gives (request, number of items).
    `encode(reply, version, throttle_ms)` gives the body without the header; `throttle_ms` is how
    long the client is to wait before its next request. `failure(request, code, message)` is the
    reply with an error of the whole request, in the place that this API has for it; None if the
    request has no reply.
    `steps(reply, version, throttle_ms)` is `encode` with stops, for APIs with long replies.
    `lane`: requests of one connection that are in the same lane may be under way together. None: a
    request starts when all before it are answered (`groupd.coordinator.server.lanes`).
    `hide(frame, offset, version)`, for APIs whose requests hold secrets, gives the frame with zeros
    in their places, or without a body if the body cannot be read.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    request_type: type
    decode: Decode
    counted: Counted
    encode: Encode
    failure: Callable[[Request, ErrorCode, str | None], Reply]
    steps: InSteps | None = None
    lane: Lane | None = None
    hide: Callable[[bytes, int, int], bytes] | None = None

    def flexible(self, version: int) -> bool:
        return version >= self.flexible_from


Failure = Callable[[Any, ErrorCode, str | None], Reply]


def api(
    key: int,
    request_type: type,
    versions: str,
    flexible: str,
    read: Callable[[Reader], Request],
    write: Callable[[Writer, Any], Any],
    failure: Failure,
    *,
    lane: Lane | None = None,
    secrets: bool = False,
) -> Api:
    """Makes one API. `versions` and `flexible` are as in Kafka's message definitions, such as "0-4"
    and "4+" or "none". `read` reads the fields of a request, `write` writes those of a reply;
    neither handles the tagged fields at their end. A `write` that is a generator is for long
    replies: it yields where other work may run. `lane`: see `Api`. `secrets`: `read` takes some
    from the request."""
    first, _, last = versions.partition("-")
    max_version = int(last or first)
    flexible_from = max_version + 1 if flexible == "none" else int(flexible.removesuffix("+"))
    steps: InSteps | None = None
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
        _counting_decoder(read, flexible_from, whole=True),
        encode,
        failure,
        steps,
        lane,
        _hider(read, flexible_from) if secrets else None,
    )


def decoder(
    read: Callable[[Reader], T], flexible_from: int, *, whole: bool = True
) -> Callable[..., T]:
    """Makes a `Decode` from a function that reads the fields of a request; with `whole` false, only
    the first fields."""

    counted = _counting_decoder(read, flexible_from, whole=whole)

    def decode(frame: bytes, offset: int, version: int, max_items: int = NO_LIMIT, /) -> T:
        return counted(frame, offset, version, max_items)[0]

    return decode


def _counting_decoder(
    read: Callable[[Reader], T], flexible_from: int, *, whole: bool
) -> Callable[..., tuple[T, int]]:
    """Makes a `Counted`."""

    def decode(
        frame: bytes, offset: int, version: int, max_items: int = NO_LIMIT, /
    ) -> tuple[T, int]:
        try:
            reader = Reader(frame, offset, version, version >= flexible_from, max_items)
            request = read(reader)
            if whole:
                reader.end()
        except TooManyItems as error:
            raise LongRequest(str(error)) from error
        except READ_ERRORS as error:
            raise MalformedRequest(what_is_wrong(error)) from error
        return request, reader.items

    return decode


def _hider(
    read: Callable[[Reader], object], flexible_from: int
) -> Callable[[bytes, int, int], bytes]:
    def hide(frame: bytes, offset: int, version: int) -> bytes:
        finder = SecretFinder(frame, offset, version, version >= flexible_from)
        try:
            read(finder)
        except READ_ERRORS:
            return frame[:offset]
        hidden = bytearray(frame)
        for start, end in finder.spans:
            hidden[start:end] = bytes(end - start)
        return bytes(hidden)

    return hide


def _encoder(write: Callable[[Writer, Any], None], flexible_from: int) -> Encode:
    def encode(reply: Reply, version: int, throttle_ms: int = 0, /) -> bytearray:
        writer = Writer(version >= flexible_from, version, throttle_ms)
        write(writer, reply)
        writer.end()
        return writer.buffer

    return encode


def _encoders_in_steps(
    write: Callable[[Writer, Any], Generator[None, None, None]], flexible_from: int
) -> tuple[Encode, InSteps]:
    """`encode` and `steps` for an API with long replies."""

    def steps(reply: Reply, version: int, throttle_ms: int = 0, /) -> Steps:
        writer = Writer(version >= flexible_from, version, throttle_ms)
        for _ in write(writer, reply):
            yield len(writer.buffer)
        writer.end()
        return writer.buffer

    def encode(reply: Reply, version: int, throttle_ms: int = 0, /) -> bytearray:
        return without_stops(steps(reply, version, throttle_ms))

    return encode, steps


def code_only(reply_type: Callable[..., Reply]) -> Failure:
    """The `Failure` of an API whose reply begins with an error code."""
    return lambda request, code, message: reply_type(error=code)


def code_and_message(reply_type: Callable[..., Reply]) -> Failure:
    """The `Failure` of an API whose reply begins with an error code and a message."""
    return lambda request, code, message: reply_type(error=code, error_message=message)


def without_stops(steps: Steps) -> bytearray:
    """The body that `steps` makes."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            body: bytearray = ended.value
            return body
