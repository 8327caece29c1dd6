"""DeleteGroups (42), v0-3. v2 is flexible, v3 adds an error message per group (KIP-1331)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import DeletedGroup, DeleteGroupsReply, DeleteGroupsRequest
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


def read(reader: Reader) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(reader.array(Reader.string))


def write(writer: Writer, reply: DeleteGroupsReply) -> None:
    writer.int32(0)
    for result in writer.structs(reply.results):
        writer.string(result.group_id)
        writer.int16(result.error)
        if writer.version >= 3:
            writer.nullable_string(result.error_message)


def failure(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsReply:
    """Puts the error on every requested group."""
    return DeleteGroupsReply(
        tuple(DeletedGroup(group_id, code, message) for group_id in request.group_ids)
    )


API = api(42, DeleteGroupsRequest, "0-3", "2+", read, write, failure)
