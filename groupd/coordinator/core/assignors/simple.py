"""The assignors `range` and `roundrobin`.

`range` (docs/spec/assignors.md#3) gives each member consecutive partitions of each topic, and the
same partition numbers in topics of equal size. `roundrobin` (docs/spec/assignors.md#6) deals the
partitions one by one around the circle of members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from groupd.coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.spec import (
    partition_counts,
    prior_if_equal,
    subscribers_of,
    with_added,
)
from groupd.coordinator.core.slices import Steps, run_through, spans
from groupd.protocol.messages import TopicId

SLICE_MEMBERS = 2048
"""At most this many members get their partitions in one slice."""


def ranked_members(members: Mapping[str, MemberSpec]) -> list[str]:
    """Member ids: first the static members, sorted by instance id, then the others, sorted by
    member id. Texts are compared by UTF-16 code unit."""
    static = {spec.instance_id: key for key, spec in members.items() if spec.instance_id}
    if not static:
        return sorted_utf16(members)
    ranked = [static[instance_id] for instance_id in sorted_utf16(static)]
    taken = set(ranked)
    return ranked + sorted_utf16(key for key in members if key not in taken)


def sorted_utf16(texts: Iterable[str]) -> list[str]:
    """The texts, sorted as Java does: by UTF-16 code unit."""
    items = list(texts)
    if all(map(str.isascii, items)):
        return sorted(items)
    return sorted(items, key=lambda text: text.encode("utf-16-be", "surrogatepass"))


class RangeAssignor:
    """Costs O(M log M + S + P) for M members and P partitions, where S is the sum of the subscribed
    topics over all different subscriptions."""

    __slots__ = ()

    name = "range"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        return run_through(self.assign_steps(spec, topics))

    def assign_steps(
        self, spec: GroupSpec, topics: TopicDescriber
    ) -> Steps[Mapping[str, Assignment]]:
        """`assign` in slices."""
        members = spec.members
        ranked = ranked_members(members)
        yield
        subscribers = subscribers_of([members[key].topic_ids for key in ranked])
        counts = partition_counts(sorted(subscribers), topics)
        built: list[dict[TopicId, tuple[int, ...]]] = [{} for _ in ranked]
        # Topics with equally many partitions and equally many subscribers are divided in the same
        # way.
        ranges: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        for topic_id, count in counts.items():
            takers = subscribers[topic_id]
            size = (count, len(takers))
            if size not in ranges:
                ranges[size] = _ranges(count, len(takers))
            for some in spans(len(ranges[size]), SLICE_MEMBERS):
                yield
                for position, numbers in zip(takers[some], ranges[size][some], strict=False):
                    built[position][topic_id] = numbers
        result: dict[str, Assignment] = {}
        for some in spans(len(ranked), SLICE_MEMBERS):
            yield
            for member_id, assigned in zip(ranked[some], built[some], strict=True):
                result[member_id] = prior_if_equal(members[member_id].assigned, assigned)
        return result


def _ranges(partitions: int, subscribers: int) -> list[tuple[int, ...]]:
    """The consecutive partitions of each subscriber, in rank order. Subscribers that get no
    partition come last and are left out."""
    quota, extras = divmod(partitions, subscribers)
    numbers = tuple(range(partitions))
    longer = extras * (quota + 1)
    ranges = [numbers[start : start + quota + 1] for start in range(0, longer, quota + 1)]
    if quota:
        ranges += [numbers[start : start + quota] for start in range(longer, partitions, quota)]
    return ranges


class RoundRobinAssignor:
    """Costs O(P * M) for P partitions and M members in the worst case, O(P + M) if all members have
    the same subscription."""

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
    """Topics ascending by name; a topic without a name is sorted by the text of its id."""
    return sorted(topic_ids, key=lambda topic: (topics.name(topic) or topic.hex(), topic))
