"""What an API is, and how its bodies are read and written.

The modules below `api/` describe the messages of each API (`schema`); both directions, the server's
and the client's, follow from that. ApiVersions is derived from the table of all APIs (`apis`), so
groupd advertises exactly what it can decode and answer.

Messages are not read with kio, because kio 0.6 fails on hostile bytes. It reserves memory
for an announced array length before it looks at what is left of the frame (a 30-byte frame aborts
the process). It rejects unknown tagged fields, which KIP-482 says to skip, turns a null array into
None where the schema forbids null, and rejects booleans other than 0 and 1 and 64-bit durations
beyond a timedelta. The tests still compare with kio. Bytes after the body are tolerated, as in
Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from inspect import isgeneratorfunction
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import (
    NO_LIMIT,
    READ_ERRORS,
    Reader,
    SecretFinder,
    TooManyItems,
    what_is_wrong,
)
from groupd.protocol.wire.schema import Shape
from groupd.protocol.writer import Writer

Request = Any
Reply = Any

ReplySteps = Generator[int, None, bytearray]
"""Makes the body of a reply, with stops if it is long; each tells how many bytes there are."""

Lane = str | Callable[[bytes, int, int], str]
"""The name of a lane, or a function of (frame, offset, version) that gives it and raises
MalformedRequest."""

OF_MEMBERS = "members"
"""The lane of requests that change or read one group, each at once when its turn comes; only their
replies wait."""

T = TypeVar("T")
F = TypeVar("F")


class MalformedRequest(Exception):
    """The bytes are not a valid request of the version in their header."""


class MalformedReply(Exception):
    """The bytes are not a valid reply of the version that was asked for."""


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
    def __call__(self, reply: Reply, version: int, throttle_ms: int = 0, /) -> ReplySteps: ...


class DecodeReply(Protocol):
    def __call__(
        self, frame: bytes, offset: int, version: int, max_items: int = NO_LIMIT, /
    ) -> Reply: ...


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
    `encode_request(request, version)` and `decode_reply(frame, offset, version, max_items)` are the
    client's side. The latter raises MalformedReply. Fields that the version lacks are not written,
    and have their defaults when they are read; the throttle time is not kept.
    `lane`: requests of one connection that are in the same lane may be under way together. None: a
    request starts when all before it are answered (`groupd.coordinator.server.decoding`).
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
    encode_request: Callable[[Request, int], bytearray]
    decode_reply: DecodeReply
    failure: Callable[[Request, ErrorCode, str | None], Reply]
    steps: InSteps | None = None
    lane: Lane | None = None
    hide: Callable[[bytes, int, int], bytes] | None = None

    def flexible(self, version: int) -> bool:
        return version >= self.flexible_from


Failure = Callable[[Any, ErrorCode, str | None], Reply]


def api(
    key: int,
    versions: str,
    flexible: str,
    request: Shape,
    reply: Shape,
    failure: Failure,
    *,
    read: Callable[[Reader], Request] | None = None,
    write: Callable[[Writer, Any], Any] | None = None,
    lane: Lane | None = None,
    secrets: bool = False,
) -> Api:
    """Makes one API. `versions` and `flexible` are as in Kafka's message definitions, such as "0-4"
    and "4+" or "none". `request` and `reply` describe the messages. The server's side may be by
    hand where it is hot: `read` reads the fields of a request, `write` writes those of a reply;
    neither handles the tagged fields at their end. A `write` that is a generator is for long
    replies: it yields where other work may run. `lane`: see `Api`. `secrets`: there are some in the
    request."""
    first, _, last = versions.partition("-")
    max_version = int(last or first)
    flexible_from = max_version + 1 if flexible == "none" else int(flexible.removesuffix("+"))
    request_type = request.made
    assert request_type is not None
    in_steps = reply.long if write is None else isgeneratorfunction(write)

    def reading(version: int) -> Callable[[Reader], Request]:
        return read or request.reading(version, version >= flexible_from)

    def writing(version: int) -> Callable[[Writer, Any], Any]:
        return write or reply.writing(version, version >= flexible_from)

    def request_writing(version: int) -> Callable[[Writer, Any], Any]:
        return request.writing(version, version >= flexible_from)

    encode, steps = _encoders(_ByVersion(writing), flexible_from, in_steps)
    reads = _ByVersion(reading)
    return Api(
        key,
        request_type.__name__.removesuffix("Request"),
        int(first),
        max_version,
        flexible_from,
        request_type,
        _decoder(reads, flexible_from),
        _counting_decoder(reads, flexible_from),
        encode,
        _encoders(_ByVersion(request_writing), flexible_from, request.long)[0],
        _reply_decoder(reply, flexible_from),
        failure,
        steps if in_steps else None,
        lane,
        _hider(reads, flexible_from) if secrets else None,
    )


class _ByVersion(dict[int, F]):
    """A function for each version, made by `make(version)` when it is first needed."""

    def __init__(self, make: Callable[[int], F]) -> None:
        self._make = make

    def __missing__(self, version: int) -> F:
        made = self[version] = self._make(version)
        return made


def first_fields(read: Callable[[Reader], T], flexible_from: int) -> Callable[[bytes, int, int], T]:
    """Makes a function of (frame, offset, version) that reads the first fields of a request with
    `read`. It raises MalformedRequest."""

    def decode(frame: bytes, offset: int, version: int) -> T:
        try:
            return read(Reader(frame, offset, version, version >= flexible_from))
        except READ_ERRORS as error:
            raise MalformedRequest(what_is_wrong(error)) from error

    return decode


def _decoder(reads: Mapping[int, Callable[[Reader], Request]], flexible_from: int) -> Decode:
    counted = _counting_decoder(reads, flexible_from)

    def decode(frame: bytes, offset: int, version: int, max_items: int = NO_LIMIT, /) -> Request:
        return counted(frame, offset, version, max_items)[0]

    return decode


def _counting_decoder(
    reads: Mapping[int, Callable[[Reader], Request]], flexible_from: int
) -> Counted:
    def decode(
        frame: bytes, offset: int, version: int, max_items: int = NO_LIMIT, /
    ) -> tuple[Request, int]:
        try:
            reader = Reader(frame, offset, version, version >= flexible_from, max_items)
            request = reads[version](reader)
            reader.end()
        except TooManyItems as error:
            raise LongRequest(str(error)) from error
        except READ_ERRORS as error:
            raise MalformedRequest(what_is_wrong(error)) from error
        return request, reader.items

    return decode


def _hider(
    reads: Mapping[int, Callable[[Reader], object]], flexible_from: int
) -> Callable[[bytes, int, int], bytes]:
    def hide(frame: bytes, offset: int, version: int) -> bytes:
        finder = SecretFinder(frame, offset, version, version >= flexible_from)
        try:
            reads[version](finder)
        except READ_ERRORS:
            return frame[:offset]
        hidden = bytearray(frame)
        for start, end in finder.spans:
            hidden[start:end] = bytes(end - start)
        return bytes(hidden)

    return hide


def _reply_decoder(reply: Shape, flexible_from: int) -> DecodeReply:
    def decode(frame: bytes, offset: int, version: int, max_items: int = NO_LIMIT, /) -> Reply:
        flexible = version >= flexible_from
        try:
            reader = Reader(frame, offset, version, flexible, max_items)
            found = reply.reading(version, flexible)(reader)
            reader.end()
        except READ_ERRORS as error:
            raise MalformedReply(what_is_wrong(error)) from error
        return found

    return decode


def _encoders(
    writes: Mapping[int, Callable[[Writer, Any], Any]], flexible_from: int, in_steps: bool
) -> tuple[Encode, InSteps]:
    """`encode` and `steps`, which is only for functions that are generators."""

    def encode(reply: Reply, version: int, throttle_ms: int = 0, /) -> bytearray:
        writer = Writer(version >= flexible_from, version, throttle_ms)
        if in_steps:
            for _ in writes[version](writer, reply):
                pass
        else:
            writes[version](writer, reply)
        writer.end()
        return writer.buffer

    def steps(reply: Reply, version: int, throttle_ms: int = 0, /) -> ReplySteps:
        writer = Writer(version >= flexible_from, version, throttle_ms)
        for _ in writes[version](writer, reply):
            yield len(writer.buffer)
        writer.end()
        return writer.buffer

    return encode, steps


def code_only(reply_type: Callable[..., Reply]) -> Failure:
    """The `Failure` of an API whose reply begins with an error code."""
    return lambda request, code, message: reply_type(error=code)


def code_and_message(reply_type: Callable[..., Reply]) -> Failure:
    """The `Failure` of an API whose reply begins with an error code and a message."""
    return lambda request, code, message: reply_type(error=code, error_message=message)


def on_each(
    reply_type: Callable[..., Reply],
    field: str,
    failed: Callable[[Any, ErrorCode, str | None], Any],
) -> Failure:
    """The `Failure` of an API whose reply has an error for each item in a field of the request.
    `failed(item, code, message)` is the answer for one."""

    def failure(request: Request, code: ErrorCode, message: str | None) -> Reply:
        return reply_type(mapped(lambda item: failed(item, code, message), getattr(request, field)))

    return failure


def on_partitions(
    reply_type: Callable[..., Reply],
    topic_type: Callable[..., Any],
    failed: Callable[[Any, ErrorCode, str | None], Any],
) -> Failure:
    """The `Failure` of an API whose reply has an error for each partition of the request's topics,
    which are named. `failed(partition, code, message)` is the answer for one."""

    def topic(asked: Any, code: ErrorCode, message: str | None) -> Any:
        partitions = mapped(lambda item: failed(item, code, message), asked.partitions)
        return topic_type(asked.name, partitions)

    return on_each(reply_type, "topics", topic)
