"""`range`: consecutive partitions per topic, co-partitioned over topics of equal size
(assignors spec, section 3). The prior assignment plays no part. Static members come first,
by instance id, so that a replacement takes its predecessor's place.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

from groupd.coordinator.core.assignors.api import (
    Assignment,
    GroupSpec,
    MemberSpec,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.even import EvenAssignment, shared_topics
from groupd.coordinator.core.assignors.order import sorted_utf16
from groupd.coordinator.core.assignors.spec import partition_counts, settled, subscribers_of
from groupd.coordinator.core.slices import run_through, spans
from groupd.protocol.messages import TopicId

Built = dict[TopicId, tuple[int, ...]]

NOTHING: Assignment = {}

SLICE_MEMBERS = 2048
"""Members between two stops."""


def ranked_members(members: Mapping[str, MemberSpec]) -> list[str]:
    """Members with an instance id first, by instance id; the rest by member id; compared by
    UTF-16 unit."""
    static = {spec.instance_id: key for key, spec in members.items() if spec.instance_id}
    if not static:
        return sorted_utf16(members)
    ranked = [static[instance_id] for instance_id in sorted_utf16(static)]
    taken = set(ranked)
    return ranked + sorted_utf16(key for key in members if key not in taken)


class RangeAssignor:
    """Cost O(M log M + subscriptions + P), one subscription of many members counted once."""

    __slots__ = ()

    name = "range"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        return run_through(self.assign_steps(spec, topics))

    def assign_steps(
        self, spec: GroupSpec, topics: TopicDescriber
    ) -> Generator[None, None, Mapping[str, Assignment]]:
        """`assign` with stops."""
        members = spec.members
        ranked = ranked_members(members)
        yield
        subscribers = subscribers_of([members[key].topic_ids for key in ranked])
        counts = partition_counts(sorted(subscribers), topics)
        priors = [members[key].assigned for key in ranked]
        built = yield from _built(priors, counts, subscribers)
        result: dict[str, Assignment] = {}
        for some in spans(len(ranked), SLICE_MEMBERS):
            yield
            result.update(zip(ranked[some], built[some], strict=True))
        return result


def _built(
    priors: list[Assignment],
    counts: dict[TopicId, int],
    subscribers: dict[TopicId, list[int]],
) -> Generator[None, None, list[Assignment]]:
    """By rank; the prior object where nothing changed. Topics of one size with the same subscribers
    are handed out together."""
    alike: dict[tuple[int, int], list[TopicId]] = {}
    for topic_id, count in counts.items():
        alike.setdefault((id(subscribers[topic_id]), count), []).append(topic_id)
    built: list[Assignment] = [NOTHING] * len(priors)
    mixed: dict[int, Built] = {}
    for (_, count), topic_ids in alike.items():
        owners = subscribers[topic_ids[0]]
        together = shared_topics(tuple(topic_ids))
        runs = _shares(count, len(owners))
        for some in spans(len(runs), SLICE_MEMBERS):
            yield
            _hand_out(together, owners[some], runs[some], priors, built, mixed)
    for position, its in mixed.items():
        built[position] = settled(priors[position], {key: its[key] for key in sorted(its)})
    return built


def _hand_out(
    topics: dict[TopicId, None],
    owners: list[int],
    runs: list[tuple[int, ...]],
    priors: list[Assignment],
    built: list[Assignment],
    mixed: dict[int, Built],
) -> None:
    """`runs[n]` of each of `topics` to the member of rank `owners[n]`. `mixed`: those that get
    different partitions of different topics."""
    for position, run in zip(owners, runs, strict=False):
        mine = built[position]
        if mine is NOTHING:
            prior = priors[position]
            given = EvenAssignment(topics, run)
            # Nearly everybody is new or has the same form as before: neither needs a comparison.
            if type(prior) is EvenAssignment:
                has_changed = prior.partitions != run
            else:
                has_changed = not prior
            built[position] = given if has_changed else settled(prior, given)
        else:
            if position not in mixed:
                mixed[position] = dict(mine)
            mixed[position].update(dict.fromkeys(topics, run))


def _shares(partitions: int, subscribers: int) -> list[tuple[int, ...]]:
    """The consecutive runs in member order; empty ones are left out (they come last)."""
    quota, extras = divmod(partitions, subscribers)
    numbers = tuple(range(partitions))
    longer = extras * (quota + 1)
    runs = [numbers[start : start + quota + 1] for start in range(0, longer, quota + 1)]
    if quota:
        runs += [numbers[start : start + quota] for start in range(longer, partitions, quota)]
    return runs
