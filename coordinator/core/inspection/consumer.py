"""A consumer group: epochs, members, and what it waits for."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.inspection.consumer_waits import consumer_waits
from groupd.coordinator.core.inspection.snapshot import Snapshot, named
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant


def inspect_consumer_group(state: ShardState, group: ConsumerGroup, now: Instant) -> dict[str, Any]:
    """`blocked`: what the group waits for. The lists are iterators: of this moment, but made when
    they are read, as they may be long. None in them is no item but a stop: much has been looked
    at, and others may have their turn."""
    snapshot = Snapshot(group, state.image)
    return {
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp_ms": group.assignment_timestamp_ms,
        "resolved_regexes": {
            pattern: list(group.regexes.topics_of(pattern)) for pattern in sorted(group.regexes)
        },
        "members": (_member(snapshot, member) for member in snapshot.members),
        "blocked": consumer_waits(state, group, snapshot, now),
    }


def _member(snapshot: Snapshot, member: ConsumerGroupMember) -> dict[str, Any]:
    image = snapshot.image
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "protocol": "consumer" if member.classic is None else "classic",
        "state": member.state.name,
        "member_epoch": member.member_epoch,
        "previous_member_epoch": member.previous_member_epoch,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscribed_topic_names": list(member.subscribed_topic_names),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "server_assignor": member.server_assignor,
        "owned": named(member.assigned, image),
        "pending_revocation": named(member.pending_revocation, image),
        "target": named(snapshot.target(member), image),
    }
