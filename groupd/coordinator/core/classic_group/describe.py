"""DescribeGroups (15), one group at a time (docs/spec/classic-group.md#6).

The caller holds the reply back until the group's pending records are durable, so a client only sees
what is durable.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.classic_group.member import Protocols, metadata_for
from groupd.coordinator.core.shard_requests import DescribeClassicGroup
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome, RequestContext, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED, DescribedGroup, DescribedMember
from groupd.protocol.messages.lazily import mapped

_NOT_FOUND_IS_AN_ERROR_FROM = 6
_OPERATIONS_FROM = 3


def handle(
    state: ShardState, context: RequestContext, request: DescribeClassicGroup, now: Instant
) -> Outcome:
    group = describe(state, context, request.group_id, request.include_authorized_operations)
    return Outcome(replies=[(context.token, group)], gate=request.group_id)


def describe(
    state: ShardState, context: RequestContext, group_id: str, include_operations: bool
) -> DescribedGroup:
    """Describes one group. A group of another type, a missing group and the group id "" are all
    "Dead"; from v6 on the reply also has an error. Access to the group was checked before the shard
    was asked (`frontend.groups`)."""
    group = state.groups.get(group_id)
    message = f"Group {group_id} not found."
    if group is not None and not isinstance(group, ClassicGroup):
        group, message = None, f"Group {group_id} is not a classic group."
    elif group is not None and group.state is State.DEAD:
        group = None
    if group is None and context.api_version >= _NOT_FOUND_IS_AN_ERROR_FROM:
        return DescribedGroup(group_id, ErrorCode.GROUP_ID_NOT_FOUND, message, State.DEAD.value)
    operations = OPERATIONS_NOT_ASKED
    if include_operations and context.api_version >= _OPERATIONS_FROM:
        operations = context.authorized_operations(Resource.GROUP, group_id)
    if group is None:
        return DescribedGroup(group_id, state=State.DEAD.value, authorized_operations=operations)
    stable = group.state is State.STABLE
    return DescribedGroup(
        group_id,
        state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol_name or "") if stable else "",
        members=_members(group, stable),
        authorized_operations=operations,
    )


def _members(group: ClassicGroup, stable: bool) -> Sequence[DescribedMember]:
    """The members, ascending by id. In states other than Stable no protocol is in force, so no
    metadata is shown. Members change in place, so their values are copied now, even if the reply is
    built from them later."""
    protocol = group.protocol_name if stable else None
    shown = [
        (
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.protocols,
            member.assignment,
        )
        for member in group.sorted_members()
    ]

    def described(fields: tuple[str, str | None, str, str, Protocols, bytes]) -> DescribedMember:
        member_id, instance_id, client_id, host, protocols, assignment = fields
        metadata = metadata_for(protocols, protocol)
        return DescribedMember(member_id, instance_id, client_id, host, metadata, assignment)

    return mapped(described, shown)
