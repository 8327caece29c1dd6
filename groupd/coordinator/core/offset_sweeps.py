"""Sweeps over the offsets of a shard: one removes expired offsets, one the offsets of deleted
topics (docs/spec/offsets-and-log.md#4).

A sweep may go through a hundred thousand offsets, so it is done in slices. A slice leads to one
outcome, and other requests are served between two slices. The work is a generator that yields where
a slice ends. Groups and offsets may have changed by then, so it looks them up again.

An offset expires when its topic is not subscribed, nothing is pending on its partition, and its
time is up: its own expire timestamp if the commit set one, else the retention time counted from the
group's base time. An empty group that is left without offsets is removed in the same sweep, unless
a client is just about to join it. Kafka removes it even then, and the client starts again.

Offsets of deleted topics are removed, both committed and pending ones. Their groups are left to a
later sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from heapq import merge

from msgspec.structs import astuple

from groupd.coordinator.core.group import ExpirationBase, Group, OffsetOwner
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.metadata_image import TopicDeletion
from groupd.coordinator.core.offsets.delete import tombstone
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset, ascending
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Event, EventKind, Instant, Outcome
from groupd.protocol.errors import ApiError
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.schema import Record

SLICE_OFFSETS = 250
TOMBSTONE_COST = 5
"""A tombstone costs as much as this many checks of offsets. A slice takes less than a millisecond,
since the slices of all shards may come in one turn of the event loop."""

SLICE_BYTES = 64 * 1024
"""How many bytes the records of one slice may have."""

GROUPS_AT_ONCE = 500
"""At most this many groups are sorted between two stops."""

_RECORD_BYTES = 64
"""More bytes than a tombstone takes in a batch, apart from the texts of its key."""


def bytes_of(tombstones: Sequence[Record]) -> int:
    """How many bytes these tombstones take in a batch at most."""
    size = _RECORD_BYTES * len(tombstones)
    for key, _ in tombstones:
        parts = key if isinstance(key, tuple) else astuple(key)
        size += sum([len(part.encode()) for part in parts if isinstance(part, str)])
    return size


class SweepSlice:
    """How much more the current slice may do, and its outcome. A slice checks about
    `SLICE_OFFSETS` offsets, or a fifth of that if all of them are removed. `bytes_max`: how many
    bytes its records may have."""

    __slots__ = ("_bytes", "_bytes_max", "_counted", "_details", "_left", "now", "outcome")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max

    def begin(self, now: Instant) -> None:
        """Begin the next slice."""
        self.now = now
        self.outcome = Outcome()
        self._left: float = SLICE_OFFSETS
        self._bytes = 0
        self._counted: tuple[str, EventKind] | None = None
        self._details: dict[str, int] = {}

    def end_if_full(self, size: int = 0) -> Steps[bool]:
        """Ends the slice if it has done as much as a slice may, or if `size` more bytes do not fit
        into it. Returns whether it has ended; then the caller has to look everything up again.
        Tombstones that are larger than a slice may be are a slice of their own. If they are larger
        than a batch may be (`max.message.bytes`), their write is refused as that of any request
        would be."""
        fits = not (size and self._bytes) or self._bytes + size <= self._bytes_max
        if self._left > 0 and fits:
            return False
        yield
        return True

    def count(self, cost: float = 1) -> None:
        """Count the check of an offset, or something that takes as long as `cost` such checks."""
        self._left -= cost

    def add_tombstones(self, tombstones: Sequence[Record], size: int) -> None:
        """Add these tombstones, of `size` bytes (`bytes_of`), to the records of the slice."""
        self._left -= TOMBSTONE_COST - 1
        self._bytes += size
        self.outcome.records += tombstones

    def add_offset_tombstone(
        self, group: Group, topic: str, partition: int, size: int, kind: EventKind, cause: str = ""
    ) -> None:
        """Add the tombstone of an offset. For each group and kind, the slice has one event with the
        number of its offsets."""
        group_id = group.group_id
        self.add_tombstones([tombstone(group_id, topic, partition)], size)
        if self._counted != (group_id, kind):
            self._counted, self._details = (group_id, kind), {"count": 0}
            event = Event(group.type_name, kind, group_id, cause=cause, details=self._details)
            self.outcome.events.append(event)
        self._details["count"] += 1


class Sweep:
    """One sweep. `begin` returns its steps, which write into the slice that it is given."""

    __slots__ = ("_slice", "_steps", "done")

    def __init__(self, bytes_max: int, begin: Callable[[SweepSlice], Steps[None]]) -> None:
        self._slice = SweepSlice(bytes_max)
        self._steps = begin(self._slice)
        self.done = False

    def next_slice(self, now: Instant) -> Outcome:
        self._slice.begin(now)
        try:
            next(self._steps)
        except StopIteration:
            self.done = True
        return self._slice.outcome


_MS_PER_MINUTE = 60_000


def expire_offsets(state: ShardState, store: OffsetStore, sweep_slice: SweepSlice) -> Steps[None]:
    """Write tombstones of expired offsets, and of the groups that are removed with them, for all
    groups that there are when the sweep begins. Groups of types that do not commit offsets are
    never swept, as in Kafka (`ShareGroup.shouldExpire`)."""
    for some in chunks(list(state.groups), GROUPS_AT_ONCE):
        for group_id in sorted(some):
            yield from sweep_slice.end_if_full()
            sweep_slice.count()
            yield from _expire_in_group(state, store, group_id, sweep_slice)


def _expire_in_group(
    state: ShardState, store: OffsetStore, group_id: str, sweep_slice: SweepSlice
) -> Steps[None]:
    expired = 0  # in this slice, whose tombstones are not applied yet
    for topic in sorted(store.topics(group_id)):
        group = _expiring(state, group_id, topic)
        if group is None:
            continue
        base, size = group.offset_expiration_base(), bytes_of([tombstone(group_id, topic, 0)])
        for partition in ascending(store.topics(group_id).get(topic, {})):
            if (yield from sweep_slice.end_if_full(size)):
                expired = 0
                group = _expiring(state, group_id, topic)
                if group is None:
                    break
                base = group.offset_expiration_base()
            sweep_slice.count()
            stored = store.get(group_id, topic, partition)
            if (
                stored is not None
                and not store.is_pending(group_id, topic, partition)
                and _is_over(stored, base, state, sweep_slice.now.wall_ms)
            ):
                sweep_slice.add_offset_tombstone(
                    group, topic, partition, size, EventKind.OFFSETS_EXPIRED
                )
                expired += 1
    while not _has_more(store, group_id, expired):
        group = _vanishing(state, group_id)
        if group is None:
            return
        tombstones = group.tombstones()
        size = bytes_of(tombstones)
        if not (yield from sweep_slice.end_if_full(size)):
            sweep_slice.add_tombstones(tombstones, size)
            cause, kind = "empty, without offsets", EventKind.GROUP_DELETED
            sweep_slice.outcome.events.append(Event(group.type_name, kind, group_id, cause=cause))
            return
        expired = 0


def _expiring(state: ShardState, group_id: str, topic: str) -> OffsetOwner | None:
    """The group, if its offsets of the topic may expire; otherwise None."""
    group = state.groups.get(group_id)
    owner = None if group is None else group.offset_owner
    return None if owner is None or owner.is_subscribed_to(topic) else owner


def _vanishing(state: ShardState, group_id: str) -> OffsetOwner | None:
    """The group, if it may be removed once it has no offsets and nothing has to be done before
    (`before_delete`); otherwise None."""
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
    """Whether the group has more offsets, committed or pending, than `expired`: the number of those
    whose tombstones are written but not applied yet."""
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


_GROUP_COST = 0.2
_NAME_COST = 0.03
_PENDING_COST = 0.05
"""The cost, in checks of offsets, of going past a group, of comparing a topic name, and of checking
the topic of a pending offset."""

NAMES_AT_ONCE = 1000
"""At most this many names, or pending offsets of a group, are compared between two stops."""


def forget_topics(
    state: ShardState, store: OffsetStore, deleted: Sequence[TopicDeletion], sweep_slice: SweepSlice
) -> Steps[None]:
    """Write tombstones of the offsets of deleted topics, for all groups that there are when the
    sweep begins."""
    by_name: dict[str, list[TopicDeletion]] = {}
    for one in deleted:
        by_name.setdefault(one.name, []).append(one)
    for names in chunks(by_name, NAMES_AT_ONCE):
        yield from sweep_slice.end_if_full()
        sweep_slice.count(_NAME_COST * len(names))
        yield from _forget_some(state, store, {name: by_name[name] for name in names}, sweep_slice)


Deletions = Mapping[str, Sequence[TopicDeletion]]
"""Deleted topics by name. There may be several with one name: a topic may have been re-created and
deleted again."""


def _forget_some(
    state: ShardState, store: OffsetStore, by_name: Deletions, sweep_slice: SweepSlice
) -> Steps[None]:
    for some in chunks(list(state.groups), GROUPS_AT_ONCE):
        for group_id in sorted(some):
            yield from sweep_slice.end_if_full()
            topics = store.topics(group_id)
            compared = min(len(topics), len(by_name))
            sweep_slice.count(_GROUP_COST + _NAME_COST * compared)
            committed = topics.keys() & by_name.keys()
            if committed or store.pending(group_id):
                yield from _forget_in_group(state, store, group_id, committed, by_name, sweep_slice)


def _forget_in_group(
    state: ShardState,
    store: OffsetStore,
    group_id: str,
    committed: Set[str],
    by_name: Deletions,
    sweep_slice: SweepSlice,
) -> Steps[None]:
    """Write the tombstones of one group. `committed`: the deleted topics for which it has committed
    offsets."""
    pending = yield from _pending_by_topic(store, group_id, by_name.keys(), sweep_slice)
    for name in sorted(committed | pending.keys()):
        places = _partitions(store, group_id, name, pending.get(name, ()))
        yield from _forget_topic(state, store, group_id, name, places, by_name[name], sweep_slice)


def _pending_by_topic(
    store: OffsetStore, group_id: str, names: Collection[str], sweep_slice: SweepSlice
) -> Steps[dict[str, set[int]]]:
    """By topic, the partitions of these topics for which the group has pending offsets."""
    found: dict[str, set[int]] = {}
    for some in chunks(list(store.pending(group_id)), NAMES_AT_ONCE):
        yield from sweep_slice.end_if_full()
        sweep_slice.count(_PENDING_COST * len(some))
        for name, partition in some:
            if name in names:
                found.setdefault(name, set()).add(partition)
    return found


def _forget_topic(
    state: ShardState,
    store: OffsetStore,
    group_id: str,
    name: str,
    partitions: Iterator[int],
    deleted: Sequence[TopicDeletion],
    sweep_slice: SweepSlice,
) -> Steps[None]:
    """Write the tombstones of one topic of a group. A tombstone removes committed and pending
    offsets alike. So it is only written if all offsets of the partition belong to a deleted topic,
    and offsets of a re-created topic survive."""
    size = bytes_of([tombstone(group_id, name, 0)])
    for partition in partitions:
        yield from sweep_slice.end_if_full(size)
        sweep_slice.count()
        offsets = list(store.all_pending(group_id, name, partition))
        committed = store.get(group_id, name, partition)
        if committed is not None:
            offsets.append(committed)
        if offsets and all(_is_of(deleted, stored) for stored in offsets):
            kind = EventKind.OFFSETS_FORGOTTEN
            group = state.groups[group_id]
            sweep_slice.add_offset_tombstone(group, name, partition, size, kind, "topic deleted")


def _partitions(
    store: OffsetStore, group_id: str, name: str, pending: Collection[int]
) -> Iterator[int]:
    """The partitions with a committed or a pending offset, each once, in ascending order."""
    last = -1
    committed = store.topics(group_id).get(name, {})
    for partition in merge(ascending(committed), ascending(pending)):
        if partition != last:
            yield partition
        last = partition


def _is_of(deleted: Sequence[TopicDeletion], stored: StoredOffset) -> bool:
    """Whether the offset is of one of the deleted topics. An offset without a topic id was
    committed for the topic that had the name at that time."""
    if stored.topic_id == NO_TOPIC_ID:
        return any(stored.commit_timestamp_ms <= topic.at_ms for topic in deleted)
    return any(stored.topic_id == topic.topic_id for topic in deleted)
