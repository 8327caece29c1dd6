"""GroupMetadata, type 2: a classic group with its members (docs/spec/offsets-and-log.md#5.1).

v1 adds the rebalance timeout, v2 the current state timestamp, v3 the group instance id; v4 is
flexible. groupd writes v3.
"""

from __future__ import annotations

from groupd.protocol.reader import Reader
from groupd.protocol.records.schema import GroupMetadataMember, GroupMetadataValue
from groupd.protocol.writer import Writer

READ_VERSIONS = range(5)
FLEXIBLE_FROM = 4
WRITTEN_VERSION = 3


def write_group(writer: Writer, value: GroupMetadataValue) -> None:
    writer.string(value.protocol_type)
    writer.int32(value.generation)
    writer.nullable_string(value.protocol)
    writer.nullable_string(value.leader)
    writer.int64(value.current_state_timestamp_ms)
    for member in writer.structs(value.members):
        _write_member(writer, member)
    writer.end()


def _write_member(writer: Writer, member: GroupMetadataMember) -> None:
    writer.string(member.member_id)
    writer.nullable_string(member.group_instance_id)
    writer.string(member.client_id)
    writer.string(member.client_host)
    writer.int32(member.rebalance_timeout_ms)
    writer.int32(member.session_timeout_ms)
    writer.bytes_(member.subscription)
    writer.bytes_(member.assignment)


def read_group(reader: Reader) -> GroupMetadataValue:
    value = GroupMetadataValue(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        current_state_timestamp_ms=reader.int64() if reader.version >= 2 else -1,
        members=reader.structs(_read_member),
    )
    reader.end()
    return value


def _read_member(reader: Reader) -> GroupMetadataMember:
    return GroupMetadataMember(
        member_id=reader.string(),
        group_instance_id=reader.nullable_string() if reader.version >= 3 else None,
        client_id=reader.string(),
        client_host=reader.string(),
        rebalance_timeout_ms=reader.int32() if reader.version >= 1 else -1,
        session_timeout_ms=reader.int32(),
        subscription=reader.bytes_(),
        assignment=reader.bytes_(),
    )
