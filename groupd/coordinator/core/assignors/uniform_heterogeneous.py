"""`uniform` where subscriptions differ (docs/spec/assignors.md#5).

Members keep the part of their prior assignment that is still valid. Unassigned partitions are
handed out topic by topic. Then the loads of each topic's subscribers are balanced: partitions move
from the most to the least loaded subscribers. Each topic is balanced for itself, so chains through
overlapping subscriptions may stay unbalanced.

The rule is to choose the most (or least) loaded subscriber for each single partition. Here it is
done in sweeps over the subscribers sorted by load: a sweep takes from (or gives to) every member of
one load once, then goes on with the next load. The choices are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, MemberSpec, TopicDescriber
from groupd.coordinator.core.assignors.spec import partition_counts, prior_if_equal, subscribers_of
from groupd.coordinator.core.slices import Steps, spans
from groupd.protocol.messages import TopicId

_ROUNDS_MAX = 16

_SIGN_FLIP = 1 << 63

SLICE_MEMBERS = 1024
SLICE_ENTRIES = 8192
"""At most this many members, or partitions and subscribers together, are handled in one slice."""


def heterogeneous_steps(spec: GroupSpec, topics: TopicDescriber) -> Steps[Mapping[str, Assignment]]:
    """Returns the assignment; yields between slices. If no member subscribes to anything, the
    assignment has no entries."""
    members = spec.members
    member_ids = list(members)
    ownership = _UniformOwnership(spec, member_ids, topics)
    if not ownership.subscribers:
        return {}
    for some in spans(len(member_ids), SLICE_MEMBERS):
        yield
        for index, member_id in enumerate(member_ids[some], some.start):
            ownership.keep(index, members[member_id])
    ownership.check_kept()
    yield from ownership.each(ownership.fill, ownership.topic_ids)
    yield from _balance(ownership)
    yield from ownership.each(ownership.hand_over, sorted(ownership.topic_ids))
    result: dict[str, Assignment] = {}
    for some in spans(len(member_ids), SLICE_MEMBERS):
        yield
        for index, member_id in enumerate(member_ids[some], some.start):
            prior = members[member_id].assigned
            if ownership.intact[index]:
                result[member_id] = prior
            else:
                result[member_id] = prior_if_equal(prior, ownership.built[index])
    return result


def signed_key(topic_id: TopicId) -> tuple[int, int]:
    """A key that sorts topic ids as Java does: as two signed 64-bit numbers."""
    high = int.from_bytes(topic_id[:8], "big") ^ _SIGN_FLIP
    low = int.from_bytes(topic_id[8:], "big") ^ _SIGN_FLIP
    return high, low


def _balance(ownership: _UniformOwnership) -> Steps[None]:
    """Balances the topics with several subscribers in rounds until a whole round moves nothing, at
    most 16 rounds."""
    shared = [topic for topic in ownership.topic_ids if len(ownership.subscribers[topic]) > 1]
    last_moved = -1
    for _ in range(_ROUNDS_MAX):
        for index, topic_id in enumerate(shared):
            if index == last_moved:
                return
            if ownership.balance(topic_id) or last_moved < 0:
                last_moved = index
            if ownership.worked(len(ownership.subscribers[topic_id])):
                yield


class _UniformOwnership:
    """Who owns which partition while the assignment is computed. Members are numbers, in the order
    of members.

    `owners[topic][partition]`: the owner, or -1. `loads`: how many partitions of all topics each
    member has. `intact`: whether a member still has exactly its prior assignment. `built`: the
    assignments of members that are not intact.
    """

    __slots__ = (
        "_balanced_at",
        "_move_count",
        "_since_stop",
        "built",
        "intact",
        "loads",
        "owners",
        "subscribers",
        "topic_ids",
    )

    def __init__(self, spec: GroupSpec, member_ids: list[str], topics: TopicDescriber) -> None:
        members = [spec.members[member_id] for member_id in member_ids]
        self.subscribers = subscribers_of([member.topic_ids for member in members])
        counts = partition_counts(sorted(self.subscribers), topics)
        self.owners = {topic_id: [-1] * count for topic_id, count in counts.items()}
        self.loads = [0] * len(members)
        self.topic_ids = sorted(
            counts,
            key=lambda topic: (
                -counts[topic] / len(self.subscribers[topic]),
                len(self.subscribers[topic]),
                signed_key(topic),
            ),
        )
        self.intact = [True] * len(members)
        self.built: list[dict[TopicId, tuple[int, ...]]] = [{} for _ in members]
        self._since_stop = 0
        self._move_count = 0
        # By the identity of a list of subscribers: the number of moves at the time when it was last
        # balanced.
        self._balanced_at: dict[int, int] = {}

    def worked(self, count: int) -> bool:
        """Count entries that were handled; returns whether the slice is full."""
        self._since_stop += count
        if self._since_stop < SLICE_ENTRIES:
            return False
        self._since_stop = 0
        return True

    def each(self, work: Callable[[TopicId], None], topic_ids: list[TopicId]) -> Steps[None]:
        """Call `work` with every topic, in the order of `topic_ids`."""
        for topic_id in topic_ids:
            work(topic_id)
            if self.worked(len(self.owners[topic_id]) + len(self.subscribers[topic_id])):
                yield

    def keep(self, index: int, member: MemberSpec) -> None:
        """Keep the part of a member's prior assignment that is still valid."""
        for topic_id, partitions in member.assigned.items():
            if topic_id not in member.topic_ids:
                self.intact[index] = False
                continue
            owners = self.owners[topic_id]
            try:
                for partition in partitions:
                    owners[partition] = index
                self.loads[index] += len(partitions)
            except IndexError:
                # A partition that no longer exists is dropped.
                self.intact[index] = False
                held = [partition for partition in partitions if partition < len(owners)]
                for partition in held:
                    owners[partition] = index
                self.loads[index] += len(held)

    def check_kept(self) -> None:
        """Mark all assignments to be built anew if some partition is in two prior assignments. That
        should not happen; the last owner of such a partition keeps it."""
        held = sum(len(owners) - owners.count(-1) for owners in self.owners.values())
        if held != sum(self.loads):
            self.intact = [False] * len(self.intact)

    def _by_load(self, topic_id: TopicId) -> list[int]:
        # The subscribers are ascending and the sort is stable, so the result is by (load, index).
        return sorted(self.subscribers[topic_id], key=self.loads.__getitem__)

    def fill(self, topic_id: TopicId) -> None:
        """Hand out the topic's unassigned partitions."""
        owners = self.owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner < 0]
        if not free:
            return
        loads, intact = self.loads, self.intact
        receivers = _Receivers(self._by_load(topic_id), loads)
        for partition in free:
            index = receivers.take()
            owners[partition] = index
            loads[index] += 1
            intact[index] = False

    def balance(self, topic_id: TopicId) -> bool:
        """Move partitions of one topic from its most to its least loaded subscribers, until their
        loads differ by at most one or no subscriber with more owns any. Returns whether a partition
        has moved."""
        loads, intact = self.loads, self.intact
        subscribers = self.subscribers[topic_id]
        # Topics with the same subscribers share the list.
        if self._balanced_at.get(id(subscribers)) == self._move_count:
            return False
        of_subscribers = [loads[index] for index in subscribers]
        if max(of_subscribers) - min(of_subscribers) <= 1:
            self._balanced_at[id(subscribers)] = self._move_count
            return False
        ranked = self._by_load(topic_id)
        owners = self.owners[topic_id]
        held = _by_owner(enumerate(owners))
        donors = _Donors(ranked, loads, held)
        receivers = _Receivers(ranked, loads)
        moved = False
        while (donor := donors.peek()) >= 0 and loads[donor] - receivers.level() > 1:
            partition = held[donor].pop()
            receiver = receivers.take()
            owners[partition] = receiver
            loads[donor] -= 1
            loads[receiver] += 1
            intact[donor] = intact[receiver] = False
            donors.advance()
            self._move_count += 1
            moved = True
        return moved

    def hand_over(self, topic_id: TopicId) -> None:
        """Add the topic's partitions, ascending, to the assignments of those owners that are not
        intact."""
        owners, built, intact = self.owners[topic_id], self.built, self.intact
        entries = [entry for entry in enumerate(owners) if not intact[entry[1]]]
        for owner, partitions in _by_owner(entries).items():
            built[owner][topic_id] = tuple(partitions)


def _by_owner(entries: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """The partitions of each owner, in the order of `entries`, which are pairs of partition and
    owner."""
    held: defaultdict[int, list[int]] = defaultdict(list)
    for partition, owner in entries:
        held[owner].append(partition)
    return held


class _Receivers:
    """Subscribers in the order in which they receive partitions: the least loaded subscriber first,
    and among equals the one with the lower index in `ranked`, which is sorted by load. The members
    with the lowest load are always a prefix `ranked[:_end]`. The caller raises the load of each
    member that it takes by one."""

    __slots__ = ("_end", "_level", "_loads", "_next", "_ranked")

    def __init__(self, ranked: list[int], loads: list[int]) -> None:
        self._ranked, self._loads = ranked, loads
        self._level = loads[ranked[0]]
        self._next = self._end = 0
        self._extend()

    def _extend(self) -> None:
        # No member after the prefix was taken, so the rest of the list is still sorted by load.
        key = self._loads.__getitem__
        self._end = bisect_right(self._ranked, self._level, self._end, key=key)

    def level(self) -> int:
        """The load of the next receiver."""
        if self._next == self._end:
            self._level += 1
            self._next = 0
            self._extend()
        return self._level

    def take(self) -> int:
        self.level()
        index = self._ranked[self._next]
        self._next += 1
        return index


class _Donors:
    """Subscribers in the order in which they give up partitions: the most loaded subscriber first,
    and among equals the one with the higher index in `ranked`. A member that has no more partitions
    of the topic is swapped with the last active member and leaves. The most loaded members are
    always `ranked[_start:_active]`. The caller lowers the load of each donor by one, then advances.

    `held`: the partitions of the topic that each member owns.
    """

    __slots__ = ("_active", "_held", "_loads", "_position", "_ranked", "_start")

    def __init__(self, ranked: list[int], loads: list[int], held: Mapping[int, list[int]]) -> None:
        self._ranked, self._loads, self._held = ranked, loads, held
        self._active = self._start = len(ranked)
        self._position = self._active - 1
        self._next_level()

    def _next_level(self) -> None:
        if self._active == 0:
            self._position = -1
            return
        ranked, loads = self._ranked, self._loads
        level = loads[ranked[self._active - 1]]
        start = self._start = min(self._start, self._active)
        while start > 0 and loads[ranked[start - 1]] >= level:
            start -= 1
        self._start = start
        self._position = self._active - 1

    def peek(self) -> int:
        """The next donor, or -1."""
        ranked = self._ranked
        while self._position >= 0:
            index = ranked[self._position]
            if self._held.get(index):
                return index
            last = self._active - 1
            ranked[self._position], ranked[last] = ranked[last], index
            self._active = last
            self.advance()
        return -1

    def advance(self) -> None:
        self._position -= 1
        if self._position < self._start:
            self._next_level()
