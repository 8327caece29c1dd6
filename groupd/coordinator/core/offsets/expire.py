"""Retention sweep (docs/spec/offsets-and-log.md#4).

An offset expires when its topic is not subscribed, nothing is pending on it, and its time is up:
its own expire timestamp where the commit set one, else the retention time counted from the
group's base time. An empty group left without offsets goes in the same sweep, unless somebody is
just about to join it: Kafka deletes it all the same, and the client starts again.
"""

from __future__ import annotations

from groupd.coordinator.core.group import ExpirationBase, OffsetOwner
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.offsets.delete import tombstone
from groupd.coordinator.core.offsets.sliced import GROUPS_AT_ONCE, Slice, bytes_of
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset, ascending
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Event, EventKind
from groupd.protocol.errors import ApiError

_MS_PER_MINUTE = 60_000


def sweep(state: ShardState, store: OffsetStore, present: Slice) -> Steps[None]:
    """Tombstones of expired offsets and of the groups that vanish with them, of all groups that
    there are when it begins. Only those of types that commit offsets: a group of another type is
    never swept, as in Kafka (`ShareGroup.shouldExpire`)."""
    for some in chunks(list(state.groups), GROUPS_AT_ONCE):
        for group_id in sorted(some):
            if not present.may_look():
                yield
            present.look()
            yield from _sweep_group(state, store, group_id, present)


def _sweep_group(
    state: ShardState, store: OffsetStore, group_id: str, present: Slice
) -> Steps[None]:
    expired = 0  # in this slice: their tombstones are not applied yet
    for topic in sorted(store.topics(group_id)):
        group = _expiring(state, group_id, topic)
        if group is None:
            continue
        base, size = group.offset_expiration_base(), bytes_of([tombstone(group_id, topic, 0)])
        for partition in ascending(store.topics(group_id).get(topic, {})):
            if not present.may_write(size):
                yield
                expired = 0
                group = _expiring(state, group_id, topic)
                if group is None:
                    break
                base = group.offset_expiration_base()
            present.look()
            stored = store.get(group_id, topic, partition)
            if (
                stored is not None
                and not store.is_pending(group_id, topic, partition)
                and _is_over(stored, base, state, present.now.wall_ms)
            ):
                present.bury_offset(group, topic, partition, size, EventKind.OFFSETS_EXPIRED)
                expired += 1
    while not _has_more(store, group_id, expired):
        group = _vanishing(state, group_id)
        if group is None:
            return
        tombstones = group.tombstones()
        size = bytes_of(tombstones)
        if present.may_write(size):
            present.bury(tombstones, size)
            cause, kind = "empty, without offsets", EventKind.GROUP_DELETED
            present.outcome.events.append(Event(group.type_name, kind, group_id, cause=cause))
            return
        yield
        expired = 0


def _expiring(state: ShardState, group_id: str, topic: str) -> OffsetOwner | None:
    """The group, if its offsets of the topic may expire."""
    group = state.groups.get(group_id)
    owner = None if group is None else group.offset_owner
    return None if owner is None or owner.is_subscribed_to(topic) else owner


def _vanishing(state: ShardState, group_id: str) -> OffsetOwner | None:
    """The group, if it goes when it has no offsets, and nobody has to be asked before."""
    group = state.groups.get(group_id)
    owner = None if group is None else group.offset_owner
    if owner is None or owner.awaits_members():
        return None
    if type_of(owner).before_delete(state, owner) is not None:
        return None
    try:
        owner.check_delete()
    except ApiError:
        return None
    return owner


def _has_more(store: OffsetStore, group_id: str, expired: int) -> bool:
    """Whether the group has more offsets, committed or pending, than the `expired` ones, whose
    tombstones are not applied yet."""
    if store.pending(group_id):
        return True
    count = 0
    for partitions in store.topics(group_id).values():
        count += len(partitions)
        if count > expired:
            return True
    return False


def _is_over(stored: StoredOffset, base: ExpirationBase, state: ShardState, now_ms: int) -> bool:
    since_ms = base(stored.commit_timestamp_ms)
    if since_ms is None:
        return False
    if stored.expire_timestamp_ms != -1:
        return now_ms >= stored.expire_timestamp_ms
    return now_ms - since_ms >= state.config.offsets_retention_minutes * _MS_PER_MINUTE
