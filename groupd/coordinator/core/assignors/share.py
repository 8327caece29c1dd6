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
from groupd.protocol.messages import TopicId, TopicIdPartition


class SimpleAssignor:
    """Costs O(P * S + M) for M members and P partitions, each of which gets S members, as long as
    members with room do not have the partitions that lack members already."""

    __slots__ = ()

    name = "simple"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        ids = list(spec.members)
        members = [spec.members[member_id] for member_id in ids]
        subscribers = subscribers_of([member.topic_ids for member in members])
        partitions = {
            topic_id: [
                (topic_id, number)
                for number in range(count)
                if spec.is_assignable(topic_id, number)
            ]
            for topic_id, count in partition_counts(sorted(subscribers), topics).items()
        }
        built: list[dict[TopicId, list[int]]] = [{} for _ in members]
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            deals = [(list(partitions), list(range(len(members))))]
        else:
            deals = [([topic_id], takers) for topic_id, takers in subscribers.items()]
        for topic_ids, takers in deals:
            dealt = [one for topic_id in topic_ids for one in partitions[topic_id]]
            prior = [_prior(members[position], topic_ids) for position in takers]
            for position, held in zip(takers, _deal(dealt, prior), strict=True):
                for topic_id, number in held:
                    built[position].setdefault(topic_id, []).append(number)
        return {
            member_id: prior_if_equal(member.assigned, with_added({}, held))
            for member_id, member, held in zip(ids, members, built, strict=True)
        }


def _prior(member: MemberSpec, topic_ids: Sequence[TopicId]) -> list[TopicIdPartition]:
    return [
        (topic_id, number) for topic_id in topic_ids for number in member.assigned.get(topic_id, ())
    ]


def _deal(
    partitions: Sequence[TopicIdPartition], prior: Sequence[list[TopicIdPartition]]
) -> list[dict[TopicIdPartition, None]]:
    """The partitions of each member. `prior`: what each has now, and keeps unless it has too many,
    or too many others have it, too."""
    members, count = len(prior), len(partitions)
    sharing = -(-members // count) if count else 0
    slots = sharing * count
    room = [
        -(-(index + 1) * slots // members) - -(-index * slots // members)
        for index in range(members)
    ]
    holders: dict[TopicIdPartition, int] = dict.fromkeys(partitions, 0)
    held: list[dict[TopicIdPartition, None]] = []
    for index, mine in enumerate(prior):
        kept: dict[TopicIdPartition, None] = {}
        for one in mine:
            if len(kept) < room[index] and holders.get(one, 0) < sharing:
                kept[one] = None
                holders[one] = holders.get(one, 0) + 1
        held.append(kept)
    ring = [index for index in range(members) if len(held[index]) < room[index]]
    at = 0
    for one in partitions:
        passed = 0
        while holders[one] < sharing and passed < len(ring):
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
