"""A classic group: generation, members, and which requests are parked."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.classic_group.subscription import (
    MalformedSubscription,
    parse_assignment,
    subscribed_topics,
)
from groupd.coordinator.core.inspection.classic_waits import classic_waits
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant


def inspect_classic_group(state: ShardState, group: ClassicGroup, now: Instant) -> dict[str, Any]:
    """`blocked`: what the group waits for; `waiting_for`: members without a parked Join while a
    rebalance is being prepared, or without a Sync while one completes."""
    return {
        "generation": group.generation,
        "protocol_type": group.protocol_type,
        "protocol_name": group.protocol_name,
        "leader": group.leader_id,
        "members": [_member(group, member) for member in group.sorted_members()],
        "pending_members": sorted(group.pending_members),
        "waiting_for": _waiting_for(group),
        "blocked": list(classic_waits(state, group, now)),
    }


def _member(group: ClassicGroup, member: ClassicGroupMember) -> dict[str, Any]:
    consumer = group.protocol_type == "consumer"
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "protocol": "classic",
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "protocols": [protocol.name for protocol in member.protocols],
        "subscribed_topic_names": _topics(member) if consumer else [],
        "owned": owned_by(group, member),
        "join_parked": member.join_token is not None,
        "sync_parked": member.sync_token is not None,
    }


def _topics(member: ClassicGroupMember) -> list[str]:
    try:
        return sorted(subscribed_topics(member.protocols[0].metadata))
    except (MalformedSubscription, IndexError):
        return []


def owned_by(group: ClassicGroup, member: ClassicGroupMember) -> dict[str, list[int]]:
    """What the member's last assignment gave it, by topic; {} if only its clients can tell."""
    if group.protocol_type != "consumer" or not member.assignment:
        return {}
    try:
        assignment = parse_assignment(member.assignment)
    except MalformedSubscription:
        return {}
    return {topic: sorted(partitions) for topic, partitions in sorted(assignment.partitions)}


def _waiting_for(group: ClassicGroup) -> list[str]:
    if group.state_name() == "PreparingRebalance":
        missing = [m.member_id for m in group.sorted_members() if m.join_token is None]
        return missing + sorted(group.pending_members)
    if group.state_name() == "CompletingRebalance":
        return sorted(group.pending_sync)
    return []
