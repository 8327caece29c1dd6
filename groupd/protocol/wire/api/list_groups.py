"""ListGroups (16), v0-5. v1 adds throttle time, v3 is flexible, v4 adds the states filter and
the state (KIP-518), v5 the types filter and the group type (KIP-848)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.messages.groups import ListedGroup, ListGroupsReply, ListGroupsRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> ListGroupsRequest:
    return ListGroupsRequest(
        states_filter=reader.array(Reader.string) if reader.version >= 4 else (),
        types_filter=reader.array(Reader.string) if reader.version >= 5 else (),
    )


def write(writer: Writer, reply: ListGroupsReply) -> Generator[None, None, None]:
    if writer.version >= 1:
        writer.throttle_time()
    writer.int16(reply.error)
    yield from writer.structs_in_steps(reply.groups, _write_group)


def _write_group(writer: Writer, group: ListedGroup) -> None:
    writer.string(group.group_id)
    writer.string(group.protocol_type)
    if writer.version >= 4:
        writer.string(group.state)
    if writer.version >= 5:
        writer.string(group.group_type)


API = api(16, ListGroupsRequest, "0-5", "3+", read, write, code_only(ListGroupsReply))
