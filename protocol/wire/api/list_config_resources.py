"""ListConfigResources (74), v0-1. Always flexible. v0 lists client metrics only; v1 (KIP-1142) says
which types, none = all, and shows the type of each resource."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_CLIENT_METRICS,
    ListConfigResourcesReply,
    ListConfigResourcesRequest,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ListConfigResourcesRequest:
    types = reader.array(Reader.int8) if reader.version >= 1 else (RESOURCE_CLIENT_METRICS,)
    reader.end()
    return ListConfigResourcesRequest(types)


def encode(reply: ListConfigResourcesReply, version: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.int16(reply.error)
    writer.array_length(len(reply.resources))
    for resource_type, name in reply.resources:
        writer.string(name)
        if version >= 1:
            writer.int8(resource_type)
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: ListConfigResourcesRequest, code: ErrorCode, message: str | None
) -> ListConfigResourcesReply:
    return ListConfigResourcesReply(code)


API = Api(
    74,
    "ListConfigResources",
    0,
    1,
    _FLEXIBLE_FROM,
    ListConfigResourcesRequest,
    decode,
    encode,
    failure,
)
