"""`sticky`: members keep what they have, and the other partitions are dealt in turn
(docs/spec/assignors.md#7).

This is an assignor of groupd's own, after the client-side sticky assignors (KIP-54, KIP-429). It
differs from `uniform` in two ways. A member with too many partitions gives up the highest numbers
of every topic, not whole topics. And the free partitions are dealt one at a time.

Where subscriptions differ, each free partition goes to its least loaded subscriber. Then the shared
topics are swept until nothing moves: a partition moves from its owner to a subscriber that has at
least two fewer partitions. Each move makes the sum of the differences between members smaller. So
the sweeps end, and no move ever has to be undone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

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

PartitionTopic = tuple[int, TopicId]


class StickyAssignor:
    __slots__ = ()

    name = "sticky"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        if not spec.members:
            return {}
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            return _assign_homogeneous(spec.members, topics)
        return _assign_heterogeneous(spec.members, topics)


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
    return {key: prior_if_equal(members[key].assigned, _built(kept[key])) for key in members}


def _prior(member: MemberSpec, counts: Mapping[TopicId, int]) -> list[PartitionTopic]:
    """The partitions of the member's prior assignment that still exist, ascending by number, then
    topic."""
    return sorted(
        (partition, topic_id)
        for topic_id, partitions in member.assigned.items()
        for partition in partitions
        if partition < counts.get(topic_id, 0)
    )


def _free(
    counts: Mapping[TopicId, int], kept: Mapping[str, list[PartitionTopic]]
) -> list[PartitionTopic]:
    """The partitions that no member keeps, ascending by topic, then number."""
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
    """Gives each member below the quota one partition in turn until it has the quota. Then gives
    one more to each member that has exactly the quota."""
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


def _assign_heterogeneous(
    members: Mapping[str, MemberSpec], topics: TopicDescriber
) -> Mapping[str, Assignment]:
    """Returns the new assignment, with an entry for every member."""
    member_ids = sorted(members)
    ownership = _StickyOwnership([members[key] for key in member_ids], topics)
    placed = ownership.fill()
    if not ownership.lost_subscription:
        ownership.sweep_until_settled(placed)
    ownership.sweep_until_settled(
        {topic: range(len(ownership.owners[topic])) for topic in ownership.topic_ids}
    )
    built = ownership.assignments()
    return {
        key: prior_if_equal(members[key].assigned, built[index])
        for index, key in enumerate(member_ids)
    }


class _StickyOwnership:
    """Who owns which partition while the assignment is computed. Members are numbers, ascending by
    id.

    `owners[topic][partition]`: the owner, or -1; `loads`: how many partitions each member has;
    `topic_ids`: ascending by number of subscribers, then id; `lost_subscription`: some member has
    partitions of a topic that it does not subscribe to any more.
    """

    __slots__ = ("loads", "lost_subscription", "moves", "owners", "subscribers", "topic_ids")

    def __init__(self, members: list[MemberSpec], topics: TopicDescriber) -> None:
        self.subscribers = subscribers_of([member.topic_ids for member in members])
        counts = partition_counts(sorted(self.subscribers), topics)
        self.owners = {topic_id: [-1] * count for topic_id, count in counts.items()}
        self.topic_ids = sorted(counts, key=lambda topic: (len(self.subscribers[topic]), topic))
        self.loads = [0] * len(members)
        self.lost_subscription = False
        self.moves = _Moves()
        for index, member in enumerate(members):
            self._keep(index, member)

    def _keep(self, index: int, member: MemberSpec) -> None:
        for topic_id, partitions in member.assigned.items():
            if topic_id not in member.topic_ids:
                self.lost_subscription = True
                continue
            owners = self.owners[topic_id]
            for partition in partitions:
                if partition < len(owners):
                    owners[partition] = index
                    self.loads[index] += 1

    def _heap(self, topic_id: TopicId) -> list[tuple[int, int]]:
        heap = [(self.loads[index], index) for index in self.subscribers[topic_id]]
        heapify(heap)
        return heap

    def _least_loaded(self, heap: list[tuple[int, int]]) -> int:
        """The least loaded subscriber in the heap. Drops entries whose load is out of date: each
        change of a load has pushed a new entry."""
        while heap[0][0] != self.loads[heap[0][1]]:
            heappop(heap)
        return heap[0][1]

    def fill(self) -> dict[TopicId, list[int]]:
        """Hand out every free partition; returns these partitions by topic."""
        placed: dict[TopicId, list[int]] = {}
        for topic_id in self.topic_ids:
            owners = self.owners[topic_id]
            free = [partition for partition, owner in enumerate(owners) if owner < 0]
            if not free:
                continue
            placed[topic_id] = free
            heap = self._heap(topic_id)
            for partition in free:
                index = self._least_loaded(heap)
                owners[partition] = index
                self.loads[index] += 1
                heappush(heap, (self.loads[index], index))
        return placed

    def sweep_until_settled(self, partitions: Mapping[TopicId, Iterable[int]]) -> None:
        shared = [
            topic_id
            for topic_id in self.topic_ids
            if topic_id in partitions and len(self.subscribers[topic_id]) > 1
        ]
        while sum(self._sweep(topic_id, partitions[topic_id]) for topic_id in shared):
            pass

    def _sweep(self, topic_id: TopicId, partitions: Iterable[int]) -> bool:
        """Sweep one topic once. Returns whether any partition has moved."""
        owners, loads = self.owners[topic_id], self.loads
        heap = self._heap(topic_id)
        moved = False
        for partition in partitions:
            donor = owners[partition]
            receiver = self._least_loaded(heap)
            if loads[donor] - loads[receiver] < 2:
                continue
            chosen = self.moves.instead_of((topic_id, partition), donor, receiver)
            owners[chosen] = receiver
            for index, change in ((donor, -1), (receiver, 1)):
                loads[index] += change
                heappush(heap, (loads[index], index))
            moved = True
        return moved

    def assignments(self) -> list[dict[TopicId, tuple[int, ...]]]:
        lists: list[dict[TopicId, list[int]]] = [{} for _ in self.loads]
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                lists[owner].setdefault(topic_id, []).append(partition)
        return [with_added({}, mine) for mine in lists]


class _Moves:
    """Remembers which member each moved partition came from, so that a move in the opposite
    direction can move the same partition back."""

    __slots__ = ("_by_pair", "_of")

    def __init__(self) -> None:
        self._of: dict[TopicIdPartition, tuple[int, int]] = {}
        self._by_pair: dict[tuple[TopicId, int, int], set[int]] = {}

    def instead_of(self, item: TopicIdPartition, donor: int, receiver: int) -> int:
        """The partition to move from donor to receiver in place of `item`. If a partition of the
        same topic was moved from the receiver to the donor before, it is that one, otherwise
        `item`'s own. Records the move."""
        topic_id, partition = item
        opposite = self._by_pair.get((topic_id, receiver, donor))
        chosen = min(opposite) if opposite else partition
        self._record((topic_id, chosen), donor, receiver)
        return chosen

    def _record(self, item: TopicIdPartition, donor: int, receiver: int) -> None:
        topic_id, partition = item
        origin = donor
        before = self._of.pop(item, None)
        if before is not None:
            origin = before[0]
            self._by_pair[(topic_id, *before)].discard(partition)
        if origin != receiver:
            self._of[item] = (origin, receiver)
            self._by_pair.setdefault((topic_id, origin, receiver), set()).add(partition)
