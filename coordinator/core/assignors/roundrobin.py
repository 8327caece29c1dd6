"""`roundrobin`: one partition after the other around the circle of members (assignors spec,
section 6). A product extension after the client-side assignor of that name; not sticky, and
badly unbalanced where subscriptions differ. Topics without metadata are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber
from groupd.coordinator.core.assignors.range_ import ranked_members
from groupd.coordinator.core.assignors.spec import settled, with_added
from groupd.protocol.messages import TopicId


class RoundRobinAssignor:
    """Cost O(P * M) in the worst case, O(P + M) where all subscribe alike."""

    __slots__ = ()

    name = "roundrobin"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        members = spec.members
        ranked = ranked_members(members)
        dealt: list[dict[TopicId, list[int]]] = [{} for _ in ranked]
        subscriptions = [members[key].topic_ids for key in ranked]
        position = 0
        for topic_id in _laid_out(set().union(*subscriptions), topics):
            for partition in range(topics.num_partitions(topic_id)):
                while topic_id not in subscriptions[position]:
                    position = (position + 1) % len(ranked)
                dealt[position].setdefault(topic_id, []).append(partition)
                position = (position + 1) % len(ranked)
        built = dict(zip(ranked, dealt, strict=True))
        return {
            key: settled(member.assigned, with_added({}, built[key]))
            for key, member in members.items()
        }


def _laid_out(topic_ids: set[TopicId], topics: TopicDescriber) -> list[TopicId]:
    """By name, by the id's text where there is no name."""
    return sorted(topic_ids, key=lambda topic: (topics.name(topic) or topic.hex(), topic))
