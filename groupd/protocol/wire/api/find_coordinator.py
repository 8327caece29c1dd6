"""FindCoordinator (10), v0-6. v1 adds the key type, throttle time and the error message, v3 is
flexible, v4 asks for many keys (KIP-699), v5 allows TRANSACTION_ABORTABLE, v6 share groups."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import (
    FindCoordinatorReply,
    FindCoordinatorRequest,
    FoundCoordinator,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> FindCoordinatorRequest:
    key = reader.string() if reader.version < 4 else ""
    key_type = reader.int8() if reader.version >= 1 else 0
    keys = reader.array(Reader.string) if reader.version >= 4 else (key,)
    return FindCoordinatorRequest(keys, key_type)


def write(writer: Writer, reply: FindCoordinatorReply) -> Generator[None, None, None]:
    if writer.version >= 1:
        writer.throttle_time()
    if writer.version >= 4:
        yield from writer.structs_in_steps(reply.coordinators, _write_found)
    else:
        found = reply.coordinators[0]
        writer.int16(found.error)
        if writer.version >= 1:
            writer.nullable_string(found.error_message)
        _write_node(writer, found)


def _write_found(writer: Writer, found: FoundCoordinator) -> None:
    writer.string(found.key)
    _write_node(writer, found)
    writer.int16(found.error)
    writer.nullable_string(found.error_message)


def _write_node(writer: Writer, found: FoundCoordinator) -> None:
    writer.int32(found.node_id)
    writer.string(found.host)
    writer.int32(found.port)


def failure(
    request: FindCoordinatorRequest, code: ErrorCode, message: str | None
) -> FindCoordinatorReply:
    """Puts the error on every requested key."""
    return FindCoordinatorReply(
        mapped(lambda key: FoundCoordinator(key, error=code, error_message=message), request.keys)
    )


API = api(10, FindCoordinatorRequest, "0-6", "3+", read, write, failure)
