"""Retention sweep and the effect of topic deletion (spec, section 4).

An offset expires when its topic is not subscribed, nothing is pending on it, and its time is up:
its own expire timestamp where the commit set one, else the retention time counted from the
group's base time. An empty group left without offsets goes in the same sweep, unless somebody is
just about to join it: Kafka deletes it all the same, and the client starts again.
"""

from __future__ import annotations

from collections.abc import Iterable

from coordinator.core.group import ExpirationBase, Group, GroupType
from coordinator.core.offsets.delete import tombstone
from coordinator.core.offsets.store import OffsetStore, TopicPartition
from coordinator.core.state import ShardState
from coordinator.core.types import Event, EventKind, Instant, Outcome
from protocol.errors import ApiError
from protocol.messages import NO_TOPIC_ID, TopicId
from protocol.records.schema import OffsetCommitValue

_MS_PER_MINUTE = 60_000


def sweep_offsets(state: ShardState, store: OffsetStore, now: Instant) -> Outcome:
    """Tombstones of all expired offsets and of the groups that vanish with them, by group. Not
    atomic: there may be more of them than fit into one batch."""
    outcome = Outcome(atomic=False)
    retention_ms = state.config.offsets_retention_minutes * _MS_PER_MINUTE
    for group_id in sorted(state.groups):
        group = state.groups[group_id]
        if group.type is GroupType.SHARE:
            continue
        expired, left = _expired(group, store, now.wall_ms, retention_ms)
        outcome.records.extend(tombstone(group_id, *place) for place in expired)
        if expired:
            details = {"count": len(expired)}
            outcome.events.append(Event(EventKind.OFFSETS_EXPIRED, group_id, details=details))
        if not left and _may_vanish(group):
            outcome.records.extend(group.tombstones())
            cause = "empty, without offsets"
            outcome.events.append(Event(EventKind.GROUP_DELETED, group_id, cause=cause))
    return outcome


def _may_vanish(group: Group) -> bool:
    if group.awaits_members():
        return False
    try:
        group.check_delete()
    except ApiError:
        return False
    return True


def _expired(
    group: Group, store: OffsetStore, now_ms: int, retention_ms: int
) -> tuple[list[TopicPartition], bool]:
    """The partitions to tombstone, and whether any committed or pending offset is left."""
    topics = store.topics(group.group_id)
    pending = store.pending(group.group_id)
    base = group.offset_expiration_base()
    expired: list[TopicPartition] = []
    left = bool(pending)
    for topic in sorted(topics):
        if group.is_subscribed_to(topic):
            left = True
            continue
        for partition, stored in sorted(topics[topic].items()):
            if (topic, partition) not in pending and _is_over(
                stored.value, base, now_ms, retention_ms
            ):
                expired.append((topic, partition))
            else:
                left = True
    return expired, left


def _is_over(
    value: OffsetCommitValue, base: ExpirationBase, now_ms: int, retention_ms: int
) -> bool:
    since_ms = base(value.commit_timestamp_ms)
    if since_ms is None:
        return False
    if value.expire_timestamp_ms != -1:
        return now_ms >= value.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms


def forget_topics(
    state: ShardState, store: OffsetStore, deleted: Iterable[tuple[str, TopicId]]
) -> Outcome:
    """Tombstones for what was committed under deleted topics, given as (name, id). Groups are
    left to a later sweep. Not atomic, as a sweep is not."""
    outcome = Outcome(atomic=False)
    gone = sorted(deleted)
    for group_id in sorted(state.groups):
        places = dict.fromkeys(
            place for name, topic_id in gone for place in _doomed(store, group_id, name, topic_id)
        )
        if places:
            outcome.records.extend(tombstone(group_id, *place) for place in places)
            details = {"count": len(places)}
            cause = "topic deleted"
            outcome.events.append(
                Event(EventKind.OFFSETS_FORGOTTEN, group_id, cause=cause, details=details)
            )
    return outcome


def _doomed(
    store: OffsetStore, group_id: str, topic: str, topic_id: TopicId
) -> list[TopicPartition]:
    """A tombstone takes committed and pending offsets alike, so every one of them must belong
    to the deleted topic (or to none): offsets of a re-created topic survive."""
    committed = store.topics(group_id).get(topic, {})
    pending = {partition for name, partition in store.pending(group_id) if name == topic}
    doomed: list[TopicPartition] = []
    for partition in sorted(pending.union(committed)):
        values = list(store.pending_values(group_id, topic, partition))
        if partition in committed:
            values.append(committed[partition].value)
        if all(value.topic_id in (topic_id, NO_TOPIC_ID) for value in values):
            doomed.append((topic, partition))
    return doomed
