"""Shows a share group to people: its epochs, members and partitions, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from groupd.coordinator.core import large_targets
from groupd.coordinator.core.blocked import Wait, named, topic_name, wait
from groupd.coordinator.core.group_type import Holding, MemberIdentity
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.share_group.group import NO_TARGET, ShareGroup
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.share_group.state_partitions import NO_STATE_PARTITIONS, PartitionSets
from groupd.coordinator.core.share_group.target import assignment_interval_ms
from groupd.coordinator.core.slices import Pairs, Steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, OutsideCall

SHARE_POSITIONS = "share-positions"
"""Who knows where share groups are in their partitions. The request is a mapping of partitions by
topic id, the answer is `Positions`."""


def inspect(
    state: ShardState, group: ShareGroup, now: Instant, after: str | None = None
) -> dict[str, Any]:
    """The description of the group. The lists show this moment, but are built while they are read:
    members and the maps of partitions are only ever replaced."""
    members = sorted(group.members.values(), key=lambda member: member.member_id)
    shown = [member for member in members if after is None or member.member_id > after]
    known = group.state_partitions or NO_STATE_PARTITIONS
    return {
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp_ms": group.assignment_timestamp_ms,
        "initializing": Pairs(_by_topic(known.initializing, state.image)),
        "initialized": Pairs(_by_topic(known.initialized, state.image)),
        "deleting": sorted(topic_name(topic_id, state.image) for topic_id in known.deleting),
        "members": _members(shown, dict(group.targets), state.image),
        "blocked": _waits(state, group, now),
    }


def _by_topic(
    partitions: PartitionSets, image: MetadataImage
) -> Iterator[tuple[str, list[int]] | None]:
    for topic_id, numbers in partitions.items():
        yield topic_name(topic_id, image), sorted(numbers)
        yield None


def _members(
    members: list[ShareGroupMember], targets: dict[str, Any], image: MetadataImage
) -> Iterator[dict[str, Any] | None]:
    for member in members:
        yield (yield from _shown(member, targets, image))


def _shown(
    member: ShareGroupMember, targets: dict[str, Any], image: MetadataImage
) -> Steps[dict[str, Any]]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "member_epoch": member.member_epoch,
        "previous_member_epoch": member.previous_member_epoch,
        "subscribed_topic_names": list(member.subscribed_topic_names),
        "owned": (yield from named(member.assigned, image)),
        "target": (yield from named(targets.get(member.member_id, NO_TARGET), image)),
    }


def _waits(state: ShardState, group: ShareGroup, now: Instant) -> Iterator[Wait | None]:
    """The waits of the group as a whole, then the members that have not heard of the target."""
    known = group.state_partitions or NO_STATE_PARTITIONS
    waits = [
        wait(f"the state of {topic_name(topic_id, state.image)} is being initialized")
        for topic_id in sorted(known.initializing)
    ]
    if group.members and group.group_epoch > group.assignment_epoch:
        interval_ms = assignment_interval_ms(state, group.group_id)
        due_ms = group.assignment_timestamp_ms + interval_ms - now.wall_ms
        epoch = f"the target of epoch {group.group_epoch}"
        if large_targets.is_under_way(group, now):
            waits.append(wait(f"{epoch} is being computed"))
        elif large_targets.has_failed(group, now):
            why = f"{epoch}: the assignor has failed and is tried again"
            waits.append(wait(why, "", large_targets.RETRY_MS))
        elif 0 < due_ms <= interval_ms:
            why = f"{epoch} is not due yet (group.share.assignment.interval.ms)"
            waits.append(wait(why, "", due_ms))
        else:
            waits.append(wait(f"{epoch} is computed with the next heartbeat of a member"))
    elif group.has_unassigned_partitions(state.image):
        waits.append(wait("the next heartbeat makes a target with the initialized partitions"))
    epoch_of_target = group.assignment_epoch
    behind = [
        wait(
            f"hears of the target of epoch {epoch_of_target} with its next heartbeat",
            member.member_id,
        )
        for _, member in sorted(group.members.items())
        if member.member_epoch != epoch_of_target
    ]
    return chain(waits, behind)


def identify(group: ShareGroup, member_id: str) -> MemberIdentity:
    member = group.members[member_id]
    return MemberIdentity(
        member_id, None, member.client_id, member.client_host, member.member_epoch
    )


def owned_partitions(group: ShareGroup, member_id: str) -> list[Holding]:
    """The partitions of a member by topic id; others may have them, too."""
    return list(group.members[member_id].assigned.items())


def positions(state: ShardState, store: OffsetStore, group: ShareGroup) -> OutsideCall:
    return OutsideCall(SHARE_POSITIONS, group.group_id, group.initialized)
