"""`uniform` and `range` written as the rules say, with sets and scans, in the canonical order
(docs/spec/assignors.md#3 to #5). The assignors of the product must give the same result."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import Assignment, MemberSpec
from groupd.coordinator.core.assignors.simple import ranked_members
from groupd.coordinator.core.assignors.uniform_heterogeneous import signed_key

TopicPartition = tuple[bytes, int]
Sets = dict[str, set[TopicPartition]]
ROUNDS_MAX = 16


def as_assignments(owned: Sets) -> dict[str, Assignment]:
    return {
        member: {
            topic: tuple(sorted(p for t, p in items if t == topic))
            for topic in sorted({t for t, _ in items})
        }
        for member, items in owned.items()
    }


def range_model(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> Sets:
    owned: Sets = {member: set() for member in members}
    for topic, count in counts.items():
        ranked = [m for m in ranked_members(members) if topic in members[m].topic_ids]
        start = 0
        for index, member in enumerate(ranked):
            share = count // len(ranked) + (index < count % len(ranked))
            owned[member] |= {(topic, start + offset) for offset in range(share)}
            start += share
    return owned


def homogeneous_model(members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> Sets:
    topics = sorted(next(iter(members.values())).topic_ids)
    if not topics:
        return {}
    prior = {(t, p) for spec in members.values() for t, ps in spec.assigned.items() for p in ps}
    free = [(t, p) for t in topics for p in range(counts[t]) if (t, p) not in prior]
    quota, extras = divmod(sum(counts[t] for t in topics), len(members))
    owned: Sets = {}
    fill: list[tuple[str, int]] = []
    for index, member in enumerate(sorted(members)):
        candidate = extras > 0
        cap = quota + candidate
        owned[member] = set()
        for topic, partitions in sorted(members[member].assigned.items()):
            for partition in partitions:
                if topic not in topics or partition >= counts[topic]:
                    continue
                if cap > 0:
                    owned[member].add((topic, partition))
                    cap -= 1
                else:
                    free.append((topic, partition))
        if cap > 0 and candidate and len(members) - index > extras:
            candidate = False
            cap -= 1
        extras -= candidate
        if cap > 0:
            fill.append((member, cap))
    for member, cap in fill:
        owned[member] |= set(free[:cap])
        del free[:cap]
    assert not free
    return owned


class HeterogeneousModel:
    def __init__(self, members: Mapping[str, MemberSpec], counts: Mapping[bytes, int]) -> None:
        self.ids = sorted(members)
        self.counts = counts
        self.subscribers = {
            t: [m for m in self.ids if t in members[m].topic_ids]
            for t in counts
            if any(t in spec.topic_ids for spec in members.values())
        }
        self.owned: Sets = {
            m: {
                (t, p)
                for t, partitions in members[m].assigned.items()
                for p in partitions
                if t in members[m].topic_ids and p < counts[t]
            }
            for m in self.ids
        }

    def run(self) -> Sets:
        if not self.subscribers:
            return {}
        topics = sorted(
            self.subscribers,
            key=lambda t: (
                -self.counts[t] / len(self.subscribers[t]),
                len(self.subscribers[t]),
                signed_key(t),
            ),
        )
        for topic in topics:
            self._fill(topic)
        shared = [t for t in topics if len(self.subscribers[t]) > 1]
        last_moved, fresh = (shared[0] if shared else b""), True
        for _ in range(ROUNDS_MAX):
            for topic in shared:
                if topic == last_moved and not fresh:
                    return self.owned
                fresh = False
                if self._balance(topic):
                    last_moved = topic
        return self.owned

    def _load(self, member: str) -> int:
        return len(self.owned[member])

    def _ranked(self, topic: bytes) -> list[str]:
        return sorted(self.subscribers[topic], key=self._load)

    def _fill(self, topic: bytes) -> None:
        taken = {p for items in self.owned.values() for t, p in items if t == topic}
        ranked = self._ranked(topic)
        for partition in range(self.counts[topic]):
            if partition not in taken:
                self.owned[min(ranked, key=self._load)].add((topic, partition))

    def _balance(self, topic: bytes) -> bool:
        ranked = self._ranked(topic)
        if self._load(ranked[-1]) - self._load(ranked[0]) <= 1:
            return False
        held = {m: sorted(p for t, p in self.owned[m] if t == topic) for m in ranked}
        active, moved = len(ranked), False
        while active:
            at = max(range(active), key=lambda i: (self._load(ranked[i]), i))
            donor = ranked[at]
            if not held[donor]:
                active -= 1
                ranked[at], ranked[active] = ranked[active], donor
                continue
            receiver = min(ranked, key=self._load)
            if self._load(donor) - self._load(receiver) <= 1:
                break
            item = (topic, held[donor].pop())
            self.owned[donor].discard(item)
            self.owned[receiver].add(item)
            moved = True
        return moved
