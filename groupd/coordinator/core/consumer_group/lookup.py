"""Finds the group and the member of a request (docs/spec/consumer-group.md#V11, #4 step 1)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.core.consumer_group import records
from groupd.coordinator.core.consumer_group.conversions import JoinedGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup, unknown_member
from groupd.coordinator.core.consumer_group.member import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    is_subset,
)
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.consumer_group.target_assignment import current_target
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.state import ShardState
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, TopicPartitions
from groupd.protocol.records.schema import Record


def existing_group(state: ShardState, group_id: str) -> ConsumerGroup:
    """The consumer group with this id. Raises GROUP_ID_NOT_FOUND if there is none, or the group is
    of another type."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return group
    if group is None:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    raise _not_consumer(group)


def existing_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> ConsumerGroupMember:
    """The member of a request that does not join. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if instance_id is not None:
        return check_instance(group, member_id, instance_id)
    member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group.group_id, member_id)
    return member


def joined_group(state: ShardState, group_id: str) -> JoinedGroup:
    """The group of an epoch-0 heartbeat. A new or converted group is not in the state yet: replay
    puts it there. Raises GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED."""
    group = state.groups.get(group_id)
    if isinstance(group, ConsumerGroup):
        return JoinedGroup(group)
    if group is None:
        state.check_group_limit()
        return JoinedGroup(ConsumerGroup(group_id), is_new=True)
    conversions = soft_of(state).conversions
    joined = None if conversions is None else conversions.joined(state, group)
    if joined is None:
        raise _not_consumer(group)
    return joined


def _not_consumer(group: Group) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group.group_id} is not a consumer group."
    )


class Resolved(Struct, frozen=True):
    """The member after step 2. `replaced`: the static member whose place it takes; `records`: those
    of the replacement; `is_new`: the group had no such member, neither by member id nor by instance
    id."""

    member: ConsumerGroupMember
    is_new: bool = False
    replaced: ConsumerGroupMember | None = None
    records: Sequence[Record] = ()


def check_size(
    group: ConsumerGroup, member_id: str, instance_id: str | None, max_size: int
) -> None:
    """Raises GROUP_MAX_SIZE_REACHED for a new member or a new instance if the group is full
    (docs/spec/consumer-group.md#V12)."""
    if len(group.members) < max_size or member_id in group.members:
        return
    if instance_id is None or instance_id not in group.static_members:
        raise ApiError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"Group {group.group_id} has its maximum of {max_size} members.",
        )


def resolve(
    group: ConsumerGroup, member_id: str, request: ConsumerGroupHeartbeatRequest
) -> Resolved:
    """Finds the member of a heartbeat (docs/spec/consumer-group.md#V13, #V14, #V15, #V16).
    `member_id` is the request's, or the one generated for it. Raises ApiError."""
    instance_id = request.instance_id
    if request.member_epoch != 0:
        member = existing_member(group, member_id, instance_id)
        check_epoch(member, request.member_epoch, request.topic_partitions)
        return Resolved(member)
    owner = None if instance_id is None else group.static_member(instance_id)
    if owner is None:
        known = group.members.get(member_id)
        if known is not None:
            return Resolved(known)
        return Resolved(ConsumerGroupMember(member_id), is_new=True)
    if owner.classic is None and owner.member_epoch != LEAVE_STATIC_EPOCH:
        raise ApiError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance {instance_id} is still in use by member {owner.member_id}.",
        )
    return replacement(group, owner, member_id)


def replacement(group: ConsumerGroup, owner: ConsumerGroupMember, member_id: str) -> Resolved:
    """`owner` under a new member id, with the records for that: T8, T7, T5, R5, R7, R8. The timers
    of the old member id stay set, but do nothing once that member is gone."""
    member = replace(owner, member_id=member_id, member_epoch=0, previous_member_epoch=0)
    changes = records.member_removal(group.group_id, owner.member_id)
    changes.append(records.member_metadata(group.group_id, member))
    changes.append(records.target_member(group.group_id, member_id, current_target(group, owner)))
    changes.append(records.current_member(group.group_id, member))
    return Resolved(member, replaced=owner, records=changes)


def check_instance(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """The member of the instance. Raises UNKNOWN_MEMBER_ID if the instance is unknown,
    FENCED_INSTANCE_ID if it belongs to another member id (docs/spec/consumer-group.md#V15)."""
    owner = group.static_member(instance_id)
    if owner is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"Instance {instance_id} is unknown in group {group.group_id}.",
        )
    if owner.member_id != member_id:
        raise ApiError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance {instance_id} belongs to member {owner.member_id}, not to {member_id}.",
        )
    return owner


def check_epoch(
    member: ConsumerGroupMember, received: int, owned: tuple[TopicPartitions, ...] | None
) -> None:
    """Raises FENCED_MEMBER_EPOCH unless the request has the member's epoch, or 0
    (docs/spec/consumer-group.md#V16). The previous epoch passes, too: the client may have missed a
    reply. Then it must report its partitions, and only such as are assigned to it."""
    epoch = member.member_epoch
    if received in (0, epoch):
        return
    if received > epoch:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Member epoch {received} is ahead of the known epoch {epoch}: give up all "
            "partitions and join again.",
        )
    missed_reply = (
        received == member.previous_member_epoch
        and owned is not None
        and is_subset(owned, member.assigned)
    )
    if not missed_reply:
        raise ApiError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Member epoch {received} is behind the known epoch {epoch}: give up all "
            "partitions and join again.",
        )
