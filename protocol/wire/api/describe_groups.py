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
from groupd.protocol.wire.encode import Steps, Writer, without_stops
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 5


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DescribeGroupsRequest:
    request = DescribeGroupsRequest(
        groups=reader.array(Reader.string),
        include_authorized_operations=reader.boolean() if reader.version >= 3 else False,
    )
    reader.end()
    return request


def encode(reply: DescribeGroupsReply, version: int) -> bytearray:
    return without_stops(encode_steps(reply, version))


def encode_steps(reply: DescribeGroupsReply, version: int) -> Steps:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 1:
        writer.int32(0)
    writer.array_length(len(reply.groups))
    for group in reply.groups:
        yield from _write_group(writer, group, version)
    writer.end()
    return writer.buffer


def _write_group(
    writer: Writer, group: DescribedGroup, version: int
) -> Generator[None, None, None]:
    writer.int16(group.error)
    if version >= 6:
        writer.nullable_string(group.error_message)
    writer.string(group.group_id)
    writer.string(group.state)
    writer.string(group.protocol_type)
    writer.string(group.protocol_data)
    yield from writer.array_steps(
        group.members, lambda member: _write_member(writer, member, version)
    )
    if version >= 3:
        writer.int32(group.authorized_operations)
    writer.end()


def _write_member(writer: Writer, member: DescribedMember, version: int) -> None:
    writer.string(member.member_id)
    if version >= 4:
        writer.nullable_string(member.group_instance_id)
    writer.string(member.client_id)
    writer.string(member.client_host)
    writer.bytes_(member.metadata)
    writer.bytes_(member.assignment)
    writer.end()


def failure(
    request: DescribeGroupsRequest, code: ErrorCode, message: str | None
) -> DescribeGroupsReply:
    """The error stands on every group asked for."""
    return DescribeGroupsReply(
        tuple(DescribedGroup(group_id, code, message) for group_id in request.groups)
    )


API = Api(
    15,
    "DescribeGroups",
    0,
    6,
    _FLEXIBLE_FROM,
    DescribeGroupsRequest,
    decode,
    encode,
    failure,
    encode_steps,
)
