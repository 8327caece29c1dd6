"""Members on the classic protocol within a consumer group: who they are, what they support."""

from __future__ import annotations

from collections.abc import Iterable

from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE
from groupd.coordinator.core.consumer_group.group import ConsumerGroup, unknown_member
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.static import check_instance
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.schema import ClassicMemberMetadata


def classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerGroupMember, ClassicMemberMetadata]:
    """The member that sends a SyncGroup or Heartbeat.

    Raises UNKNOWN_MEMBER_ID (also for one on the consumer protocol), FENCED_INSTANCE_ID or
    ILLEGAL_GENERATION, in the order of spec 8.
    """
    if instance_id is None:
        found = group.members.get(member_id)
        if found is None:
            raise unknown_member(group.group_id, member_id)
    else:
        found = check_instance(group, member_id, instance_id)
    if found.classic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is on the consumer protocol."
        )
    if generation_id != found.member_epoch:
        raise ApiError(
            ErrorCode.ILLEGAL_GENERATION,
            f"Generation {generation_id} is not the member epoch {found.member_epoch}.",
        )
    return found, found.classic


def supports(group: ConsumerGroup, protocol_type: str, names: Iterable[str]) -> bool:
    """Whether a classic member with these protocols may join: of type "consumer", and one of the
    names is known to every classic member that is there (the sender's old list included)."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    common = set(names)
    for member in group.members.values():
        if member.classic is not None:
            common.intersection_update(one.name for one in member.classic.supported_protocols)
    return bool(common)
