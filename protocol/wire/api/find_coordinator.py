"""FindCoordinator (10), v0-6. v1 adds the key type, throttle time and the error message, v3 is
flexible, v4 asks for many keys (KIP-699), v5 allows TRANSACTION_ABORTABLE, v6 share groups."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import (
    FindCoordinatorReply,
    FindCoordinatorRequest,
    FoundCoordinator,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 3


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> FindCoordinatorRequest:
    key = reader.string() if reader.version < 4 else ""
    key_type = reader.int8() if reader.version >= 1 else 0
    keys = reader.array(Reader.string) if reader.version >= 4 else (key,)
    reader.end()
    return FindCoordinatorRequest(keys, key_type)


def encode(reply: FindCoordinatorReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 1:
        writer.int32(0)
    if version >= 4:
        writer.array_length(len(reply.coordinators))
        for found in reply.coordinators:
            writer.string(found.key)
            _write_node(writer, found)
            writer.int16(found.error)
            writer.nullable_string(found.error_message)
            writer.end()
    else:
        found = reply.coordinators[0]
        writer.int16(found.error)
        if version >= 1:
            writer.nullable_string(found.error_message)
        _write_node(writer, found)
    writer.end()
    return writer.buffer


def _write_node(writer: Writer, found: FoundCoordinator) -> None:
    writer.int32(found.node_id)
    writer.string(found.host)
    writer.int32(found.port)


def failure(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorReply:
    """The error stands on every key asked for."""
    return FindCoordinatorReply(
        tuple(FoundCoordinator(key, error=code, error_message=message) for key in request.keys)
    )


API = Api(
    10, "FindCoordinator", 0, 6, _FLEXIBLE_FROM, FindCoordinatorRequest, decode, encode, failure
)
