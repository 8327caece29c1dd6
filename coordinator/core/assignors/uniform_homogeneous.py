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

from coordinator.core.assignors.api import Assignment, GroupSpec, MemberSpec, TopicDescriber
from coordinator.core.assignors.order import CANONICAL, Order
from coordinator.core.assignors.spec import AssignmentSpec, partition_counts, with_added
from protocol.messages import TopicId

SLICE_MEMBERS = 2048
"""Members between two stops."""

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
    counts = partition_counts(topic_ids, topics)
    member_ids = list(members) if order is CANONICAL else order.members(members.keys())
    kept = _Kept(counts, len(member_ids), order)
    for some in _slices(member_ids):
        kept.add(some, [members[member_id].assigned for member_id in some])
        yield
    favoured = yield from _favoured(kept.others, kept.extras, spec, order)
    needs = kept.all_needs(favoured)
    runs = iter(kept.revoked)
    # Priors have nothing in common: what is missing is either revoked or in no prior.
    if sum(needs.values()) != kept.revoked_count:
        free = _Free(counts)
        for some in _slices(list(kept.result)):
            free.take(some, members)
            yield
        runs = chain(free.runs(), runs)
    yield from _hand_out(kept.result, needs, runs)
    return kept.result


def _slices(member_ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(member_ids), SLICE_MEMBERS):
        yield member_ids[start : start + SLICE_MEMBERS]


class _Kept:
    """What of the priors is kept, member by member in their order.

    `result`: at least of those who had anything; `others`: who has no extra; `needs`: how many
    partitions members still get, without the `extras` that nobody kept; `revoked`: what its
    holder may not keep.
    """

    __slots__ = (
        "_counts",
        "_order",
        "_quota",
        "extras",
        "needs",
        "others",
        "result",
        "revoked",
        "revoked_count",
    )

    def __init__(self, counts: dict[TopicId, int], members: int, order: Order) -> None:
        self._counts = counts
        self._order = order
        self._quota, self.extras = divmod(sum(counts.values()), members)
        self.result: dict[str, Assignment] = {}
        self.others: list[str] = []
        self.needs: dict[str, int] = {}
        self.revoked: list[Run] = []
        self.revoked_count = 0

    def add(self, member_ids: list[str], priors: list[Assignment]) -> None:
        """The next members. Most keep all they have; in a new group nobody has anything."""
        quota, counts, result, others = self._quota, self._counts, self.result, self.others
        if quota and not any(priors):
            self.needs.update(dict.fromkeys(member_ids, quota))
            others += member_ids
            return
        for member_id, prior in zip(member_ids, priors, strict=True):
            size = 0
            for topic_id, partitions in prior.items():
                if partitions[-1] >= counts.get(topic_id, 0):
                    size = -1
                    break
                size += len(partitions)
            if size == quota:
                result[member_id] = prior
                others.append(member_id)
            else:
                self._settle(member_id, prior, size)

    def _settle(self, member_id: str, prior: Assignment, size: int) -> None:
        """One that has not just the quota; `size` -1: some of its prior is no more."""
        cap = self._quota + (self.extras > 0)
        if size < 0 or size > cap:
            prior, size = self._trimmed(prior, cap)
        self.result[member_id] = prior
        if size > self._quota:
            self.extras -= 1
            return
        self.others.append(member_id)
        if size < self._quota:
            self.needs[member_id] = self._quota - size

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

    def all_needs(self, favoured: frozenset[str]) -> dict[str, int]:
        """By member, in their order, when these get the extras that nobody kept."""
        needs = self.needs
        if not favoured:
            return needs
        return {
            member_id: needs.get(member_id, 0) + (member_id in favoured)
            for member_id in self.others
            if member_id in favoured or member_id in needs
        }


class _Free:
    """The partitions that are in no prior, by topic."""

    __slots__ = ("_counts", "_flags")

    def __init__(self, counts: dict[TopicId, int]) -> None:
        self._counts = counts
        self._flags: dict[TopicId, bytearray] = {}

    def take(self, member_ids: list[str], members: Mapping[str, MemberSpec]) -> None:
        """What these have of the partitions that there are."""
        for member_id in member_ids:
            for topic_id, partitions in members[member_id].assigned.items():
                count = self._counts.get(topic_id, 0)
                flags = self._flags.get(topic_id)
                if flags is None:
                    flags = self._flags[topic_id] = bytearray(b"\1") * count
                if partitions[-1] >= count:
                    partitions = tuple(number for number in partitions if number < count)
                for partition in partitions:
                    flags[partition] = 0

    def runs(self) -> Iterator[Run]:
        # One set of numbers for all: making them anew is most of the work of a fresh target.
        numbers = tuple(range(max(self._counts.values(), default=0)))
        for topic_id, count in self._counts.items():
            flags = self._flags.get(topic_id)
            if flags is None:
                if count:
                    yield topic_id, numbers[:count]
            elif 1 in flags:
                yield topic_id, tuple(compress(numbers, flags))


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
    for some in _slices(member_ids[::-1]):
        yield
        for member_id in some:
            soonest[member_id] = speaks(member_id)
    return frozenset(sorted(soonest, key=soonest.__getitem__)[:count])


def _hand_out(
    result: dict[str, Assignment], needs: dict[str, int], runs: Iterator[Run]
) -> Generator[None, None, None]:
    """To each the next ones. The tuples of a slice come before the dicts around them: the cycle
    collector has found most of them harmless by then, and so never looks at such a dict."""
    topic_id, run = next(runs, (b"", ()))
    start = 0
    for some in _slices(list(needs)):
        yield
        whole: list[str] = []
        topic_ids: list[TopicId] = []
        parts: list[tuple[int, ...]] = []
        for member_id in some:
            missing = needs[member_id]
            kept = result.get(member_id)
            end = start + missing
            if not kept and end <= len(run):
                whole.append(member_id)
                topic_ids.append(topic_id)
                parts.append(run[start:end])
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
            result[member_id] = with_added(kept or {}, added)
        dicts = [{key: part} for key, part in zip(topic_ids, parts, strict=True)]
        result.update(zip(whole, dicts, strict=True))
    assert start == len(run), "caps do not add up to the partitions"
    assert next(runs, None) is None, "caps do not add up to the partitions"
