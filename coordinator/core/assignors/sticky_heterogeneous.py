"""`sticky` where subscriptions differ (assignors spec, section 7).

Keep the still valid prior, give each free partition to the least loaded subscriber, then sweep
over the shared topics until nothing moves. A move goes from an owner to a subscriber that has
at least two fewer, so the sum of pairwise load differences falls with every move: sweeps end,
and no sweep is ever worth discarding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush

from groupd.coordinator.core.assignors.api import Assignment, MemberSpec, TopicDescriber
from groupd.coordinator.core.assignors.spec import partition_counts, settled, with_added
from groupd.protocol.messages import TopicId

TopicPartition = tuple[TopicId, int]


def assign_heterogeneous(
    members: Mapping[str, MemberSpec], topics: TopicDescriber
) -> Mapping[str, Assignment]:
    """Every member gets an entry."""
    member_ids = sorted(members)
    table = _Table([members[key] for key in member_ids], topics)
    placed = table.fill()
    if not table.lost_subscription:
        table.sweep_until_settled(placed)
    table.sweep_until_settled({topic: range(len(table.owners[topic])) for topic in table.topic_ids})
    built = table.assignments()
    return {
        key: settled(members[key].assigned, built[index]) for index, key in enumerate(member_ids)
    }


class _Table:
    """Members are indices by id. `topic_ids`: by (subscriber count, id)."""

    __slots__ = ("loads", "lost_subscription", "moves", "owners", "subscribers", "topic_ids")

    def __init__(self, members: list[MemberSpec], topics: TopicDescriber) -> None:
        self.subscribers: dict[TopicId, list[int]] = {}
        for index, member in enumerate(members):
            for topic_id in member.topic_ids:
                self.subscribers.setdefault(topic_id, []).append(index)
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
        """Drops entries whose load is no longer true; each change pushes a new one."""
        while heap[0][0] != self.loads[heap[0][1]]:
            heappop(heap)
        return heap[0][1]

    def fill(self) -> dict[TopicId, list[int]]:
        """Place every free partition; returns those placed."""
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
        """True if something moved."""
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
    """Where moved partitions came from, so that a move the opposite way undoes one."""

    __slots__ = ("_by_pair", "_of")

    def __init__(self) -> None:
        self._of: dict[TopicPartition, tuple[int, int]] = {}
        self._by_pair: dict[tuple[TopicId, int, int], set[int]] = {}

    def instead_of(self, item: TopicPartition, donor: int, receiver: int) -> int:
        """The partition to move from donor to receiver in place of `item`: one of the same
        topic that had come the other way, else `item`'s own. The move is recorded."""
        topic_id, partition = item
        opposite = self._by_pair.get((topic_id, receiver, donor))
        chosen = min(opposite) if opposite else partition
        self._record((topic_id, chosen), donor, receiver)
        return chosen

    def _record(self, item: TopicPartition, donor: int, receiver: int) -> None:
        topic_id, partition = item
        origin = donor
        before = self._of.pop(item, None)
        if before is not None:
            origin = before[0]
            self._by_pair[(topic_id, *before)].discard(partition)
        if origin != receiver:
            self._of[item] = (origin, receiver)
            self._by_pair.setdefault((topic_id, origin, receiver), set()).add(partition)
