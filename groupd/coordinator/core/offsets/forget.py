"""What deleted topics leave behind: the offsets that were committed under their names
(docs/spec/offsets-and-log.md#4). Groups are left to a later sweep."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from heapq import merge

from groupd.coordinator.core.metadata_image import TopicDeletion
from groupd.coordinator.core.offsets.delete import tombstone
from groupd.coordinator.core.offsets.sliced import GROUPS_AT_ONCE, Slice, bytes_of
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset, ascending
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind
from groupd.protocol.messages import NO_TOPIC_ID

_GROUP_COST = 0.2
_NAME_COST = 0.03
_PENDING_COST = 0.05
"""What it takes, in looks at an offset, to pass by a group, to compare a name with another, and to
see of which topic a pending offset is."""

NAMES_AT_ONCE = 1000
"""At most this many names, or pending offsets of a group, are compared between two stops."""


def forget_topics(
    state: ShardState, store: OffsetStore, deleted: Sequence[TopicDeletion], present: Slice
) -> Steps[None]:
    """Tombstones of the offsets of deleted topics, of all groups that there are when it begins."""
    by_name: dict[str, list[TopicDeletion]] = {}
    for one in deleted:
        by_name.setdefault(one.name, []).append(one)
    for names in chunks(by_name, NAMES_AT_ONCE):
        if not present.may_look():
            yield
        present.look(_NAME_COST * len(names))
        yield from _forget_some(state, store, {name: by_name[name] for name in names}, present)


Deletions = Mapping[str, Sequence[TopicDeletion]]
"""Deleted topics by name: a topic may have been made anew and deleted again."""


def _forget_some(
    state: ShardState, store: OffsetStore, by_name: Deletions, present: Slice
) -> Steps[None]:
    for some in chunks(list(state.groups), GROUPS_AT_ONCE):
        for group_id in sorted(some):
            if not present.may_look():
                yield
            topics = store.topics(group_id)
            compared = min(len(topics), len(by_name))
            present.look(_GROUP_COST + _NAME_COST * compared)
            committed = topics.keys() & by_name.keys()
            if committed or store.pending(group_id):
                yield from _forget_in_group(state, store, group_id, committed, by_name, present)


def _forget_in_group(
    state: ShardState,
    store: OffsetStore,
    group_id: str,
    committed: Set[str],
    by_name: Deletions,
    present: Slice,
) -> Steps[None]:
    """`committed`: the topics of committed offsets."""
    pending = yield from _pending_by_topic(store, group_id, by_name.keys(), present)
    for name in sorted(committed | pending.keys()):
        places = _partitions(store, group_id, name, pending.get(name, ()))
        yield from _forget_topic(state, store, group_id, name, places, by_name[name], present)


def _pending_by_topic(
    store: OffsetStore, group_id: str, names: Collection[str], present: Slice
) -> Steps[dict[str, set[int]]]:
    """The partitions of these topics for which the group has pending offsets."""
    found: dict[str, set[int]] = {}
    for some in chunks(list(store.pending(group_id)), NAMES_AT_ONCE):
        if not present.may_look():
            yield
        present.look(_PENDING_COST * len(some))
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
    present: Slice,
) -> Steps[None]:
    """A tombstone takes committed and pending offsets alike, so every one of a partition must
    belong to a deleted topic: offsets of a topic that was made anew survive."""
    size = bytes_of([tombstone(group_id, name, 0)])
    for partition in partitions:
        if not present.may_write(size):
            yield
        present.look()
        offsets = list(store.all_pending(group_id, name, partition))
        committed = store.get(group_id, name, partition)
        if committed is not None:
            offsets.append(committed)
        if offsets and all(_is_of(deleted, stored) for stored in offsets):
            kind = EventKind.OFFSETS_FORGOTTEN
            group = state.groups[group_id]
            present.bury_offset(group, name, partition, size, kind, "topic deleted")


def _partitions(
    store: OffsetStore, group_id: str, name: str, pending: Collection[int]
) -> Iterator[int]:
    """Those with a committed offset and the pending ones, each once, in ascending order."""
    last = -1
    committed = store.topics(group_id).get(name, {})
    for partition in merge(ascending(committed), ascending(pending)):
        if partition != last:
            yield partition
        last = partition


def _is_of(deleted: Sequence[TopicDeletion], stored: StoredOffset) -> bool:
    """Whether one of the deleted topics is that of the offset. An offset without a topic id was
    committed for the topic that had the name at that time."""
    if stored.topic_id == NO_TOPIC_ID:
        return any(stored.commit_timestamp_ms <= topic.at_ms for topic in deleted)
    return any(stored.topic_id == topic.topic_id for topic in deleted)
