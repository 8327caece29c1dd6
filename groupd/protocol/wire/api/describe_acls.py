"""DescribeAcls (29), v1-3. v2 is flexible, v3 adds a type of resource."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.messages.acls import DescribeAclsReply, DescribeAclsRequest, DescribedAcls
from groupd.protocol.reader import Reader
from groupd.protocol.wire.acl_fields import (
    read_filter,
    with_known_codes,
    write_entry,
    write_resource,
)
from groupd.protocol.wire.registry import api, code_and_message
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeAclsRequest:
    (wanted,) = with_known_codes((read_filter(reader),))
    return DescribeAclsRequest(wanted)


def write(writer: Writer, reply: DescribeAclsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    yield from writer.long_structs_in_steps(reply.resources, _write_described)


def _write_described(writer: Writer, described: DescribedAcls) -> Generator[None, None, None]:
    write_resource(writer, described.resource_type, described.name, described.pattern)
    yield from writer.structs_in_steps(described.acls, write_entry)


API = api(29, DescribeAclsRequest, "1-3", "2+", read, write, code_and_message(DescribeAclsReply))
