"""ListConfigResources (74), v0-1. Always flexible. v0 lists client metrics only; v1 (KIP-1142) says
which types to list (none = all) and gives the type of each resource."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.messages.topics import (
    RESOURCE_CLIENT_METRICS,
    ListConfigResourcesReply,
    ListConfigResourcesRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> ListConfigResourcesRequest:
    types = reader.array(Reader.int8) if reader.version >= 1 else (RESOURCE_CLIENT_METRICS,)
    return ListConfigResourcesRequest(types)


def write(writer: Writer, reply: ListConfigResourcesReply) -> Generator[None, None, None]:
    writer.throttle_time()
    writer.int16(reply.error)
    yield from writer.structs_in_steps(reply.resources, _write_resource)


def _write_resource(writer: Writer, resource: tuple[int, str]) -> None:
    resource_type, name = resource
    writer.string(name)
    if writer.version >= 1:
        writer.int8(resource_type)


API = api(
    74, ListConfigResourcesRequest, "0-1", "0+", read, write, code_only(ListConfigResourcesReply)
)
