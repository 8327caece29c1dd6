"""OffsetFetch for one group (docs/spec/offsets-and-log.md#3.2). Reads the latest state. `runtime`
holds the answer back until the group's pending records are durable, with and without
`require_stable`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import repeat

from groupd.coordinator.core.offsets.store import (
    ByPartition,
    OffsetStore,
    StoredOffset,
    ascending,
)
from groupd.coordinator.core.state import ShardState
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.offsets import (
    FetchedGroup,
    FetchedOffset,
    FetchedRows,
    FetchedTopic,
    OffsetFetchGroup,
)

_NOTHING: Mapping[int, StoredOffset] = {}
_NONE: Set[int] = frozenset()

MANY = 500
"""If a topic has more offsets than this, and all of them are asked for, they are read later, from a
copy."""

_MISSING = StoredOffset(-1, -1, "", -1, -1, NO_TOPIC_ID, -1)
"""Stands for an offset that is not there."""
_TOPIC_ID = StoredOffset._fields.index("topic_id")


def fetch_offsets(state: ShardState, store: OffsetStore, request: OffsetFetchGroup) -> FetchedGroup:
    """The offsets of a group. An unknown group, and one of a type without committed offsets, has no
    offsets; that is no error. An error of the group's own check is the error of the whole group.
    Topics of a fetch-all are sorted and without ids. The offsets are those of this moment, even if
    they are read later."""
    group_id = request.group_id
    group = state.groups.get(group_id)
    owner = None if group is None else group.offset_owner
    if owner is not None:
        try:
            owner.check_offset_fetch(request.member_id, request.member_epoch)
        except ApiError as error:
            return FetchedGroup(group_id, error=error.code)
    reader = _Reader(store, group_id, stable=request.require_stable)
    if request.topics is None:
        return FetchedGroup(group_id, reader.everything(request.only) if owner is not None else ())
    topics = []
    for topic in request.topics:
        rows = reader.partitions(topic.name, topic.topic_id, topic.partitions)
        topics.append(FetchedTopic(topic.name, rows, topic.topic_id))
    return FetchedGroup(group_id, tuple(topics))


class _Reader:
    """The offsets of one group, as a reader with or without `require_stable` sees them."""

    __slots__ = ("_group_id", "_stable", "_store")

    def __init__(self, store: OffsetStore, group_id: str, *, stable: bool) -> None:
        self._store, self._group_id, self._stable = store, group_id, stable

    def everything(self, only: tuple[str, ...] | None) -> tuple[FetchedTopic, ...]:
        """All committed offsets by topic. `only`: if not None, only these topics, which are
        sorted."""
        topics = self._store.topics(self._group_id)
        names = sorted(topics) if only is None else [name for name in only if name in topics]
        return tuple([FetchedTopic(name, self._all_of(name, topics[name])) for name in names])

    def _all_of(self, topic: str, committed: ByPartition) -> Sequence[FetchedOffset]:
        if len(committed) <= MANY:
            return self.partitions(topic, NO_TOPIC_ID, sorted(committed))
        offsets, unstable = committed.copy(), self._unstable(topic, committed)
        return Lazily(
            len(offsets),
            lambda: _offsets(offsets, unstable, NO_TOPIC_ID, ascending(offsets)),
        )

    def partitions(
        self, topic: str, topic_id: TopicId, partitions: Sequence[int]
    ) -> Sequence[FetchedOffset]:
        offsets = self._store.topics(self._group_id).get(topic, _NOTHING)
        unstable = self._unstable(topic, partitions)
        stored = list(map(offsets.get, partitions, repeat(_MISSING)))
        if partitions and not unstable:
            found = list(zip(*stored, strict=True))
            # If the topic was re-created since the commit, the offset has another topic id and does
            # not count.
            if topic_id == NO_TOPIC_ID or {topic_id, NO_TOPIC_ID}.issuperset(found[_TOPIC_ID]):
                return FetchedRows(partitions, *found[:3])
        return tuple(_offsets(offsets, unstable, topic_id, partitions))

    def _unstable(self, topic: str, partitions: Iterable[int]) -> Set[int]:
        """Those of `partitions` that wait for the end of a transaction. Each is looked up, because
        the group may have far more pending offsets than the request asks for."""
        pending = self._store.pending(self._group_id) if self._stable else None
        if not pending:
            return _NONE
        return {partition for partition in partitions if (topic, partition) in pending}


def _offsets(
    offsets: Mapping[int, StoredOffset],
    unstable: Set[int],
    topic_id: TopicId,
    partitions: Iterable[int],
) -> Iterator[FetchedOffset]:
    # If the topic was re-created since the commit, the offset has another topic id and does not
    # count.
    own_ids = (topic_id, NO_TOPIC_ID)
    any_id = topic_id == NO_TOPIC_ID
    for partition in partitions:
        stored = offsets.get(partition)
        if unstable and partition in unstable:
            yield FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
            continue
        if stored is not None:
            offset, leader_epoch, metadata, _, _, own_id, _ = stored
            if any_id or own_id in own_ids:
                yield FetchedOffset(partition, offset, leader_epoch, metadata)
                continue
        yield FetchedOffset(partition)
