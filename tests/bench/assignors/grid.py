"""The grid of docs/spec/assignors.md#11, and its groups as groupd holds them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from groupd.coordinator.core.assignors.api import (
    Assignment,
    MemberSpec,
    PartitionAssignor,
    SubscriptionType,
)
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.consumer_group.records import target_of
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.protocol.messages import TopicId
from groupd.protocol.records.schema import AssignedTopic, ConsumerGroupTargetMemberValue

BUCKETS = 5
RACKS = 3
WIDTH = 8
"""The bytes of half a topic id."""

MEMBERS = (100, 500, 1000, 5000, 10_000)
RATIOS = (5, 10, 50)
TOPICS = (10, 100, 1000)


@dataclass(frozen=True, slots=True)
class Point:
    """A point of the grid. `ratio`: partitions a member. `incremental`: one member joins a group
    whose other members have their partitions."""

    assignor: str
    heterogeneous: bool
    incremental: bool
    racks: bool
    members: int
    ratio: int
    topics: int

    @property
    def name(self) -> str:
        kind = "incremental" if self.incremental else "full"
        racks = ", racks" if self.racks else ""
        return (
            f"{self.assignor}, {self.subscription}, {kind}, {self.members:,} members x "
            f"{self.ratio} partitions, {self.topics:,} topics{racks}"
        )

    @property
    def subscription(self) -> str:
        return "heterogeneous" if self.heterogeneous else "homogeneous"

    @property
    def partitions_per_topic(self) -> int:
        return self.members * self.ratio // self.topics

    def words(self) -> str:
        """The point as the Java program takes it."""
        kind = "incremental" if self.incremental else "full"
        racks = "on" if self.racks else "off"
        return (
            f"{self.assignor} {self.subscription} {kind} {racks} "
            f"{self.members} {self.ratio} {self.topics}"
        )


def points(
    members: tuple[int, ...] = MEMBERS,
    ratios: tuple[int, ...] = RATIOS,
    topics: tuple[int, ...] = TOPICS,
    racks: tuple[bool, ...] = (False, True),
) -> Iterator[Point]:
    """The points with at least one partition a topic, in the order of the tables."""
    both = (False, True)
    for assignor, other, added in product(("uniform", "range"), both, both):
        for with_racks, *sizes in product(racks, members, ratios, topics):
            point = Point(assignor, other, added, with_racks, *sizes)
            if point.partitions_per_topic:
                yield point


class Group:
    """What the coordinator hands to the assignor at a point."""

    def __init__(self, point: Point, assignor: PartitionAssignor) -> None:
        self._point = point
        self._ids = [_topic_id(index) for index in range(point.topics)]
        size = point.partitions_per_topic
        racks = tuple((f"rack{n % RACKS}",) for n in range(size)) if point.racks else ()
        self.topics = ImageDescriber(
            MetadataImage(
                TopicImage(topic_id, f"topic-{index}", size, racks=racks)
                for index, topic_id in enumerate(self._ids)
            )
        )
        count = point.members - point.incremental
        self._bucket_members = -(-count // BUCKETS)
        self._bucket_topics = -(-point.topics // BUCKETS)
        self._subscriptions: dict[int, frozenset[TopicId]] = {}
        self.spec = self._fresh(count)
        if point.incremental:
            self.spec = self._with_new_member(assignor, count)

    def _member(self, index: int, of: int) -> MemberSpec:
        rack = f"rack{index % RACKS}" if self._point.racks else None
        return MemberSpec(self._subscription(of), {}, rack_id=rack)

    def _subscription(self, index: int) -> frozenset[TopicId]:
        bucket = index // self._bucket_members if self._point.heterogeneous else -1
        if bucket not in self._subscriptions:
            first = bucket * self._bucket_topics
            mine = self._ids if bucket < 0 else self._ids[first : first + self._bucket_topics]
            self._subscriptions[bucket] = frozenset(mine)
        return self._subscriptions[bucket]

    def _view(self, members: dict[str, MemberSpec]) -> AssignmentSpec:
        kind = SubscriptionType(self._point.subscription)
        return AssignmentSpec(members, kind)

    def _fresh(self, count: int) -> AssignmentSpec:
        members = {f"member{index}": self._member(index, index) for index in range(count)}
        return self._view(members)

    def _with_new_member(self, assignor: PartitionAssignor, count: int) -> AssignmentSpec:
        given = assignor.assign(self.spec, self.topics)
        members: dict[str, MemberSpec] = {}
        for member_id, spec in self.spec.members.items():
            assigned = _replayed(given[member_id])
            members[member_id] = MemberSpec(spec.topic_ids, assigned, rack_id=spec.rack_id)
        members["newMember"] = self._member(count, count - 1)
        return self._view(members)


def _replayed(target: Assignment) -> Assignment:
    """The target as the coordinator has it: what its record gives when it is applied."""
    topics = tuple(AssignedTopic(*topic) for topic in sorted(target.items()))
    return target_of(ConsumerGroupTargetMemberValue(topics))


def _topic_id(index: int) -> TopicId:
    return (0x4242).to_bytes(WIDTH, "big") + (index + 1).to_bytes(WIDTH, "big")
