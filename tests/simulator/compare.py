"""The hard state of one group in two shards: live memory, and what the log says."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.shard import GroupCoordinatorShard


def difference(live: GroupCoordinatorShard, log: GroupCoordinatorShard, group_id: str) -> str:
    """ "" if both say the same. A classic group lives ahead of the log while it rebalances."""
    ours, theirs = live.state.groups.get(group_id), log.state.groups.get(group_id)
    if isinstance(ours, ConsumerGroup) and isinstance(theirs, ConsumerGroup):
        found = _different(_consumer(ours), _consumer(theirs))
    elif isinstance(ours, ClassicGroup) and isinstance(theirs, ClassicGroup):
        settled = ours.state in (State.STABLE, State.EMPTY)
        found = _different(_classic(ours), _classic(theirs)) if settled else ""
    elif ours is theirs:
        found = ""
    else:
        found = f"{_kind(ours)} / {_kind(theirs)}"
    ours_offsets, theirs_offsets = (
        live.offsets.store.topics(group_id),
        log.offsets.store.topics(group_id),
    )
    if ours_offsets != theirs_offsets:
        found += f" offsets {ours_offsets} / {theirs_offsets}"
    return found


def _kind(group: Group | None) -> str:
    return "no group" if group is None else f"{group.type_name} group"


def _different(ours: dict[str, Any], theirs: dict[str, Any]) -> str:
    return "; ".join(
        f"{name}: {ours[name]} / {theirs[name]}" for name in ours if ours[name] != theirs[name]
    )


def _consumer(group: ConsumerGroup) -> dict[str, Any]:
    return {
        "group epoch": group.group_epoch,
        "target epoch": group.assignment_epoch,
        "assigned at": group.assignment_timestamp_ms,
        "hash": group.metadata_hash,
        "members": group.members,
        "static members": group.static_members,
        "targets": group.targets,
        "expressions": dict(group.regexes.items()),
        "expression topics": group.regexes.topics,
        "subscribers": (group.name_subscribers, group.regex_subscribers, group.assignor_votes),
        "holders": dict(group.partition_epochs.items()),
        "state": group.state_name(),
    }


def _classic(group: ClassicGroup) -> dict[str, Any]:
    """The record has only the chosen protocol of each member, and the time of an empty group."""
    return {
        "state": group.state,
        "generation": group.generation,
        "protocol": (group.protocol_type, group.protocol_name),
        "leader": group.leader_id,
        "since": group.state_timestamp_ms if group.state is State.EMPTY else 0,
        "static members": group.static_members,
        "subscribed": group.subscribed_topics,
        "members": {
            member.member_id: (
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(group.protocol_name),
                member.assignment,
            )
            for member in group.members.values()
        },
    }
