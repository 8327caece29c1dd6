"""`roundrobin`: deals one partition after the other around the circle of members
(docs/spec/assignors.md#6). An assignor of groupd's own, after the client-side assignor of that
name. It is not sticky, and badly balanced where subscriptions differ. Topics without metadata are
skipped.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber
from groupd.coordinator.core.assignors.range_ import ranked_members
from groupd.coordinator.core.assignors.spec import prior_if_equal, with_added
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
            key: prior_if_equal(member.assigned, with_added({}, built[key]))
            for key, member in members.items()
        }


def _laid_out(topic_ids: set[TopicId], topics: TopicDescriber) -> list[TopicId]:
    """Ascending by name; a topic without a name counts by the text of its id."""
    return sorted(topic_ids, key=lambda topic: (topics.name(topic) or topic.hex(), topic))
