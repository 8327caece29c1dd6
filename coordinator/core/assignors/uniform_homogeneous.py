"""`uniform` where every member subscribes to the same topics (assignors spec, section 4).

Each member may hold q = P div M partitions, and e = P mod M of them one more. A member that already
has more than q keeps its extra, up to e of them in the order of members. Who gets the extras that
are left is a free choice, the only one: balance and moves are the same whoever it is. They fall on
the members that speak soonest, if the spec knows, otherwise on the last ones. Cost O(P + M), and a
sort of members by the time they speak. Partitions are handled in runs of a topic; those that
nobody holds are looked for only if the numbers say that there are any.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import chain, compress

from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, MemberSpec, TopicDescriber
from groupd.coordinator.core.assignors.order import CANONICAL, Order
from groupd.coordinator.core.assignors.spec import AssignmentSpec, partition_counts, with_added
from groupd.coordinator.core.slices import spans
from groupd.protocol.messages import TopicId

SLICE_MEMBERS = 2048
"""Members between two stops."""

SLICE_PARTITIONS = 16_384
"""Of a topic that are looked at in one go, or of members."""

Run = tuple[TopicId, tuple[int, ...]]
"""Some partitions of a topic, in the order in which they are handed out."""


def homogeneous_steps(
    spec: GroupSpec, topics: TopicDescriber, order: Order
) -> Generator[None, None, Mapping[str, Assignment]]:
    """No subscription: no entries, so every target becomes empty."""
    members = spec.members
    topic_ids = order.topics(next(iter(members.values())).topic_ids)
    if not topic_ids:
        return {}
    free = _Free(partition_counts(topic_ids, topics))
    member_ids = list(members) if order is CANONICAL else order.members(members.keys())
    kept = _Kept(free.counts, len(member_ids), order)
    for some in spans(len(member_ids), kept.at_once):
        kept.add(member_ids[some], _priors(members, member_ids[some]))
        yield
    sizes = kept.lacks
    if kept.extras:
        others = [member_id for member_id in member_ids if member_id not in kept.favoured]
        favoured = yield from _favoured(others, kept.extras, spec, order)
        for some in spans(len(member_ids), SLICE_MEMBERS):
            yield
            pairs = zip(member_ids[some], sizes[some], strict=True)
            sizes[some] = [lack + (member_id in favoured) for member_id, lack in pairs]
    receivers = list(compress(member_ids, sizes))
    sizes = [size for size in sizes if size]
    # Priors have nothing in common: what is missing is either revoked or in no prior.
    if sum(sizes) == kept.revoked_count:
        runs = iter(kept.revoked)
    else:
        for some in spans(len(member_ids) if kept.result else 0, kept.at_once):
            free.take(_priors(members, member_ids[some]))
            yield
        runs = chain(free.runs(), kept.revoked)
    yield from _hand_out(kept.result, receivers, sizes, runs, kept.at_once)
    return kept.result


def _priors(members: Mapping[str, MemberSpec], member_ids: list[str]) -> list[Assignment]:
    return [members[member_id].assigned for member_id in member_ids]


class _Kept:
    """What of the priors is kept, member by member in their order.

    `at_once`: so many members are quickly gone through. `lacks`: how many partitions each still
    gets, without the `extras` that nobody kept; `favoured`: who kept one. `revoked`: what its
    holder may not keep.
    """

    __slots__ = (
        "_counts",
        "_order",
        "_quota",
        "at_once",
        "extras",
        "favoured",
        "lacks",
        "result",
        "revoked",
        "revoked_count",
    )

    def __init__(self, counts: dict[TopicId, int], members: int, order: Order) -> None:
        self._counts = counts
        self._order = order
        self._quota, self.extras = divmod(sum(counts.values()), members)
        self.at_once = max(1, min(SLICE_MEMBERS, SLICE_PARTITIONS // (self._quota + 1)))
        self.result: dict[str, Assignment] = {}
        self.lacks: list[int] = []
        self.favoured: set[str] = set()
        self.revoked: list[Run] = []
        self.revoked_count = 0

    def add(self, member_ids: list[str], priors: list[Assignment]) -> None:
        """The next members. Most keep all they have; in a new group nobody has anything."""
        quota, counts = self._quota, self._counts
        if quota and not any(priors):
            self.lacks += [quota] * len(priors)
            return
        first = len(self.lacks)
        self.lacks += [0] * len(priors)
        self.result.update(zip(member_ids, priors, strict=True))
        for index, prior in enumerate(priors):
            size = 0
            for topic_id, partitions in prior.items():
                if partitions[-1] >= counts.get(topic_id, 0):
                    size = -1
                    break
                size += len(partitions)
            if size != quota:
                self.lacks[first + index] = self._lack(member_ids[index], prior, size)

    def _lack(self, member_id: str, prior: Assignment, size: int) -> int:
        """`size` -1: some of the prior is no more."""
        cap = self._quota + (self.extras > 0)
        if size < 0 or size > cap:
            prior, size = self._trimmed(prior, cap)
            self.result[member_id] = prior
        if size <= self._quota:
            return self._quota - size
        self.extras -= 1
        self.favoured.add(member_id)
        return 0

    def _trimmed(self, prior: Assignment, cap: int) -> tuple[Assignment, int]:
        """The kept part of a prior and its size."""
        kept: dict[TopicId, tuple[int, ...]] = {}
        size = 0
        for topic_id in self._order.topics(prior.keys()):
            count = self._counts.get(topic_id, 0)
            # A partition that no longer exists is dropped.
            held = [number for number in self._order.partitions(prior[topic_id]) if number < count]
            fits = held[: cap - size]
            if len(fits) < len(held):
                self.revoked.append((topic_id, tuple(held[len(fits) :])))
                self.revoked_count += len(held) - len(fits)
            if fits:
                kept[topic_id] = tuple(sorted(fits))
                size += len(fits)
        return kept, size


class _Free:
    """The partitions that are in no prior, by topic."""

    __slots__ = ("_flags", "counts")

    def __init__(self, counts: dict[TopicId, int]) -> None:
        self.counts = counts
        self._flags: dict[TopicId, bytearray] = {}

    def take(self, priors: list[Assignment]) -> None:
        """What these have of the partitions that there are."""
        for prior in filter(None, priors):
            for topic_id, partitions in prior.items():
                count = self.counts.get(topic_id, 0)
                flags = self._flags.get(topic_id)
                if flags is None:
                    flags = self._flags[topic_id] = bytearray(b"\1") * count
                for partition in partitions:
                    if partition < count:
                        flags[partition] = 0

    def runs(self) -> Iterator[Run]:
        # One set of numbers for all: making them anew is most of the work of a fresh target.
        numbers: dict[int, tuple[int, ...]] = {}
        for topic_id, count in self.counts.items():
            flags = self._flags.get(topic_id)
            for some in spans(count, SLICE_PARTITIONS):
                if flags is not None:
                    if 1 in flags[some]:
                        yield topic_id, tuple(compress(range(some.start, count), flags[some]))
                    continue
                found = numbers.get(some.start)
                if found is None:
                    found = numbers[some.start] = tuple(range(some.start, some.stop))
                yield topic_id, found[: count - some.start]


def _favoured(
    member_ids: list[str], count: int, spec: GroupSpec, order: Order
) -> Generator[None, None, frozenset[str]]:
    """So many of these members: those that speak soonest if that is known, among equals the last
    ones in the order."""
    speaks = spec.next_heartbeat if isinstance(spec, AssignmentSpec) else None
    if speaks is None or order is not CANONICAL:
        return frozenset(member_ids[-count:])
    soonest: dict[str, int] = {}
    backwards = member_ids[::-1]
    for some in spans(len(backwards), SLICE_MEMBERS):
        yield
        for member_id in backwards[some]:
            soonest[member_id] = speaks(member_id)
    return frozenset(sorted(soonest, key=soonest.__getitem__)[:count])


def _hand_out(
    result: dict[str, Assignment],
    receivers: list[str],
    sizes: list[int],
    runs: Iterator[Run],
    at_once: int,
) -> Generator[None, None, None]:
    topic_id, run = next(runs, (b"", ()))
    start = 0
    for some in spans(len(receivers), at_once):
        yield
        for member_id, missing in zip(receivers[some], sizes[some], strict=True):
            if start == len(run):
                topic_id, run = next(runs)
                start = 0
            end = start + missing
            if end <= len(run) and not result.get(member_id):
                result[member_id] = {topic_id: run[start:end]}
                start = end
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
                added.setdefault(topic_id, []).extend(part)
            result[member_id] = with_added(result.get(member_id, {}), added)
    assert start == len(run), "caps do not add up to the partitions"
    assert next(runs, None) is None, "caps do not add up to the partitions"
