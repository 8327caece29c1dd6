"""GroupMetadata, type 2: a classic group with its members (spec: offsets and log, section 5.1).

v1 adds the rebalance timeout, v2 the current state timestamp, v3 the group instance id, v4 is
flexible. v3 is written.
"""

from __future__ import annotations

from groupd.protocol.records.primitives import INT32, INT64, Reader, blob, nullable_string, string
from groupd.protocol.records.schema import GroupMetadataMember, GroupMetadataValue

READ_VERSIONS = range(5)


def encode_value(value: GroupMetadataValue) -> bytes:
    return b"".join(
        (
            b"\x00\x03",
            string(value.protocol_type),
            INT32.pack(value.generation),
            nullable_string(value.protocol),
            nullable_string(value.leader),
            INT64.pack(value.current_state_timestamp_ms),
            INT32.pack(len(value.members)),
            *[_encode_member(member) for member in value.members],
        )
    )


def _encode_member(member: GroupMetadataMember) -> bytes:
    return b"".join(
        (
            string(member.member_id),
            nullable_string(member.group_instance_id),
            string(member.client_id),
            string(member.client_host),
            INT32.pack(member.rebalance_timeout_ms),
            INT32.pack(member.session_timeout_ms),
            blob(member.subscription),
            blob(member.assignment),
        )
    )


def decode_value(reader: Reader, version: int) -> GroupMetadataValue:
    reader.flexible = version >= 4

    def member() -> GroupMetadataMember:
        result = GroupMetadataMember(
            member_id=reader.string(),
            group_instance_id=reader.nullable_string() if version >= 3 else None,
            client_id=reader.string(),
            client_host=reader.string(),
            rebalance_timeout_ms=reader.int32() if version >= 1 else -1,
            session_timeout_ms=reader.int32(),
            subscription=reader.blob(),
            assignment=reader.blob(),
        )
        reader.end_struct()
        return result

    value = GroupMetadataValue(
        protocol_type=reader.string(),
        generation=reader.int32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        current_state_timestamp_ms=reader.int64() if version >= 2 else -1,
        members=reader.array(member),
    )
    reader.end_struct()
    return value
