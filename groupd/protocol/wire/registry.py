"""Defines an API, and how its bodies are read and written.

The modules in `api/` describe the messages of each API, in the language of
`groupd.protocol.schema`. The functions for the server and for the client follow from that.
ApiVersions is derived from the table of all APIs (`apis`), so groupd advertises exactly the
versions that it can decode and answer.

Messages are not read with kio, because kio 0.6 fails on hostile bytes. It reserves memory for an
announced array length before it checks how much of the frame is left (a 30-byte frame aborts the
process). It rejects unknown tagged fields, which KIP-482 says to skip, turns a null array into None
where the schema forbids null, and rejects booleans other than 0 and 1 and 64-bit durations beyond a
timedelta. The tests still compare with kio. Bytes after the body are tolerated, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
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
from groupd.protocol.schema import ByVersion, Shape
from groupd.protocol.writer import Writer

Request = Any
Reply = Any

ReplySteps = tuple[Writer, Iterator[None]]
"""Encodes the body of a reply with stops if it is long: the body is `Writer.body` once the iterator
has ended. It stops where other work may run."""

Lane = str | Callable[[bytes, int, int], str]
"""The name of a lane, or a function of (frame, offset, version) that returns it and raises
MalformedRequest."""

_API_VERSIONS = 18
_NEVER = 1 << 15
"""A version that no API reaches."""

OF_MEMBERS = "members"
"""The lane of requests that change or read one group. Each is handled at once when its turn comes,
and only its reply may have to wait."""

T = TypeVar("T")


class MalformedRequest(Exception):
    """The bytes are not a valid request of the version in its header."""


class MalformedReply(Exception):
    """The bytes are not a valid reply of the version that was asked for."""


class LongRequest(MalformedRequest):
    """The request has more items than `decode` may read."""


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


class Api(Struct, frozen=True):
    """One API with its key.

    `decode(frame, offset, version, max_items)` reads the body at `offset` (after the header). It
    raises MalformedRequest, or LongRequest if its arrays have more than `max_items` items.
    `counted` is the same, but returns (request, number of items).
    `encode(reply, version, throttle_ms)` returns the body without the header; `throttle_ms` is how
    long the client has to wait before its next request. `failure(request, code, message)` returns
    the reply with an error of the whole request, in the place that this API has for it; None if the
    request has no reply.
    `tagged_replies_from`: the first version whose replies have tagged fields in their header. It is
    that of flexible bodies; only ApiVersions always answers with the older header, so that a client
    which does not know the server's versions yet can read it (KIP-511).
    `steps(reply, version, throttle_ms)` is `encode` with stops, for APIs with long replies.
    `encode_request(request, version)` and `decode_reply(frame, offset, version)` are the client's
    side. The latter raises MalformedReply. Fields that the version lacks are not written,
    and have their defaults when they are read. The throttle time is not kept.
    `lane`: requests of one connection that are in the same lane may be under way together. None: a
    request starts when all requests before it are answered (`groupd.coordinator.server.decoding`).
    `hide(frame, offset, version)`, for APIs whose requests hold secrets, returns the frame with
    zeros in place of the secrets, or without a body if the body cannot be read.
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
    decode_reply: Callable[[bytes, int, int], Reply]
    failure: Callable[[Request, ErrorCode, str | None], Reply]
    tagged_replies_from: int
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
    write: Callable[[Writer, Any], Any] | None = None,
    lane: Lane | None = None,
    secrets: bool = False,
) -> Api:
    """Makes one API. `versions` and `flexible` are as in Kafka's message definitions, such as "0-4"
    and "4+" or "none". `request` and `reply` describe the messages. If the reply is a hot path,
    it may be written by hand: `write` writes its fields, without the tagged fields at the end. For
    long replies `write` is a generator that yields where other work may run. `lane`: see `Api`.
    `secrets`: whether the request holds secrets."""
    first, _, last = versions.partition("-")
    max_version = int(last or first)
    flexible_from = max_version + 1 if flexible == "none" else int(flexible.removesuffix("+"))
    request_type = request.made
    assert request_type is not None
    in_steps = reply.long if write is None else isgeneratorfunction(write)

    def reading(version: int) -> Callable[[Reader], Request]:
        return request.reading(version, version >= flexible_from, ends=True)

    def writing(version: int) -> Callable[[Writer, Any], Any]:
        return write or reply.writing(version, version >= flexible_from)

    def request_writing(version: int) -> Callable[[Writer, Any], Any]:
        return request.writing(version, version >= flexible_from, stops=False)

    encode, steps = _encoders(ByVersion(writing), flexible_from, in_steps)
    reads = ByVersion(reading)
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
        _encoders(ByVersion(request_writing), flexible_from, in_steps=False)[0],
        _reply_decoder(reply, flexible_from),
        failure,
        _NEVER if key == _API_VERSIONS else flexible_from,
        steps if in_steps else None,
        lane,
        _hider(reads, flexible_from) if secrets else None,
    )


def first_fields(read: Callable[[Reader], T], flexible_from: int) -> Callable[[bytes, int, int], T]:
    """Returns a function of (frame, offset, version) that reads the first fields of a request with
    `read`. That function raises MalformedRequest."""

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


def _reply_decoder(reply: Shape, flexible_from: int) -> Callable[[bytes, int, int], Reply]:
    reads = ByVersion(lambda v: reply.reading(v, v >= flexible_from))

    def decode(frame: bytes, offset: int, version: int) -> Reply:
        try:
            reader = Reader(frame, offset, version, version >= flexible_from)
            found = reads[version](reader)
            reader.end()
        except READ_ERRORS as error:
            raise MalformedReply(what_is_wrong(error)) from error
        return found

    return decode


def _encoders(
    writes: Mapping[int, Callable[[Writer, Any], Any]], flexible_from: int, in_steps: bool
) -> tuple[Encode, InSteps]:
    """Returns `encode` and `steps`. `steps` only works if `writes` are generator functions."""

    def encode(reply: Reply, version: int, throttle_ms: int = 0, /) -> bytearray:
        writer = Writer(version >= flexible_from, version, throttle_ms)
        if in_steps:
            for _ in writes[version](writer, reply):
                pass
        else:
            writes[version](writer, reply)
        return writer.body()

    def steps(reply: Reply, version: int, throttle_ms: int = 0, /) -> ReplySteps:
        writer = Writer(version >= flexible_from, version, throttle_ms)
        return writer, writes[version](writer, reply)

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
    """The `Failure` of an API whose reply has an error for each item of a request's field `field`.
    `failed(item, code, message)` makes the answer for one item."""

    def failure(request: Request, code: ErrorCode, message: str | None) -> Reply:
        return reply_type(mapped(lambda item: failed(item, code, message), getattr(request, field)))

    return failure


def on_partitions(
    reply_type: Callable[..., Reply],
    topic_type: Callable[..., Any],
    failed: Callable[[Any, ErrorCode, str | None], Any],
) -> Failure:
    """The `Failure` of an API whose reply has an error for each partition of the request's topics,
    which are given by name. `failed(partition, code, message)` makes the answer for one
    partition."""

    def topic(asked: Any, code: ErrorCode, message: str | None) -> Any:
        partitions = mapped(lambda item: failed(item, code, message), asked.partitions)
        return topic_type(asked.name, partitions)

    return on_each(reply_type, "topics", topic)
