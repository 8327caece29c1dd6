"""What the coordinator hands to an assignor, a `GroupSpec` and a `TopicDescriber`, and helpers that
the built-in assignors share.

Members are ascending by id, the canonical order (docs/spec/assignors.md#2). The map behind
`is_assigned` is made when it is first needed, since `range` never needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    MemberSpec,
    SubscriptionType,
    TopicDescriber,
)
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.protocol.messages import TopicId


class AssignmentSpec:
    """A `GroupSpec` made of plain data. `members` may come in any order; it is only copied if it is
    not ascending. With `keep_order` it is taken as it is.

    `next_heartbeat`: a function from member id to the time of the member's next heartbeat, in any
    unit, or None if that is unknown. An assignor may be free to choose who gets partitions that no
    member has. It then chooses the members that send the next heartbeats, because these get the
    partitions first (ADR 25).

    `assignable`: the partitions that members may get, by topic; None = all.
    """

    __slots__ = ("_assignable", "_assigned", "_members", "_subscription_type", "next_heartbeat")

    def __init__(
        self,
        members: Mapping[str, MemberSpec],
        subscription_type: SubscriptionType,
        *,
        keep_order: bool = False,
        next_heartbeat: Callable[[str], int] | None = None,
        assignable: Mapping[TopicId, Container[int]] | None = None,
    ) -> None:
        ids = list(members)
        if not keep_order and (ordered := sorted(ids)) != ids:
            members = {member_id: members[member_id] for member_id in ordered}
        self._members = members
        self._subscription_type = subscription_type
        self.next_heartbeat = next_heartbeat
        self._assignable = assignable
        self._assigned: dict[TopicId, set[int]] | None = None

    @property
    def members(self) -> Mapping[str, MemberSpec]:
        return self._members

    @property
    def subscription_type(self) -> SubscriptionType:
        return self._subscription_type

    def is_assigned(self, topic_id: TopicId, partition: int) -> bool:
        if self._assigned is None:
            self._assigned = _inverted(self._members.values())
        return partition in self._assigned.get(topic_id, ())

    def is_assignable(self, topic_id: TopicId, partition: int) -> bool:
        return self._assignable is None or partition in self._assignable.get(topic_id, ())


def _inverted(members: Iterable[MemberSpec]) -> dict[TopicId, set[int]]:
    held: dict[TopicId, set[int]] = {}
    for member in members:
        for topic_id, partitions in member.assigned.items():
            owned = held.get(topic_id)
            if owned is None:
                owned = held[topic_id] = set()
            owned.update(partitions)
    return held


class ImageDescriber:
    """A `TopicDescriber` that reads the metadata image of one moment."""

    __slots__ = ("_topics",)

    def __init__(self, image: MetadataImage) -> None:
        self._topics = image.by_id

    def num_partitions(self, topic_id: TopicId) -> int:
        topic = self._topics.get(topic_id)
        return -1 if topic is None else topic.partitions

    def name(self, topic_id: TopicId) -> str | None:
        topic = self._topics.get(topic_id)
        return None if topic is None else topic.name

    def racks(self, topic_id: TopicId, partition: int) -> frozenset[str]:
        topic = self._topics.get(topic_id)
        if topic is None or not 0 <= partition < len(topic.racks):
            return frozenset()
        return frozenset(topic.racks[partition])


def subscribers_of(
    subscriptions: Sequence[frozenset[TopicId]],
) -> dict[TopicId, list[int]]:
    """The subscribers of each topic, as ascending indexes into `subscriptions`.

    Topics with the same subscribers share one list, which must not be changed.
    """
    if len(set(subscriptions)) == 1:
        everybody = list(range(len(subscriptions)))
        return dict.fromkeys(subscriptions[0], everybody)
    alike: dict[frozenset[TopicId], list[int]] = {}
    for position, topic_ids in enumerate(subscriptions):
        peers = alike.get(topic_ids)
        if peers is None:
            alike[topic_ids] = [position]
        else:
            peers.append(position)
    by_topic: dict[TopicId, list[list[int]]] = {}
    for topic_ids, peers in alike.items():
        for topic_id in topic_ids:
            by_topic.setdefault(topic_id, []).append(peers)
    return {
        topic_id: lists[0] if len(lists) == 1 else sorted(chain.from_iterable(lists))
        for topic_id, lists in by_topic.items()
    }


def partition_counts(topic_ids: Iterable[TopicId], topics: TopicDescriber) -> dict[TopicId, int]:
    """The number of partitions of each topic, in the order of `topic_ids`. Raises AssignorError if
    the describer does not know a topic."""
    counts: dict[TopicId, int] = {}
    for topic_id in topic_ids:
        count = topics.num_partitions(topic_id)
        if count < 0:
            raise AssignorError(f"a member subscribes to the unknown topic {topic_id.hex()}")
        counts[topic_id] = count
    return counts


def prior_if_equal(prior: Assignment, built: Assignment) -> Assignment:
    """Returns `prior` if `built` is equal to it, otherwise `built`."""
    return prior if built == prior else built


def with_added(
    kept: Mapping[TopicId, tuple[int, ...]], added: Mapping[TopicId, list[int]]
) -> dict[TopicId, tuple[int, ...]]:
    """`kept` and `added` together, with topics and partitions ascending."""
    merged: dict[TopicId, tuple[int, ...]] = {}
    for topic_id in sorted({*kept, *added}):
        more = added.get(topic_id)
        have = kept.get(topic_id, ())
        merged[topic_id] = tuple(sorted((*have, *more))) if more else have
    return merged
