"""DeleteGroups (42), v0-3. v2 is flexible, v3 adds an error message per group (KIP-1331)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import DeletedGroup, DeleteGroupsReply, DeleteGroupsRequest
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(reader.array(Reader.string))


def write(writer: Writer, reply: DeleteGroupsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.structs_in_steps(reply.results, _write_result)


def _write_result(writer: Writer, result: DeletedGroup) -> None:
    writer.string(result.group_id)
    writer.int16(result.error)
    if writer.version >= 3:
        writer.nullable_string(result.error_message)


def failure(
    request: DeleteGroupsRequest, code: ErrorCode, message: str | None
) -> DeleteGroupsReply:
    """Puts the error on every requested group, as in Kafka without a message."""
    return DeleteGroupsReply(
        mapped(lambda group_id: DeletedGroup(group_id, code), request.group_ids)
    )


API = api(42, DeleteGroupsRequest, "0-3", "2+", read, write, failure)
