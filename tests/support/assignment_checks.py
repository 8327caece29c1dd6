"""What every assignor must keep to; the coordinator checks in `target_assignment.check_steps`.

The first fault found, in member order, becomes an `AssignorError` that names it.
"""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    GroupSpec,
    MemberSpec,
    TopicDescriber,
)
from groupd.protocol.messages import TopicId


def check_result(result: Mapping[str, Assignment], spec: GroupSpec, topics: TopicDescriber) -> None:
    """Raises AssignorError unless every entry belongs to a member of `spec`, holds only topics
    the member subscribes to, as ascending non-empty tuples of partitions that exist, and no
    partition is given twice. Partitions left without an owner are not a fault. Cost O(P)."""
    taken: dict[TopicId, list[str | None]] = {}
    members = spec.members
    for member_id in sorted(result):
        member = members.get(member_id)
        if member is None:
            raise AssignorError(f"{member_id!r} is not a member of the group")
        for topic_id, partitions in result[member_id].items():
            owners = taken.get(topic_id)
            if owners is None:
                count = max(topics.num_partitions(topic_id), 0)
                owners = taken[topic_id] = [None] * count
            _check_topic(member_id, member, topic_id, partitions, len(owners), topics)
            _take(member_id, topic_id, partitions, owners, topics)


def _label(topic_id: TopicId, topics: TopicDescriber) -> str:
    return topics.name(topic_id) or topic_id.hex()


def _check_topic(
    member_id: str,
    member: MemberSpec,
    topic_id: TopicId,
    partitions: tuple[int, ...],
    count: int,
    topics: TopicDescriber,
) -> None:
    if topic_id not in member.topic_ids:
        label = _label(topic_id, topics)
        raise AssignorError(f"{member_id!r} was given {label}, to which it does not subscribe")
    if type(partitions) is not tuple or not partitions:
        label = _label(topic_id, topics)
        raise AssignorError(f"partitions of {label} for {member_id!r} are no non-empty tuple")
    previous = -1
    for partition in partitions:
        if not 0 <= partition < count:
            label = _label(topic_id, topics)
            raise AssignorError(
                f"{member_id!r} was given {label}-{partition}; {label} has {count} partitions"
            )
        if partition <= previous:
            label = _label(topic_id, topics)
            raise AssignorError(f"partitions of {label} for {member_id!r} are not ascending")
        previous = partition


def _take(
    member_id: str,
    topic_id: TopicId,
    partitions: tuple[int, ...],
    owners: list[str | None],
    topics: TopicDescriber,
) -> None:
    for partition in partitions:
        if owners[partition] is not None:
            label = _label(topic_id, topics)
            raise AssignorError(
                f"{label}-{partition} was given to {owners[partition]!r} and to {member_id!r}"
            )
        owners[partition] = member_id
