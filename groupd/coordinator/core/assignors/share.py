"""The assignor `simple` of share groups (KIP-932, docs/spec/assignors.md#8).

A partition may have several members. If all members have the same subscription, all partitions are
dealt together: then the members have equally many, give or take one. Otherwise each topic is dealt
to its own subscribers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from groupd.coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.spec import (
    partition_counts,
    prior_if_equal,
    subscribers_of,
    with_added,
)
from groupd.coordinator.core.slices import Pace, Steps, dict_in_steps, run_through
from groupd.protocol.messages import TopicId, TopicIdPartition

SLICE_PARTITIONS = 2048
"""About this many partitions are looked at in one slice."""


class SimpleAssignor:
    """Costs O(P * S + M) for M members and P partitions, each of which gets S members, as long as
    members with room do not have the partitions that lack members already."""

    __slots__ = ()

    name = "simple"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        return run_through(self.assign_steps(spec, topics))

    def assign_steps(
        self, spec: GroupSpec, topics: TopicDescriber
    ) -> Steps[Mapping[str, Assignment]]:
        """`assign` in slices."""
        ids = list(spec.members)
        members = [spec.members[member_id] for member_id in ids]
        subscribers = subscribers_of([member.topic_ids for member in members])
        counts = partition_counts(sorted(subscribers), topics)
        built: list[dict[TopicId, list[int]]] = [{} for _ in members]
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            deals = [(list(counts), list(range(len(members))))]
        else:
            deals = [([topic_id], subscribers[topic_id]) for topic_id in counts]
        pace = Pace(SLICE_PARTITIONS)
        for topic_ids, takers in deals:
            prior: list[list[TopicIdPartition]] = []
            for position in takers:
                prior.append(_prior(members[position], topic_ids))
                if pace.due(len(topic_ids) + len(prior[-1])):
                    yield
            partitions = yield from _assignable(topic_ids, counts, spec, pace)
            held = yield from _deal(partitions, prior, pace)
            for position, mine in zip(takers, held, strict=True):
                for topic_id, number in mine:
                    built[position].setdefault(topic_id, []).append(number)
                if pace.due(1 + len(mine)):
                    yield
        result: dict[str, Assignment] = {}
        for member_id, member, added in zip(ids, members, built, strict=True):
            result[member_id] = prior_if_equal(member.assigned, with_added({}, added))
            if pace.due(1 + sum(map(len, added.values()))):
                yield
        return result


def _assignable(
    topic_ids: Sequence[TopicId], counts: Mapping[TopicId, int], spec: GroupSpec, pace: Pace
) -> Steps[list[TopicIdPartition]]:
    found: list[TopicIdPartition] = []
    for topic_id in topic_ids:
        for number in range(counts[topic_id]):
            if spec.is_assignable(topic_id, number):
                found.append((topic_id, number))
            if pace.due():
                yield
    return found


def _prior(member: MemberSpec, topic_ids: Sequence[TopicId]) -> list[TopicIdPartition]:
    return [
        (topic_id, number) for topic_id in topic_ids for number in member.assigned.get(topic_id, ())
    ]


def _deal(
    partitions: Sequence[TopicIdPartition],
    prior: Sequence[list[TopicIdPartition]],
    pace: Pace,
) -> Steps[list[dict[TopicIdPartition, None]]]:
    """The partitions of each member. `prior`: what each has now, and keeps unless it has too many,
    or too many others have it, too."""
    members, count = len(prior), len(partitions)
    sharing = -(-members // count) if count else 0
    slots = sharing * count
    room = [
        -(-(index + 1) * slots // members) - -(-index * slots // members)
        for index in range(members)
    ]
    holders = yield from dict_in_steps((one, 0) for one in partitions)
    held: list[dict[TopicIdPartition, None]] = []
    for index, mine in enumerate(prior):
        kept: dict[TopicIdPartition, None] = {}
        for one in mine:
            if len(kept) < room[index] and holders.get(one, 0) < sharing:
                kept[one] = None
                holders[one] = holders.get(one, 0) + 1
            if pace.due():
                yield
        held.append(kept)
    ring = [index for index in range(members) if len(held[index]) < room[index]]
    at = 0
    for one in partitions:
        passed = 0
        while holders[one] < sharing and passed < len(ring):
            if pace.due():
                yield
            at %= len(ring)
            taker = ring[at]
            if one in held[taker]:
                passed += 1
                at += 1
                continue
            held[taker][one] = None
            holders[one] += 1
            passed = 0
            if len(held[taker]) < room[taker]:
                at += 1
            else:
                del ring[at]
    return held
