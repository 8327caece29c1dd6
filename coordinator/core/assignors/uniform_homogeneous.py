"""`uniform` where every member subscribes to the same topics (assignors spec, section 4).

Each member may hold q = P div M partitions, and e = P mod M of them one more. A member that already
has more than q keeps its extra, up to e of them in the order of members. Who gets the extras that
are left is a free choice, the only one: balance and moves are the same whoever it is. They fall on
the members that speak soonest, if the spec knows, otherwise on the last ones. Cost O(P + M), and a
sort of members by the time they speak; partitions are handled in runs of a topic, one by one only
to mark the taken ones.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import compress

from coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber
from coordinator.core.assignors.order import CANONICAL, Order
from coordinator.core.assignors.spec import AssignmentSpec, partition_counts, with_added
from coordinator.core.slices import chunks
from protocol.messages import TopicId

SLICE_MEMBERS = 2048
"""Members between two stops."""

Run = tuple[TopicId, tuple[int, ...]]
"""Some partitions of a topic, in the order in which they are handed out."""


Need = tuple[str, Assignment, int]
"""A member that gets more, what it keeps of its prior, and how many partitions it still gets."""


def homogeneous_steps(
    spec: GroupSpec, topics: TopicDescriber, order: Order
) -> Generator[None, None, Mapping[str, Assignment]]:
    """No subscription: no entries, so every target becomes empty."""
    first = next(iter(spec.members.values()))
    topic_ids = order.topics(first.topic_ids)
    if not topic_ids:
        return {}
    free = _Free(partition_counts(topic_ids, topics))
    result, needs = yield from _keep(spec, free, order)
    yield from _hand_out(result, needs, free.runs())
    return result


class _Free:
    """The partitions that nobody keeps: those in no prior, by topic, then those revoked."""

    __slots__ = ("_flags", "_revoked", "counts")

    def __init__(self, counts: dict[TopicId, int]) -> None:
        self.counts = counts
        self._flags: dict[TopicId, bytearray] = {}
        self._revoked: list[Run] = []

    def take(self, topic_id: TopicId, partitions: Sequence[int]) -> None:
        """They stand in some prior."""
        flags = self._flags.get(topic_id)
        if flags is None:
            flags = self._flags[topic_id] = bytearray(b"\1") * self.counts[topic_id]
        for partition in partitions:
            flags[partition] = 0

    def revoke(self, topic_id: TopicId, partitions: tuple[int, ...]) -> None:
        self._revoked.append((topic_id, partitions))

    def runs(self) -> Iterator[Run]:
        # One set of numbers for all: making them anew is most of the work of a fresh target.
        numbers = tuple(range(max(self.counts.values(), default=0)))
        for topic_id, count in self.counts.items():
            flags = self._flags.get(topic_id)
            if flags is None:
                if count:
                    yield topic_id, numbers[:count]
            elif 1 in flags:
                yield topic_id, tuple(compress(numbers, flags))
        yield from self._revoked


def _keep(
    spec: GroupSpec, free: _Free, order: Order
) -> Generator[None, None, tuple[dict[str, Assignment], list[Need]]]:
    """Keep what fits of each prior, then say who is to have the extras that nobody kept."""
    members = spec.members
    member_ids = list(members) if order is CANONICAL else order.members(members.keys())
    quota, extras = divmod(sum(free.counts.values()), len(member_ids))
    result: dict[str, Assignment] = {}
    others: list[tuple[str, Assignment, int]] = []
    for number, member_id in enumerate(member_ids, 1):
        kept = members[member_id].assigned
        size = 0
        if kept:
            kept, size = _trim(kept, quota + (extras > 0), free, order)
        if size > quota:
            extras -= 1
            result[member_id] = kept
        else:
            others.append((member_id, kept, size))
        if number % SLICE_MEMBERS == 0:
            yield
    favoured = yield from _favoured([other[0] for other in others], extras, spec, order)
    needs: list[Need] = []
    for number, (member_id, kept, size) in enumerate(others, 1):
        missing = quota - size + (member_id in favoured)
        if missing:
            needs.append((member_id, kept, missing))
        else:
            result[member_id] = kept
        if number % SLICE_MEMBERS == 0:
            yield
    return result, needs


def _favoured(
    member_ids: list[str], count: int, spec: GroupSpec, order: Order
) -> Generator[None, None, frozenset[str]]:
    """So many of these members: those that speak soonest if that is known, among equals the last
    ones in the order."""
    if not count:
        return frozenset()
    speaks = spec.next_heartbeat if isinstance(spec, AssignmentSpec) else None
    if speaks is None or order is not CANONICAL:
        return frozenset(member_ids[-count:])
    soonest: dict[str, int] = {}
    for some in chunks(reversed(member_ids), SLICE_MEMBERS):
        yield
        soonest.update((member_id, speaks(member_id)) for member_id in some)
    return frozenset(sorted(soonest, key=soonest.__getitem__)[:count])


def _trim(prior: Assignment, cap: int, free: _Free, order: Order) -> tuple[Assignment, int]:
    """The kept part of a prior (the prior itself if all of it) and its size."""
    counts = free.counts
    size = 0
    for topic_id, partitions in prior.items():
        if partitions[-1] >= counts.get(topic_id, 0):
            break
        size += len(partitions)
    else:
        if size <= cap:
            for topic_id, partitions in prior.items():
                free.take(topic_id, partitions)
            return prior, size
    kept: dict[TopicId, tuple[int, ...]] = {}
    size = 0
    for topic_id in order.topics(prior.keys()):
        count = counts.get(topic_id, 0)
        # A partition that no longer exists is dropped.
        held = [number for number in order.partitions(prior[topic_id]) if number < count]
        if not held:
            continue
        free.take(topic_id, held)
        fits = held[: cap - size]
        if len(fits) < len(held):
            free.revoke(topic_id, tuple(held[len(fits) :]))
        if fits:
            kept[topic_id] = tuple(sorted(fits))
            size += len(fits)
    return kept, size


def _hand_out(
    result: dict[str, Assignment], needs: list[Need], runs: Iterator[Run]
) -> Generator[None, None, None]:
    topic_id, run = next(runs, (b"", ()))
    start = 0
    for number, (member_id, kept, missing) in enumerate(needs):
        if number % SLICE_MEMBERS == 0:
            yield
        if not kept and start + missing <= len(run):
            result[member_id] = {topic_id: run[start : start + missing]}
            start += missing
            continue
        added: dict[TopicId, list[int]] = {}
        while missing:
            part = run[start : start + missing]
            if not part:
                topic_id, run = next(runs)
                start = 0
                continue
            start += len(part)
            missing -= len(part)
            if topic_id in added:
                added[topic_id].extend(part)
            else:
                added[topic_id] = list(part)
        result[member_id] = with_added(kept, added)
    assert start == len(run), "caps do not add up to the partitions"
    assert next(runs, None) is None, "caps do not add up to the partitions"
