"""Removal of a member, by a leave or because its session has expired
(docs/spec/share-group.md#2.2). Locks on records and share sessions of the member are not
touched."""

from __future__ import annotations

from groupd.coordinator.core.counts import move_all
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.group import SESSION_EXPIRED
from groupd.coordinator.core.metadata_image import topics_hash
from groupd.coordinator.core.share_group import events, records
from groupd.coordinator.core.share_group.group import SESSION, ShareGroup
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind, Instant, Outcome


def remove_member(
    state: ShardState, group: ShareGroup, member: ShareGroupMember, kind: EventKind, cause: str
) -> Outcome:
    """T14, T13, T10, R11, and R12 if the group becomes empty. No target is computed now. `kind`:
    MEMBER_LEFT or MEMBER_FENCED. The caller adds the reply."""
    group_id, member_id = group.group_id, member.member_id
    names = dict(group.name_subscribers)
    move_all(names, member.subscribed_topic_names, ())
    epoch = group.group_epoch + 1
    outcome = Outcome(
        records=[
            *records.member_removal(group_id, member_id),
            records.group_epoch(group_id, epoch, topics_hash(state.image, names)),
        ],
        gate=group_id,
        events=[
            events.member_removed(kind, group_id, member, cause, state.image),
            events.event(
                EventKind.GROUP_EPOCH_BUMPED,
                group_id,
                epoch=epoch,
                cause=f"a member is gone: {cause}",
                details={"members": len(group.members) - 1},
            ),
        ],
    )
    if len(group.members) == 1:
        # Timestamp 0: the next member that joins the empty group must not wait for the assignment
        # interval.
        outcome.records.append(records.target_epoch(group_id, epoch, 0))
    state.deadlines.cancel((SESSION, group_id, member_id))
    return outcome


def expire(state: ShardState, key: DeadlineKey, now: Instant) -> Outcome:
    """The deadline of a session has passed: remove the member."""
    _, group_id, member_id = key
    group = state.groups.get(group_id)
    member = group.members.get(member_id) if isinstance(group, ShareGroup) else None
    if not isinstance(group, ShareGroup) or member is None:
        return Outcome()
    return remove_member(state, group, member, EventKind.MEMBER_FENCED, SESSION_EXPIRED)
