"""Events of share groups: what happened and why, with JSON-friendly details."""

from __future__ import annotations

from functools import partial

from groupd.coordinator.core.blocked import topic_name
from groupd.coordinator.core.group import identity
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.share_group.group import TYPE_NAME
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.types import Event, EventKind

event = partial(Event, TYPE_NAME)


def member_joined(group_id: str, member: ShareGroupMember) -> Event:
    who = identity(member.client_id, member.client_host, None)
    return event(
        EventKind.MEMBER_JOINED, group_id, member.member_id, cause="new member", details=who
    )


def member_removed(
    kind: EventKind, group_id: str, member: ShareGroupMember, cause: str, image: MetadataImage
) -> Event:
    """The kind is MEMBER_LEFT or MEMBER_FENCED; `freed`: the partitions that the member had."""
    who = identity(member.client_id, member.client_host, None)
    freed = {topic_name(one, image): list(its) for one, its in member.assigned.items()}
    details = {**who, "freed": freed}
    return event(kind, group_id, member.member_id, member.member_epoch, cause, details)


def reconciled(
    group_id: str, before: ShareGroupMember, after: ShareGroupMember, image: MetadataImage
) -> list[Event]:
    """What one heartbeat did to a member's epoch and partitions. Nothing is revoked first, so the
    member has its whole target at once."""
    happened: list[Event] = []

    def add(kind: EventKind, cause: str, **details: object) -> None:
        happened.append(event(kind, group_id, after.member_id, after.member_epoch, cause, details))

    if after.member_epoch != before.member_epoch:
        add(
            EventKind.MEMBER_EPOCH_ADVANCED,
            "a share group has nothing to revoke",
            previous_epoch=before.member_epoch,
            complete=True,
        )
    gained = {
        topic_name(topic_id, image): new
        for topic_id, its in after.assigned.items()
        if (new := sorted(set(its).difference(before.assigned.get(topic_id, ()))))
    }
    if gained:
        add(EventKind.PARTITIONS_ASSIGNED, "in the target", partitions=gained, complete=True)
    return happened
