"""What share groups keep in a shard's state beside the groups. It is lost with a restart; nothing
in the log depends on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct, field

from groupd.coordinator.core.share_group.group import TYPE_NAME
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicId


class ShareSoftState(Struct):
    """By group id, because a new group has no object yet. `since_ms`: when the share coordinator
    was last asked to initialize partitions of a topic, in monotonic ms. `unanswered`: how many
    heartbeats wait for the answer to such a question; groups for which none waits are not in it.
    `deleted_topics`: topics that were deleted and are still in the group's record (type 15)."""

    since_ms: dict[str, dict[TopicId, int]] = field(default_factory=dict)
    unanswered: dict[str, Counter[TopicId]] = field(default_factory=dict)
    deleted_topics: dict[str, set[TopicId]] = field(default_factory=dict)

    def note(self, group_id: str, topic_ids: Iterable[TopicId], now: Instant) -> None:
        """Soft state: the share coordinator is asked about these topics now."""
        self.since_ms.setdefault(group_id, {}).update(dict.fromkeys(topic_ids, now.monotonic_ms))

    def is_over(self, group_id: str, topic_id: TopicId, retry_ms: int, now: Instant) -> bool:
        """Whether the last request is so long ago that it is repeated."""
        since_ms = self.since_ms.get(group_id, {}).get(topic_id)
        return since_ms is None or now.monotonic_ms - since_ms >= retry_ms

    def asked(self, group_id: str, topic_ids: Iterable[TopicId]) -> None:
        """Soft state: a heartbeat asks about these topics."""
        self.unanswered.setdefault(group_id, Counter()).update(list(topic_ids))

    def answered(self, group_id: str, topic_ids: Iterable[TopicId]) -> list[TopicId]:
        """Soft state: a question of a heartbeat is answered. Returns those of its topics about
        which no other question waits for its answer."""
        waiting, topics = self.unanswered[group_id], list(topic_ids)
        waiting.subtract(topics)
        last = [topic_id for topic_id in topics if not waiting[topic_id]]
        for topic_id in last:
            del waiting[topic_id]
        if not waiting:
            del self.unanswered[group_id]
        return last

    def keep(self, group_id: str, topic_ids: Iterable[TopicId]) -> None:
        """Soft state: forget all topics of the group but these."""
        known = self.since_ms.pop(group_id, {})
        if left := {one: known[one] for one in topic_ids if one in known}:
            self.since_ms[group_id] = left

    def forget(self, group_id: str) -> None:
        """Soft state: the group is gone."""
        self.since_ms.pop(group_id, None)
        self.deleted_topics.pop(group_id, None)


def soft_of(state: ShardState) -> ShareSoftState:
    """The soft state of the share groups of a shard."""
    soft: ShareSoftState = state.soft[TYPE_NAME]
    return soft
