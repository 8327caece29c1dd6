"""`uniform`: balance first, then as few moves as possible (docs/spec/assignors.md#4 and
docs/spec/assignors.md#5). Where members subscribe to different topics: `uniform_heterogeneous`.

Where all members subscribe to the same topics, let there be P partitions and M members. Each member
may have the quota q = P div M, and e = P mod M members may have one more, an extra. A member that
already has more than q keeps one extra. If there are more than e such members, the first e in the
order of members do. Who gets the remaining extras is the only free choice: it changes neither the
balance nor the number of moves. They go to the members whose next heartbeat is expected first, if
that is known (ADR 25), otherwise to the last members.

This costs O(P + M), and a sort of the members by their next heartbeat if there are free extras.
Partitions are handled in runs of one topic. Partitions that no member has are looked for only if
the counts say that there are some.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, compress

from groupd.coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.spec import AssignmentSpec, partition_counts, with_added
from groupd.coordinator.core.assignors.uniform_heterogeneous import heterogeneous_steps
from groupd.coordinator.core.slices import Steps, run_through, spans
from groupd.protocol.messages import TopicId


class UniformAssignor:
    """Kafka's default assignor."""

    __slots__ = ()

    name = "uniform"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        return run_through(self.assign_steps(spec, topics))

    def assign_steps(
        self, spec: GroupSpec, topics: TopicDescriber
    ) -> Steps[Mapping[str, Assignment]]:
        """`assign` in slices."""
        if not spec.members:
            return {}
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            return (yield from homogeneous_steps(spec, topics))
        return (yield from heterogeneous_steps(spec, topics))


SLICE_MEMBERS = 2048
"""At most this many members are handled in one slice."""

SLICE_PARTITIONS = 16_384
"""At most about this many partitions are handled in one slice."""

TopicRun = tuple[TopicId, tuple[int, ...]]
"""Some partitions of one topic, in the order in which members get them."""


def homogeneous_steps(spec: GroupSpec, topics: TopicDescriber) -> Steps[Mapping[str, Assignment]]:
    """Returns the assignment; yields between slices. If no topic is subscribed the assignment has
    no entries, so every target becomes empty."""
    members = spec.members
    topic_ids = sorted(next(iter(members.values())).topic_ids)
    if not topic_ids:
        return {}
    free = _Free(partition_counts(topic_ids, topics))
    member_ids = list(members)
    kept = _Kept(free.counts, len(member_ids))
    for some in spans(len(member_ids), kept.slice_members):
        kept.add(member_ids[some], _priors(members, member_ids[some]))
        yield
    sizes = kept.missing
    if kept.extras:
        others = [member_id for member_id in member_ids if member_id not in kept.with_extra]
        chosen = yield from _choose_for_extras(others, kept.extras, spec)
        for some in spans(len(member_ids), SLICE_MEMBERS):
            yield
            pairs = zip(member_ids[some], sizes[some], strict=True)
            sizes[some] = [size + (member_id in chosen) for member_id, size in pairs]
    receivers = list(compress(member_ids, sizes))
    sizes = [size for size in sizes if size]
    # No partition is in two prior assignments, so every partition that members still get was either
    # revoked or is in no prior assignment.
    if sum(sizes) == kept.revoked_count:
        runs = iter(kept.revoked)
    else:
        for some in spans(len(member_ids) if kept.result else 0, kept.slice_members):
            free.take(_priors(members, member_ids[some]))
            yield
        runs = chain(free.runs(), kept.revoked)
    yield from _hand_out(kept.result, receivers, sizes, runs, kept.slice_members)
    return kept.result


def _priors(members: Mapping[str, MemberSpec], member_ids: list[str]) -> list[Assignment]:
    return [members[member_id].assigned for member_id in member_ids]


class _Kept:
    """The parts of the prior assignments that members keep, added member by member in the order of
    members.

    `slice_members`: how many members make a slice. `result`: what members keep. `missing`: how many
    partitions each member still gets, without an extra. `with_extra`: the members that keep an
    extra; `extras`: how many extras are left. `revoked`: partitions that their members may not
    keep, and `revoked_count` their number.
    """

    __slots__ = (
        "_counts",
        "_quota",
        "extras",
        "missing",
        "result",
        "revoked",
        "revoked_count",
        "slice_members",
        "with_extra",
    )

    def __init__(self, counts: dict[TopicId, int], members: int) -> None:
        self._counts = counts
        self._quota, self.extras = divmod(sum(counts.values()), members)
        self.slice_members = max(1, min(SLICE_MEMBERS, SLICE_PARTITIONS // (self._quota + 1)))
        self.result: dict[str, Assignment] = {}
        self.missing: list[int] = []
        self.with_extra: set[str] = set()
        self.revoked: list[TopicRun] = []
        self.revoked_count = 0

    def add(self, member_ids: list[str], priors: list[Assignment]) -> None:
        """Add the next members. Most members keep all that they have; in a new group no member has
        anything."""
        quota, counts = self._quota, self._counts
        if quota and not any(priors):
            self.missing += [quota] * len(priors)
            return
        first = len(self.missing)
        self.missing += [0] * len(priors)
        self.result.update(zip(member_ids, priors, strict=True))
        for index, prior in enumerate(priors):
            size = 0
            for topic_id, partitions in prior.items():
                if partitions[-1] >= counts.get(topic_id, 0):
                    size = -1
                    break
                size += len(partitions)
            if size != quota:
                self.missing[first + index] = self._missing(member_ids[index], prior, size)

    def _missing(self, member_id: str, prior: Assignment, size: int) -> int:
        """How many partitions the member still gets, without an extra. `size`: the number of
        partitions in its prior assignment, or -1 if some of these do not exist any more."""
        cap = self._quota + (self.extras > 0)
        if size < 0 or size > cap:
            prior, size = self._trimmed(prior, cap)
            self.result[member_id] = prior
        if size <= self._quota:
            return self._quota - size
        self.extras -= 1
        self.with_extra.add(member_id)
        return 0

    def _trimmed(self, prior: Assignment, cap: int) -> tuple[Assignment, int]:
        """The part of a prior assignment that the member keeps, and its size."""
        kept: dict[TopicId, tuple[int, ...]] = {}
        size = 0
        for topic_id in sorted(prior):
            count = self._counts.get(topic_id, 0)
            # A partition that no longer exists is dropped.
            held = [number for number in sorted(prior[topic_id]) if number < count]
            fits = held[: cap - size]
            if len(fits) < len(held):
                self.revoked.append((topic_id, tuple(held[len(fits) :])))
                self.revoked_count += len(held) - len(fits)
            if fits:
                kept[topic_id] = tuple(fits)
                size += len(fits)
        return kept, size


class _Free:
    """The partitions that are in no prior assignment. `counts`: the number of partitions of each
    topic; a flag is 1 while its partition is free."""

    __slots__ = ("_flags", "counts")

    def __init__(self, counts: dict[TopicId, int]) -> None:
        self.counts = counts
        self._flags: dict[TopicId, bytearray] = {}

    def take(self, priors: list[Assignment]) -> None:
        """Mark the partitions in these prior assignments as not free."""
        for prior in filter(None, priors):
            for topic_id, partitions in prior.items():
                count = self.counts.get(topic_id, 0)
                flags = self._flags.get(topic_id)
                if flags is None:
                    flags = self._flags[topic_id] = bytearray(b"\1") * count
                for partition in partitions:
                    if partition < count:
                        flags[partition] = 0

    def runs(self) -> Iterator[TopicRun]:
        # Topics share the number objects: creating them again is most of the work for a new group.
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


def _choose_for_extras(member_ids: list[str], count: int, spec: GroupSpec) -> Steps[frozenset[str]]:
    """Chooses `count` of these members: those whose next heartbeat is expected first, if that is
    known. Among equal members the last ones in the order are chosen."""
    next_heartbeat = spec.next_heartbeat if isinstance(spec, AssignmentSpec) else None
    if next_heartbeat is None:
        return frozenset(member_ids[-count:])
    expected: dict[str, int] = {}
    backwards = member_ids[::-1]
    for some in spans(len(backwards), SLICE_MEMBERS):
        yield
        for member_id in backwards[some]:
            expected[member_id] = next_heartbeat(member_id)
    return frozenset(sorted(expected, key=expected.__getitem__)[:count])


def _hand_out(
    result: dict[str, Assignment],
    receivers: list[str],
    sizes: list[int],
    runs: Iterator[TopicRun],
    slice_members: int,
) -> Steps[None]:
    """Gives each receiver as many partitions as its size, from the front of the runs."""
    topic_id, run = next(runs, (b"", ()))
    start = 0
    for some in spans(len(receivers), slice_members):
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
