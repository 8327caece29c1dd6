"""`range`: consecutive partitions per topic, co-partitioned over topics of equal size
(assignors spec, section 3). The prior assignment plays no part. Static members come first,
by instance id, so that a replacement takes its predecessor's place.
"""

from __future__ import annotations

from collections.abc import Mapping

from coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    TopicDescriber,
)
from coordinator.core.assignors.order import sorted_utf16
from coordinator.core.assignors.spec import partition_counts, settled
from protocol.messages import TopicId


def ranked_members(members: Mapping[str, MemberSpec]) -> list[str]:
    """Members with an instance id first, by instance id; the rest by member id; compared by
    UTF-16 unit."""
    static = {spec.instance_id: key for key, spec in members.items() if spec.instance_id}
    ranked = [static[instance_id] for instance_id in sorted_utf16(static)]
    taken = set(ranked)
    return ranked + sorted_utf16(key for key in members if key not in taken)


class RangeAssignor:
    """Cost O(M log M + sum of subscriptions + P)."""

    __slots__ = ()

    name = "range"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        members = spec.members
        ranked = ranked_members(members)
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            built = _homogeneous(ranked, members, topics)
        else:
            built = _heterogeneous(ranked, members, topics)
        return {key: settled(members[key].assigned, built[key]) for key in members}


Built = dict[str, dict[TopicId, tuple[int, ...]]]


def _shares(partitions: int, subscribers: int) -> list[tuple[int, ...]]:
    """The consecutive runs in member order; empty ones are left out (they come last)."""
    quota, extras = divmod(partitions, subscribers)
    runs: list[tuple[int, ...]] = []
    start = 0
    for position in range(min(partitions, subscribers)):
        end = start + quota + (position < extras)
        runs.append(tuple(range(start, end)))
        start = end
    return runs


def _homogeneous(
    ranked: list[str], members: Mapping[str, MemberSpec], topics: TopicDescriber
) -> Built:
    built: Built = {key: {} for key in ranked}
    if not ranked:
        return built
    counts = partition_counts(sorted(members[ranked[0]].topic_ids), topics)
    shares = {count: _shares(count, len(ranked)) for count in set(counts.values())}
    if len(shares) == 1:
        # Topics of one size: everybody has the same run of all.
        (runs,) = shares.values()
        built.update((key, dict.fromkeys(counts, run)) for key, run in zip(ranked, runs, strict=False))
        return built
    for topic_id, count in counts.items():
        for key, run in zip(ranked, shares[count], strict=False):
            built[key][topic_id] = run
    return built


def _heterogeneous(
    ranked: list[str], members: Mapping[str, MemberSpec], topics: TopicDescriber
) -> Built:
    subscribers: dict[TopicId, list[str]] = {}
    for key in ranked:
        for topic_id in members[key].topic_ids:
            subscribers.setdefault(topic_id, []).append(key)
    built: Built = {key: {} for key in ranked}
    for topic_id, count in partition_counts(sorted(subscribers), topics).items():
        owners = subscribers[topic_id]
        for key, run in zip(owners, _shares(count, len(owners)), strict=False):
            built[key][topic_id] = run
    return built
