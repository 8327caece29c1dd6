"""DeleteAcls (31), v1-3. v2 is flexible, v3 adds a type of resource."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.acls import (
    AclBinding,
    DeleteAclsReply,
    DeleteAclsRequest,
    DeletedAcls,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.acl_fields import (
    read_filter,
    with_known_codes,
    write_entry,
    write_resource,
)
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DeleteAclsRequest:
    return DeleteAclsRequest(with_known_codes(reader.structs(read_filter)))


def write(writer: Writer, reply: DeleteAclsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.results, _write_deleted)


def _write_deleted(writer: Writer, deleted: DeletedAcls) -> Generator[None, None, None]:
    writer.int16(deleted.error)
    writer.nullable_string(deleted.error_message)
    yield from writer.structs_in_steps(deleted.matching, _write_matching)


def _write_matching(writer: Writer, acl: AclBinding) -> None:
    writer.int16(ErrorCode.NONE)
    writer.nullable_string(None)
    write_resource(writer, acl.resource_type, acl.name, acl.pattern)
    write_entry(writer, acl)


def failure(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsReply:
    return DeleteAclsReply(mapped(lambda _: DeletedAcls(code, message), request.filters))


API = api(31, DeleteAclsRequest, "1-3", "2+", read, write, failure)
