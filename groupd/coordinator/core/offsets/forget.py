"""What deleted topics leave behind: the offsets that were committed under their names
(docs/spec/offsets-and-log.md#4). Groups are left to a later sweep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from groupd.coordinator.core.metadata_image import TopicDeletion
from groupd.coordinator.core.offsets.delete import tombstone
from groupd.coordinator.core.offsets.sliced import GROUPS_AT_ONCE, Slice, bytes_of
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset, ascending
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import EventKind
from groupd.protocol.messages import NO_TOPIC_ID

_GROUP_SHARE = 5
"""To find out that a group knows none of the topics takes this part of a look at an offset."""


def forget_topics(
    state: ShardState, store: OffsetStore, deleted: Sequence[TopicDeletion], present: Slice
) -> Steps[None]:
    """Tombstones of the offsets of deleted topics, of all groups that there are when it begins."""
    by_name: dict[str, list[TopicDeletion]] = {}
    for one in deleted:
        by_name.setdefault(one.name, []).append(one)
    for some in chunks(list(state.groups), GROUPS_AT_ONCE):
        if not present.has_room():
            yield
        present.look(len(some) // _GROUP_SHARE)
        touched = {group_id: store.known_of(group_id, by_name.keys()) for group_id in some}
        for group_id in sorted(group_id for group_id, names in touched.items() if names):
            for name in sorted(touched[group_id]):
                yield from _forget_topic(state, store, group_id, name, by_name[name], present)


def _forget_topic(
    state: ShardState,
    store: OffsetStore,
    group_id: str,
    name: str,
    deleted: Sequence[TopicDeletion],
    present: Slice,
) -> Steps[None]:
    """A tombstone takes committed and pending offsets alike, so every one of a partition must
    belong to a deleted topic: offsets of a topic that was made anew survive."""
    size = bytes_of([tombstone(group_id, name, 0)])
    for partition in _partitions(store, group_id, name):
        if not present.has_room(size):
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


def _partitions(store: OffsetStore, group_id: str, name: str) -> Iterator[int]:
    """Those with a committed offset, then those with pending ones only, each in ascending order."""
    committed = store.topics(group_id).get(name, {})
    yield from ascending(committed)
    pending = {partition for topic, partition in store.pending(group_id) if topic == name}
    yield from sorted(pending.difference(committed))


def _is_of(deleted: Sequence[TopicDeletion], stored: StoredOffset) -> bool:
    """Whether one of the deleted topics is that of the offset. An offset without a topic id was
    committed for the topic that had the name at that time."""
    if stored.topic_id == NO_TOPIC_ID:
        return any(stored.commit_timestamp_ms <= topic.at_ms for topic in deleted)
    return any(stored.topic_id == topic.topic_id for topic in deleted)
