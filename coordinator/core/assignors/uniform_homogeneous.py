"""`uniform` where every member subscribes to the same topics (assignors spec, section 4).

Each member may hold q = P div M partitions, the first e = P mod M claimants one more. A member
that already has more than q keeps its extra; otherwise extras fall on the last members. Cost
O(P + M).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from coordinator.core.assignors.api import Assignment, GroupSpec, MemberSpec, TopicDescriber
from coordinator.core.assignors.order import CANONICAL, Order
from coordinator.core.assignors.spec import partition_counts, with_added
from protocol.messages import TopicId

TopicPartition = tuple[TopicId, int]


@dataclass(slots=True)
class _Need:
    """A member below its cap; `kept` of its prior, `missing` partitions to hand it."""

    member_id: str
    kept: Assignment
    missing: int


def assign_homogeneous(
    spec: GroupSpec, topics: TopicDescriber, order: Order
) -> Mapping[str, Assignment]:
    """No subscription: no entries, so every target becomes empty."""
    first = next(iter(spec.members.values()))
    topic_ids = order.topics(first.topic_ids)
    if not topic_ids:
        return {}
    counts = partition_counts(topic_ids, topics)
    is_assigned = spec.is_assigned
    unassigned = [
        (topic_id, partition)
        for topic_id, count in counts.items()
        for partition in range(count)
        if not is_assigned(topic_id, partition)
    ]
    result, needs = _keep(spec, counts, unassigned, order)
    _hand_out(result, needs, unassigned)
    return result


def _keep(
    spec: GroupSpec, counts: Mapping[TopicId, int], unassigned: list[TopicPartition], order: Order
) -> tuple[dict[str, Assignment], list[_Need]]:
    """Keep what fits of each prior; the revoked partitions join `unassigned`."""
    members = spec.members
    member_ids = list(members) if order is CANONICAL else order.members(members.keys())
    quota, extras = divmod(sum(counts.values()), len(member_ids))
    result: dict[str, Assignment] = {}
    needs: list[_Need] = []
    left = len(member_ids)
    for member_id in member_ids:
        candidate = extras > 0
        cap = quota + candidate
        kept, size = _trim(members[member_id], counts, cap, unassigned, order)
        result[member_id] = kept
        if candidate and size < cap and left > extras:
            cap -= 1
            candidate = False
        if candidate:
            extras -= 1
        if size < cap:
            needs.append(_Need(member_id, kept, cap - size))
        left -= 1
    return result, needs


def _trim(
    member: MemberSpec,
    counts: Mapping[TopicId, int],
    cap: int,
    unassigned: list[TopicPartition],
    order: Order,
) -> tuple[Assignment, int]:
    """The kept part of a prior (the prior itself if all of it) and its size."""
    prior = member.assigned
    size = 0
    for topic_id, partitions in prior.items():
        if partitions[-1] >= counts.get(topic_id, 0):
            break
        size += len(partitions)
    else:
        if size <= cap:
            return prior, size
    kept: dict[TopicId, tuple[int, ...]] = {}
    size = 0
    for topic_id in order.topics(prior.keys()):
        count = counts.get(topic_id, 0)
        # A partition that no longer exists is dropped.
        held = [number for number in order.partitions(prior[topic_id]) if number < count]
        fits = held[: cap - size]
        unassigned.extend((topic_id, number) for number in held[len(fits) :])
        if fits:
            kept[topic_id] = tuple(sorted(fits))
            size += len(fits)
    return kept, size


def _hand_out(
    result: dict[str, Assignment], needs: list[_Need], unassigned: list[TopicPartition]
) -> None:
    start = 0
    for need in needs:
        end = start + need.missing
        added: dict[TopicId, list[int]] = {}
        for topic_id, partition in unassigned[start:end]:
            if topic_id in added:
                added[topic_id].append(partition)
            else:
                added[topic_id] = [partition]
        start = end
        result[need.member_id] = with_added(need.kept, added)
    assert start == len(unassigned), "caps do not add up to the partitions"
