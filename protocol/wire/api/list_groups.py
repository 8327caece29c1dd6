"""ListGroups (16), v0-5. v1 adds throttle time, v3 is flexible, v4 adds the states filter and
the state (KIP-518), v5 the types filter and the group type (KIP-848)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import ListedGroup, ListGroupsReply, ListGroupsRequest
from groupd.protocol.wire.encode import Steps, Writer, without_stops
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 3


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ListGroupsRequest:
    request = ListGroupsRequest(
        states_filter=reader.array(Reader.string) if reader.version >= 4 else (),
        types_filter=reader.array(Reader.string) if reader.version >= 5 else (),
    )
    reader.end()
    return request


def encode(reply: ListGroupsReply, version: int) -> bytearray:
    return without_stops(encode_steps(reply, version))


def encode_steps(reply: ListGroupsReply, version: int) -> Steps:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    if version >= 1:
        writer.int32(0)
    writer.int16(reply.error)
    yield from writer.array_steps(reply.groups, lambda group: _write_group(writer, group, version))
    writer.end()
    return writer.buffer


def _write_group(writer: Writer, group: ListedGroup, version: int) -> None:
    writer.string(group.group_id)
    writer.string(group.protocol_type)
    if version >= 4:
        writer.string(group.state)
    if version >= 5:
        writer.string(group.group_type)
    writer.end()


def failure(_: ListGroupsRequest, code: ErrorCode, __: str | None) -> ListGroupsReply:
    return ListGroupsReply(code)


API = Api(
    16,
    "ListGroups",
    0,
    5,
    _FLEXIBLE_FROM,
    ListGroupsRequest,
    decode,
    encode,
    failure,
    encode_steps,
)
