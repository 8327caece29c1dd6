"""The record of classic groups, GroupMetadata (type 2): how it is written and replayed.

The record holds the last generation that was assigned, with the chosen protocol's metadata only. It
does not hold pending ids, parked requests, nor which members still had to send SyncGroup. After a
load these are gone, and clients find out by UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION or a closed
connection. Source: docs/spec/classic-group.md#5; docs/spec/offsets-and-log.md#5.1, #5.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.classic_group.operation import cancel_timers, changed_groups
from groupd.coordinator.core.state import ShardState
from groupd.protocol.messages.classic_group import JoinProtocol
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    Record,
)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes] | None = None) -> Record:
    """The record of the group as it is, with members ascending by id. `assignments` (by member id)
    replace the members' own; a member without an entry has no assignment."""
    return Record(
        GroupMetadataKey(group.group_id),
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol_name,
            leader=group.leader_id,
            current_state_timestamp_ms=group.state_timestamp_ms,
            members=tuple(
                _member_value(group, member, assignments) for member in group.sorted_members()
            ),
        ),
    )


def _member_value(
    group: ClassicGroup, member: ClassicGroupMember, assignments: Mapping[str, bytes] | None
) -> GroupMetadataMember:
    return GroupMetadataMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        subscription=member.metadata(group.protocol_name),
        assignment=(
            member.assignment if assignments is None else assignments.get(member.member_id, b"")
        ),
    )


def group_metadata(
    state: ShardState, key: GroupMetadataKey, value: GroupMetadataValue | None
) -> None:
    """Apply a GroupMetadata record. A value replaces the group with this id, a tombstone removes it
    (of any type). The timers of a classic group that is removed are cancelled. If a handler has
    changed the group itself, its record finds that group (`changed_groups`)."""
    group_id = key.group
    changed = None if value is None else changed_groups(state).take(value)
    if changed is not None:
        state.groups[group_id] = changed
        return
    before = state.groups.pop(group_id, None)
    if isinstance(before, ClassicGroup):
        cancel_timers(state, before)
    if value is not None:
        state.groups[group_id] = _group(group_id, value)


def _group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    group = ClassicGroup(
        group_id,
        state=State.STABLE if value.members else State.EMPTY,
        state_timestamp_ms=value.current_state_timestamp_ms,
        generation=value.generation,
        protocol_type=value.protocol_type,
    )
    group.protocol_name = value.protocol
    for entry in value.members:
        group.add(_member(entry, value.protocol or ""), value.protocol_type)
    group.leader_id = value.leader
    group.refresh_subscription()
    return group


def _member(entry: GroupMetadataMember, protocol: str) -> ClassicGroupMember:
    """The member that a record describes. It supports only the protocol in the record, because its
    other protocols were never written."""
    rebalance_timeout_ms = entry.rebalance_timeout_ms
    return ClassicGroupMember(
        entry.member_id,
        entry.group_instance_id,
        entry.client_id,
        entry.client_host,
        entry.session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        entry.session_timeout_ms,
        (JoinProtocol(protocol, entry.subscription),),
        entry.assignment,
    )
