"""CreateAcls (30), v1-3. v2 is flexible, v3 adds a type of resource."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.acls import (
    AclResult,
    CreateAclsReply,
    CreateAclsRequest,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.acl_fields import read_binding, with_known_codes
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> CreateAclsRequest:
    return CreateAclsRequest(with_known_codes(reader.structs(read_binding)))


def write(writer: Writer, reply: CreateAclsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.structs_in_steps(reply.results, _write_result)


def _write_result(writer: Writer, result: AclResult) -> None:
    writer.int16(result.error)
    writer.nullable_string(result.error_message)


def failure(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsReply:
    return CreateAclsReply(mapped(lambda _: AclResult(code, message), request.creations))


API = api(30, CreateAclsRequest, "1-3", "2+", read, write, failure)
