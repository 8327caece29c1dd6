"""OffsetFetch for one group (spec 3.2). Reads the latest state: the shell holds the answer back
until what the group has pending is durable, for plain and for stable readers alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

from coordinator.core.group import GroupType
from coordinator.core.offsets.store import OffsetStore, StoredOffset, TopicPartition
from coordinator.core.state import ShardState
from protocol.errors import ApiError, ErrorCode
from protocol.messages import NO_TOPIC_ID, TopicId
from protocol.messages.offsets import FetchedGroup, FetchedOffset, FetchedTopic, OffsetFetchGroup

_NOTHING: Mapping[int, StoredOffset] = {}
_NOTHING_PENDING: Mapping[TopicPartition, Set[int]] = {}


def fetch_offsets(state: ShardState, store: OffsetStore, request: OffsetFetchGroup) -> FetchedGroup:
    """An unknown group, and a share group, have no offsets; that is no error. Errors of the
    group's own check stand at group level. Topics of a fetch-all come sorted, without ids."""
    group_id = request.group_id
    group = state.groups.get(group_id)
    known = group is not None and group.type is not GroupType.SHARE
    if group is not None and known:
        try:
            group.check_offset_fetch(request.member_id, request.member_epoch)
        except ApiError as error:
            return FetchedGroup(group_id, error=error.code)
    reader = _Reader(store, group_id, stable=request.require_stable)
    if request.topics is None:
        return FetchedGroup(group_id, reader.everything() if known else ())
    return FetchedGroup(
        group_id,
        tuple(
            FetchedTopic(
                topic.name,
                reader.partitions(topic.name, topic.topic_id, topic.partitions),
                topic.topic_id,
            )
            for topic in request.topics
        ),
    )


class _Reader:
    """Offsets of one group as one reader sees them."""

    __slots__ = ("_group_id", "_stable", "_store")

    def __init__(self, store: OffsetStore, group_id: str, *, stable: bool) -> None:
        self._store, self._group_id, self._stable = store, group_id, stable

    def everything(self) -> tuple[FetchedTopic, ...]:
        topics = self._store.topics(self._group_id)
        return tuple(
            FetchedTopic(name, self.partitions(name, NO_TOPIC_ID, sorted(topics[name])))
            for name in sorted(topics)
        )

    def partitions(
        self, topic: str, topic_id: TopicId, partitions: Iterable[int]
    ) -> tuple[FetchedOffset, ...]:
        get = self._store.topics(self._group_id).get(topic, _NOTHING).get
        pending = self._store.pending(self._group_id) if self._stable else _NOTHING_PENDING
        found: list[FetchedOffset] = []
        for partition in partitions:
            stored = get(partition)
            if pending and (topic, partition) in pending:
                found.append(FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT))
            elif stored is None or _of_another_topic(stored.value.topic_id, topic_id):
                found.append(FetchedOffset(partition))
            else:
                value = stored.value
                found.append(
                    FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)
                )
        return tuple(found)


def _of_another_topic(own: TopicId, asked: TopicId) -> bool:
    """The topic was re-created under its name since the commit."""
    return own != asked and own != NO_TOPIC_ID and asked != NO_TOPIC_ID
