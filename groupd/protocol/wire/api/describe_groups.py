"""DescribeGroups (15), v0-6. v1 adds throttle time, v3 authorized operations (KIP-430), v4 the
instance id, v5 is flexible, v6 adds the error message and GROUP_ID_NOT_FOUND (KIP-1043)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsReply,
    DescribeGroupsRequest,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(
        groups=reader.array(Reader.string),
        include_authorized_operations=reader.boolean() if reader.version >= 3 else False,
    )


def write(writer: Writer, reply: DescribeGroupsReply) -> Generator[None, None, None]:
    if writer.version >= 1:
        writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.groups, _write_group)


def _write_group(writer: Writer, group: DescribedGroup) -> Generator[None, None, None]:
    writer.int16(group.error)
    if writer.version >= 6:
        writer.nullable_string(group.error_message)
    writer.string(group.group_id)
    writer.string(group.state)
    writer.string(group.protocol_type)
    writer.string(group.protocol_data)
    yield from writer.structs_in_steps(group.members, _write_member)
    if writer.version >= 3:
        writer.int32(group.authorized_operations)


def _write_member(writer: Writer, member: DescribedMember) -> None:
    writer.string(member.member_id)
    if writer.version >= 4:
        writer.nullable_string(member.group_instance_id)
    writer.string(member.client_id)
    writer.string(member.client_host)
    writer.bytes_(member.metadata)
    writer.bytes_(member.assignment)


def failure(
    request: DescribeGroupsRequest, code: ErrorCode, message: str | None
) -> DescribeGroupsReply:
    """Puts the error on every requested group."""
    return DescribeGroupsReply(
        mapped(lambda group_id: DescribedGroup(group_id, code, message), request.groups)
    )


API = api(15, DescribeGroupsRequest, "0-6", "5+", read, write, failure)
