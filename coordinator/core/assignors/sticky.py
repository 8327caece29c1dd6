"""`sticky`: keep what members have, deal the rest by turns (assignors spec, section 7).

A product extension after the client-side sticky assignors (KIP-54, KIP-429). Differs from
`uniform` in which partitions are shed (the highest numbers of every topic, not whole topics)
and in spreading by turns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.spec import partition_counts, settled, with_added
from groupd.coordinator.core.assignors.sticky_heterogeneous import assign_heterogeneous
from groupd.protocol.messages import TopicId

PartitionTopic = tuple[int, TopicId]


class StickyAssignor:
    __slots__ = ()

    name = "sticky"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        if not spec.members:
            return {}
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            return _assign_homogeneous(spec.members, topics)
        return assign_heterogeneous(spec.members, topics)


def _assign_homogeneous(
    members: Mapping[str, MemberSpec], topics: TopicDescriber
) -> Mapping[str, Assignment]:
    counts = partition_counts(sorted(next(iter(members.values())).topic_ids), topics)
    quota, extras = divmod(sum(counts.values()), len(members))
    kept: dict[str, list[PartitionTopic]] = {}
    under: deque[str] = deque()
    exact: deque[str] = deque()
    over = 0
    for key in sorted(members):
        prior = _prior(members[key], counts)
        if len(prior) < quota:
            under.append(key)
        elif over < extras and len(prior) > quota:
            del prior[quota + 1 :]
            over += 1
            if over == extras:
                exact.clear()
        else:
            del prior[quota:]
            if over < extras:
                exact.append(key)
        kept[key] = prior
    _deal(_free(counts, kept), kept, under, exact, quota)
    return {key: settled(members[key].assigned, _built(kept[key])) for key in members}


def _prior(member: MemberSpec, counts: Mapping[TopicId, int]) -> list[PartitionTopic]:
    """What is left of the prior, by (partition, topic)."""
    return sorted(
        (partition, topic_id)
        for topic_id, partitions in member.assigned.items()
        for partition in partitions
        if partition < counts.get(topic_id, 0)
    )


def _free(
    counts: Mapping[TopicId, int], kept: Mapping[str, list[PartitionTopic]]
) -> list[PartitionTopic]:
    """Partitions nobody keeps, by (topic, partition)."""
    taken = {item for prior in kept.values() for item in prior}
    return [
        (partition, topic_id)
        for topic_id, count in counts.items()
        for partition in range(count)
        if (partition, topic_id) not in taken
    ]


def _deal(
    free: list[PartitionTopic],
    kept: dict[str, list[PartitionTopic]],
    under: deque[str],
    exact: deque[str],
    quota: int,
) -> None:
    """One each, cyclically, to those below the quota; then one extra each."""
    for item in free:
        if not under:
            kept[exact.popleft()].append(item)
            continue
        key = under.popleft()
        kept[key].append(item)
        (under if len(kept[key]) < quota else exact).append(key)


def _built(items: list[PartitionTopic]) -> dict[TopicId, tuple[int, ...]]:
    lists: dict[TopicId, list[int]] = {}
    for partition, topic_id in items:
        lists.setdefault(topic_id, []).append(partition)
    return with_added({}, lists)
