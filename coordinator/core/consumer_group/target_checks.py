"""What is accepted of an assignor (spec 6). It may be a plug-in, so its output is checked before
anything is persisted: only members, only topics they subscribe to, only partitions that exist, none
of them twice.

Faults are rare and targets large: first all of it is checked in bulk, to find out whether there is
a fault at all, then, if so, member by member for whom to name.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from itertools import combinations
from operator import and_
from typing import Any

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    GroupSpec,
    MemberSpec,
    TopicDescriber,
)
from groupd.coordinator.core.assignors.even import EvenAssignment
from groupd.coordinator.core.consumer_group.group import NO_TARGET
from groupd.coordinator.core.slices import run_through
from groupd.protocol.messages import TopicId

SLICE_MEMBERS = 256
SLICE_PARTITIONS = 8192
"""So many members, or partitions, are looked at between two chances for others."""


def checked(result: Any, spec: GroupSpec, topics: TopicDescriber) -> dict[str, Assignment]:
    """`check_steps` in one go."""
    return run_through(check_steps(result, spec, topics))


def check_steps(
    result: Any, spec: GroupSpec, topics: TopicDescriber
) -> Generator[None, None, dict[str, Assignment]]:
    """The assignor's result with an entry per member, in canonical form; stops after every
    `SLICE_MEMBERS`, or sooner. Raises AssignorError that names the first fault."""
    strangers = sorted(map(str, set(result) - spec.members.keys()))
    if strangers:
        raise AssignorError(f"{strangers[0]} is not a member of the group")
    targets: dict[str, Assignment] = {}
    bulk = _Bulk(topics)
    try:
        for member_id, member in spec.members.items():
            given = result.get(member_id, NO_TARGET)
            target = given if given is member.assigned else _canonical(given)
            targets[member_id] = target
            bulk.add(member, target)
            if len(targets) % SLICE_MEMBERS == 0 or bulk.unsettled >= SLICE_PARTITIONS:
                bulk.settle()
                yield
        bulk.settle()
        for _ in bulk.compare():
            yield
    except _SomeFault:
        _name_the_fault(targets, spec, topics)
        raise
    return targets


def _canonical(given: Mapping[TopicId, Any]) -> Assignment:
    if type(given) is EvenAssignment:
        partitions = given.partitions
        if len(partitions) == 1 or (partitions and tuple(sorted(partitions)) == partitions):
            return given
    return {topic: tuple(sorted(given[topic])) for topic in sorted(given) if given[topic]}


class _SomeFault(Exception):
    pass


class _Given:
    """Partitions given of each of `topic_ids`, with the same numbers. Those below `limit` exist."""

    __slots__ = ("limit", "recent", "seen", "topic_ids")

    def __init__(self, topic_ids: Mapping[TopicId, object], topics: TopicDescriber) -> None:
        self.topic_ids = topic_ids
        self.limit = min(map(topics.num_partitions, topic_ids))
        # Not a set: one of a million numbers takes many milliseconds whenever it grows.
        self.seen = bytearray(max(self.limit, 0))
        self.recent: list[int] = []

    def settle(self) -> None:
        """Raises _SomeFault."""
        recent, seen = self.recent, self.seen
        if not recent:
            return
        if set(map(type, recent)) != {int} or min(recent) < 0 or max(recent) >= self.limit:
            raise _SomeFault
        if len(set(recent)) != len(recent) or any(map(seen.__getitem__, recent)):
            raise _SomeFault
        for partition in recent:
            seen[partition] = 1
        recent.clear()

    def overlaps(self, other: _Given) -> bool:
        return any(map(and_, self.seen, other.seen))


class _Bulk:
    """Every member's target by topic. Even ones by their set of topics, which many have.
    `unsettled`: partitions that were added since the last time."""

    __slots__ = ("_even", "_one", "_topics", "unsettled")

    def __init__(self, topics: TopicDescriber) -> None:
        self._topics = topics
        self._one: dict[TopicId, _Given] = {}
        self._even: dict[tuple[int, int], _Given] = {}
        self.unsettled = 0

    def add(self, member: MemberSpec, target: Assignment) -> None:
        if type(target) is EvenAssignment:
            # Both live as long as this does: in the result and in the specification.
            key = (id(target.topics), id(member.topic_ids))
            given = self._even.get(key)
            if given is None:
                self._check_subscribed(member, target.topics)
                given = self._even[key] = _Given(target.topics, self._topics)
            given.recent.extend(target.partitions)
            self.unsettled += len(target.partitions)
            return
        self._check_subscribed(member, target)
        for topic_id, partitions in target.items():
            given = self._one.get(topic_id)
            if given is None:
                given = self._one[topic_id] = _Given({topic_id: None}, self._topics)
            given.recent.extend(partitions)
            self.unsettled += len(partitions)

    @staticmethod
    def _check_subscribed(member: MemberSpec, topic_ids: Mapping[TopicId, object]) -> None:
        if not topic_ids.keys() <= member.topic_ids:
            raise _SomeFault

    def settle(self) -> None:
        """What was added since the last time. Raises _SomeFault."""
        self.unsettled = 0
        for given in self._one.values():
            given.settle()
        for given in self._even.values():
            given.settle()

    def compare(self) -> Iterator[None]:
        """Whether a topic's partitions were given twice in different company. Stops after every
        topic where there was something to compare. Raises _SomeFault."""
        by_topic: dict[TopicId, list[_Given]] = {}
        for given in (*self._one.values(), *self._even.values()):
            for topic_id in given.topic_ids:
                by_topic.setdefault(topic_id, []).append(given)
        for of_topic in by_topic.values():
            for one, other in combinations(of_topic, 2):
                if one.overlaps(other):
                    raise _SomeFault
                yield


def _name_the_fault(
    targets: Mapping[str, Assignment], spec: GroupSpec, topics: TopicDescriber
) -> None:
    """Raises AssignorError for the first one."""
    taken: dict[TopicId, set[int]] = {}
    for member_id, target in targets.items():
        for topic_id, partitions in target.items():
            _check_topic(member_id, spec.members[member_id], topic_id, partitions, topics, taken)


def _check_topic(
    member_id: str,
    member: MemberSpec,
    topic_id: TopicId,
    partitions: tuple[int, ...],
    topics: TopicDescriber,
    taken: dict[TopicId, set[int]],
) -> None:
    name = topics.name(topic_id) or topic_id.hex()
    if topic_id not in member.topic_ids:
        raise AssignorError(f"{member_id} got partitions of {name}, to which it is not subscribed")
    if set(map(type, partitions)) != {int}:
        raise AssignorError(f"{member_id} got something that is no partition number of {name}")
    if partitions[0] < 0 or partitions[-1] >= topics.num_partitions(topic_id):
        wrong = partitions[0] if partitions[0] < 0 else partitions[-1]
        raise AssignorError(f"{member_id} got a partition that {name} does not have: {wrong}")
    holders = taken.setdefault(topic_id, set())
    before = len(holders)
    holders.update(partitions)
    if len(holders) != before + len(partitions):
        raise AssignorError(f"{member_id} got a partition of {name} that is handed out twice")
