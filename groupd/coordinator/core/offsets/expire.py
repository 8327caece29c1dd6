"""Retention sweep and the effect of topic deletion (docs/spec/offsets-and-log.md#4).

An offset expires when its topic is not subscribed, nothing is pending on it, and its time is up:
its own expire timestamp where the commit set one, else the retention time counted from the
group's base time. An empty group left without offsets goes in the same sweep, unless somebody is
just about to join it: Kafka deletes it all the same, and the client starts again.

A sweep may have to do with a hundred thousand offsets, so it comes in slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from groupd.coordinator.core.group import ExpirationBase, OffsetOwner
from groupd.coordinator.core.offsets.delete import tombstone
from groupd.coordinator.core.offsets.store import (
    OffsetStore,
    StoredOffset,
    TopicPartition,
    ascending,
)
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Event, EventKind, Instant, Outcome
from groupd.protocol.errors import ApiError
from groupd.protocol.messages import NO_TOPIC_ID, TopicId

_MS_PER_MINUTE = 60_000
_SORTED_AT_ONCE = 500

SLICE_OFFSETS = 250
EXPIRED_COST = 5
"""A slice is below a millisecond; the shards' sweeps may all fall into one turn of the loop."""


class Sweep:
    """One sweep over the groups that there are now, in slices: between two of them others have
    their turn. A slice looks at about `SLICE_OFFSETS` offsets, or a fifth of that if all expire;
    groups that come later are left to the next sweep."""

    __slots__ = ("_cursor", "_groups", "_next")

    def __init__(self, state: ShardState) -> None:
        self._groups = list(state.groups)
        self._next = 0
        self._cursor: _Cursor | None = None

    @property
    def done(self) -> bool:
        return self._next == len(self._groups)

    def slice(self, state: ShardState, store: OffsetStore, now: Instant) -> Outcome:
        """Tombstones of expired offsets and of the groups that vanish with them. Not atomic:
        there may be more of them than fit into one batch."""
        outcome = Outcome(atomic=False)
        retention_ms = state.config.offsets_retention_minutes * _MS_PER_MINUTE
        room = SLICE_OFFSETS
        while room > 0 and not self.done:
            found = state.groups.get(self._group())
            group = None if found is None else found.offset_owner
            if group is None:
                self._step()
                continue
            cursor = self._cursor or _Cursor(store, group.group_id)
            cursor.group_is(group)
            expired, looked_at, ended = _expired(
                group, store, now.wall_ms, retention_ms, cursor, room
            )
            room -= 1 + looked_at + (EXPIRED_COST - 1) * len(expired)
            _bury(outcome, group, expired)
            if not ended:
                self._cursor = cursor
                continue
            if not _has_more(store, group.group_id, len(expired)) and _may_vanish(group):
                outcome.records.extend(group.tombstones())
                outcome.events.append(
                    Event(
                        group.type_name,
                        EventKind.GROUP_DELETED,
                        group.group_id,
                        cause="empty, without offsets",
                    )
                )
            self._step()
        return outcome

    def _group(self) -> str:
        """The next group. The order of groups reaches the log, so they are sorted, but never all at
        once."""
        if self._next % _SORTED_AT_ONCE == 0:
            some = slice(self._next, self._next + _SORTED_AT_ONCE)
            self._groups[some] = sorted(self._groups[some])
        return self._groups[self._next]

    def _step(self) -> None:
        self._next += 1
        self._cursor = None


class _Cursor:
    """How far a sweep has come in the offsets of a group. It only takes topics without subscribers,
    and asks for those when a topic or a slice begins. Nothing is looked at twice."""

    __slots__ = ("_group", "_group_id", "_rest", "_store", "_topic", "_topics", "_unseen")

    def __init__(self, store: OffsetStore, group_id: str) -> None:
        self._store = store
        self._group_id = group_id
        self._topics = iter(sorted(store.topics(group_id)))
        self._topic = ""
        self._rest: Iterator[int] = iter(())
        self._unseen: TopicPartition | None = None
        self._group: OffsetOwner | None = None

    def group_is(self, group: OffsetOwner) -> None:
        """Tells the cursor the group when a slice begins: a member may have subscribed since the
        last one."""
        self._group = group
        if group.is_subscribed_to(self._topic):
            self._rest, self._unseen = iter(()), None

    def unsee(self, place: TopicPartition) -> None:
        """Give `place` again as the next one."""
        self._unseen = place

    def __iter__(self) -> Iterator[TopicPartition]:
        """The partitions that are left."""
        assert self._group is not None
        if self._unseen is not None:
            place, self._unseen = self._unseen, None
            yield place
        while True:
            for partition in self._rest:
                yield self._topic, partition
            topic = next(self._topics, None)
            if topic is None:
                return
            if not self._group.is_subscribed_to(topic):
                self._topic = topic
                self._rest = ascending(self._store.topics(self._group_id).get(topic, {}))


def _bury(outcome: Outcome, group: OffsetOwner, expired: list[TopicPartition]) -> None:
    group_id = group.group_id
    outcome.records.extend(tombstone(group_id, *place) for place in expired)
    if expired:
        details = {"count": len(expired)}
        outcome.events.append(
            Event(group.type_name, EventKind.OFFSETS_EXPIRED, group_id, details=details)
        )


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


def _may_vanish(group: OffsetOwner) -> bool:
    if group.awaits_members():
        return False
    try:
        group.check_delete()
    except ApiError:
        return False
    return True


def _expired(
    group: OffsetOwner,
    store: OffsetStore,
    now_ms: int,
    retention_ms: int,
    cursor: _Cursor,
    room: int,
) -> tuple[list[TopicPartition], int, bool]:
    """Looks at the partitions that the cursor has left. Returns those to be tombstoned, how many
    were looked at, and whether the end was reached before `room` was used up."""
    pending = store.pending(group.group_id)
    base = group.offset_expiration_base()
    expired: list[TopicPartition] = []
    looked_at = 0
    for place in cursor:
        if looked_at + (EXPIRED_COST - 1) * len(expired) >= room:
            cursor.unsee(place)
            return expired, looked_at, False
        looked_at += 1
        stored = store.get(group.group_id, *place)
        if (
            stored is not None
            and place not in pending
            and _is_over(stored, base, now_ms, retention_ms)
        ):
            expired.append(place)
    return expired, looked_at, True


def _is_over(stored: StoredOffset, base: ExpirationBase, now_ms: int, retention_ms: int) -> bool:
    since_ms = base(stored.commit_timestamp_ms)
    if since_ms is None:
        return False
    if stored.expire_timestamp_ms != -1:
        return now_ms >= stored.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms


def forget_topics(
    state: ShardState, store: OffsetStore, deleted: Iterable[tuple[str, TopicId]]
) -> Outcome:
    """Tombstones for what was committed under deleted topics, given as (name, id). Groups are
    left to a later sweep. Not atomic, as a sweep is not."""
    outcome = Outcome(atomic=False)
    gone = sorted(deleted)
    names = {name for name, _ in gone}
    touched = [group_id for group_id in state.groups if store.knows(group_id, names)]
    for group_id in sorted(touched):
        places = dict.fromkeys(
            place for name, topic_id in gone for place in _doomed(store, group_id, name, topic_id)
        )
        if places:
            outcome.records.extend(tombstone(group_id, *place) for place in places)
            details = {"count": len(places)}
            cause = "topic deleted"
            kind, type_name = EventKind.OFFSETS_FORGOTTEN, state.groups[group_id].type_name
            outcome.events.append(Event(type_name, kind, group_id, cause=cause, details=details))
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
        offsets = list(store.all_pending(group_id, topic, partition))
        if partition in committed:
            offsets.append(committed[partition])
        if all(stored.topic_id in (topic_id, NO_TOPIC_ID) for stored in offsets):
            doomed.append((topic, partition))
    return doomed
