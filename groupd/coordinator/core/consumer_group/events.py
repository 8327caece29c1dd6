"""Events of consumer groups: what happened and why, with JSON-friendly details."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from groupd.coordinator.core import target_events
from groupd.coordinator.core.blocked import topic_name
from groupd.coordinator.core.consumer_group.group import TYPE_NAME
from groupd.coordinator.core.consumer_group.member import (
    LEAVE_STATIC_EPOCH,
    ConsumerGroupMember,
    MemberState,
    PartitionEpochs,
)
from groupd.coordinator.core.group import identity
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.types import Event, EventKind

event = partial(Event, TYPE_NAME)
assignor_failed = partial(target_events.assignor_failed, TYPE_NAME)
target_installed = partial(target_events.target_installed, TYPE_NAME)


def epoch_bumped(group_id: str, epoch: int, causes: list[str], member_id: str = "") -> Event:
    return event(EventKind.GROUP_EPOCH_BUMPED, group_id, member_id, epoch, "; ".join(causes))


def member_arrived(
    group_id: str, member: ConsumerGroupMember, replaced: ConsumerGroupMember | None
) -> Event:
    """A member that is new, or that takes the place of a static member."""
    details = identity(member.client_id, member.client_host, member.instance_id)
    if replaced is None:
        return event(
            EventKind.MEMBER_JOINED, group_id, member.member_id, cause="new member", details=details
        )
    cause = f"takes the place of {replaced.member_id} as instance {replaced.instance_id}"
    details["replaces"] = replaced.member_id
    return event(
        EventKind.MEMBER_REPLACED, group_id, member.member_id, cause=cause, details=details
    )


def member_removed(
    kind: EventKind,
    group_id: str,
    member: ConsumerGroupMember,
    cause: str,
    image: MetadataImage,
) -> Event:
    """The kind is MEMBER_LEFT or MEMBER_FENCED; `freed`: the partitions that the member owned or
    was revoking."""
    held = (member.assigned, member.pending_revocation)
    freed = {
        topic_id: sorted(number for one in held for number in one.get(topic_id, ()))
        for topic_id in sorted({topic_id for one in held for topic_id in one})
    }
    who = identity(member.client_id, member.client_host, member.instance_id)
    details = {**who, "freed": _named(freed, image)}
    return event(kind, group_id, member.member_id, member.member_epoch, cause, details)


def member_away(group_id: str, member: ConsumerGroupMember) -> Event:
    """A static member that left for a while."""
    return event(
        EventKind.MEMBER_LEFT,
        group_id,
        member.member_id,
        LEAVE_STATIC_EPOCH,
        "the static member left for a while and keeps its partitions",
        identity(member.client_id, member.client_host, member.instance_id),
    )


def reconciled(
    group_id: str, before: ConsumerGroupMember, after: ConsumerGroupMember, image: MetadataImage
) -> list[Event]:
    """What one reconciliation step did to a member. `complete`: the member has its whole target
    now."""
    happened: list[Event] = []
    waits = after.state == MemberState.UNRELEASED_PARTITIONS

    def add(kind: EventKind, cause: str, **details: object) -> None:
        happened.append(event(kind, group_id, after.member_id, after.member_epoch, cause, details))

    revoking = _difference(after.pending_revocation, before.pending_revocation)
    if revoking:
        add(
            EventKind.PARTITIONS_REVOKING,
            "not in the member's target or subscription any more",
            partitions=_named(revoking, image),
            rebalance_timeout_ms=after.rebalance_timeout_ms,
        )
    if after.member_epoch != before.member_epoch:
        add(
            EventKind.MEMBER_EPOCH_ADVANCED,
            "others still hold some of its partitions" if waits else "nothing left to revoke",
            previous_epoch=before.member_epoch,
            complete=not waits,
        )
    gained = _difference(after.assigned, before.assigned)
    if gained:
        partitions = _named(gained, image)
        add(EventKind.PARTITIONS_ASSIGNED, "free", partitions=partitions, complete=not waits)
    return happened


def _difference(these: PartitionEpochs, those: PartitionEpochs) -> dict[bytes, list[int]]:
    if these is those:
        return {}
    found: dict[bytes, list[int]] = {}
    for topic_id in sorted(these):
        known = those.get(topic_id, {})
        partitions = sorted(p for p in these[topic_id] if p not in known)
        if partitions:
            found[topic_id] = partitions
    return found


def _named(partitions: Mapping[bytes, list[int]], image: MetadataImage) -> dict[str, list[int]]:
    return {topic_name(topic_id, image): numbers for topic_id, numbers in partitions.items()}
