"""Members on the classic protocol within a consumer group: who they are, what they support, and
their deadlines (docs/spec/consumer-group.md#8).

    session   the member's session timeout, from every JoinGroup, SyncGroup and Heartbeat
    join      the rebalance timeout, from the first reply that told the member to rejoin
    sync      the rebalance timeout, from a JoinGroup until the SyncGroup that follows

Expiry removes the member as a leave does. "join" and "sync" do nothing for a member that has
changed to the consumer protocol.
"""

from __future__ import annotations

from collections.abc import Iterable

from groupd.coordinator.core.classic_group.group import CONSUMER_PROTOCOL_TYPE
from groupd.coordinator.core.consumer_group.fence import fence_members
from groupd.coordinator.core.consumer_group.group import (
    JOIN,
    SESSION,
    SYNC,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.lookup import existing_member
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.schema import ClassicMemberMetadata


def classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[ConsumerGroupMember, ClassicMemberMetadata]:
    """The member that sends a SyncGroup or Heartbeat.

    Raises UNKNOWN_MEMBER_ID (also for a member on the consumer protocol), FENCED_INSTANCE_ID or
    ILLEGAL_GENERATION, in the order of docs/spec/consumer-group.md#8.
    """
    found = existing_member(group, member_id, instance_id)
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
    """Whether a classic member with these protocols may join: the type must be "consumer", and one
    of the names must be offered by every classic member of the group, including what the sender
    itself has offered before."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    common = set(names)
    for member in group.members.values():
        if member.classic is not None:
            common.intersection_update(one.name for one in member.classic.supported_protocols)
    return bool(common)


_CAUSES = {
    JOIN: "did not rejoin within the rebalance timeout",
    SYNC: "did not sync within the rebalance timeout",
}


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """A "consumer-join" or "consumer-sync" deadline has passed: remove the member."""
    kind, group_id, member_id = key
    group = state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return Outcome()
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return Outcome()
    return fence_members(state, group, [member], EventKind.MEMBER_FENCED, _CAUSES[kind], now)


def arm_session(
    state: ShardState, group_id: str, member_id: str, timeout_ms: int, now: Instant
) -> None:
    state.deadlines.set((SESSION, group_id, member_id), now.monotonic_ms + timeout_ms)


def arm_join_if_absent(
    state: ShardState, group_id: str, member_id: str, timeout_ms: int, now: Instant
) -> None:
    """Set the join deadline, unless it is set already: if the member is told to rejoin again, it
    gets no more time."""
    key = (JOIN, group_id, member_id)
    if key not in state.deadlines:
        state.deadlines.set(key, now.monotonic_ms + timeout_ms)


def joined(state: ShardState, group_id: str, member_id: str, timeout_ms: int, now: Instant) -> None:
    """The member has rejoined; `timeout_ms`: how long it may take to send SyncGroup."""
    state.deadlines.cancel((JOIN, group_id, member_id))
    state.deadlines.set((SYNC, group_id, member_id), now.monotonic_ms + timeout_ms)


def synced(state: ShardState, group_id: str, member_id: str) -> None:
    state.deadlines.cancel((SYNC, group_id, member_id))
