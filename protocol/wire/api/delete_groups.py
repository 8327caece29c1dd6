"""DeleteGroups (42), v0-3. v2 is flexible, v3 adds an error message per group (KIP-1331)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import DeletedGroup, DeleteGroupsReply, DeleteGroupsRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 2


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DeleteGroupsRequest:
    request = DeleteGroupsRequest(reader.array(Reader.string))
    reader.end()
    return request


def encode(reply: DeleteGroupsReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.array_length(len(reply.results))
    for result in reply.results:
        writer.string(result.group_id)
        writer.int16(result.error)
        if version >= 3:
            writer.nullable_string(result.error_message)
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsReply:
    """The error stands on every group asked for."""
    return DeleteGroupsReply(
        tuple(DeletedGroup(group_id, code, message) for group_id in request.group_ids)
    )


API = Api(42, "DeleteGroups", 0, 3, _FLEXIBLE_FROM, DeleteGroupsRequest, decode, encode, failure)
