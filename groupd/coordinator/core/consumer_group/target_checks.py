"""Checks the result of an assignor before it is stored, since the assignor may be a plug-in. It may
name only members of the group, only topics that the member subscribes to, only partitions that
exist, and no partition twice."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    GroupSpec,
    MemberSpec,
    TopicDescriber,
)
from groupd.coordinator.core.consumer_group import target_limits
from groupd.coordinator.core.consumer_group.group import NO_TARGET
from groupd.coordinator.core.slices import Steps
from groupd.protocol.messages import TopicId


def check_steps(
    result: Any, spec: GroupSpec, topics: TopicDescriber
) -> Steps[dict[str, Assignment]]:
    """Returns the assignor's `result` with an entry for every member, topics and partitions
    ascending and without empty topics; yields between slices. Raises AssignorError, which names the
    first fault."""
    strangers = sorted(map(str, set(result) - spec.members.keys()))
    if strangers:
        raise AssignorError(f"{strangers[0]} is not a member of the group")
    targets: dict[str, Assignment] = {}
    taken: dict[TopicId, bytearray] = {}
    partitions = 0
    for member_id, member in spec.members.items():
        given = result.get(member_id, NO_TARGET)
        # An assignment that was checked before is sorted, but the assignor may have given it to
        # another member, too.
        target = given if given is member.assigned else _sorted(given)
        targets[member_id] = target
        partitions += _check_member(member_id, member, target, topics, taken)
        if (
            len(targets) % target_limits.SLICE_MEMBERS == 0
            or partitions >= target_limits.SLICE_PARTITIONS
        ):
            partitions = 0
            yield
    return targets


def _sorted(given: Mapping[TopicId, Any]) -> Assignment:
    return {topic: tuple(sorted(given[topic])) for topic in sorted(given) if given[topic]}


def _check_member(
    member_id: str,
    member: MemberSpec,
    target: Assignment,
    topics: TopicDescriber,
    taken: dict[TopicId, bytearray],
) -> int:
    """Checks the assignment of one member and returns how many partitions it has. `taken`: by
    topic, one byte for each partition, 1 if the partition is assigned already."""
    count = 0
    for topic_id, partitions in target.items():
        if topic_id not in member.topic_ids:
            raise _fault(
                member_id, "partitions of {topic}, to which it is not subscribed", topic_id, topics
            )
        of_topic = taken.get(topic_id)
        if of_topic is None:
            of_topic = taken[topic_id] = bytearray(max(topics.num_partitions(topic_id), 0))
        for partition in partitions:
            if type(partition) is not int:
                raise _fault(
                    member_id, "something that is no partition number of {topic}", topic_id, topics
                )
            if not 0 <= partition < len(of_topic):
                what = "a partition that {topic} does not have: " + str(partition)
                raise _fault(member_id, what, topic_id, topics)
            if of_topic[partition]:
                raise _fault(
                    member_id, "a partition of {topic} that is handed out twice", topic_id, topics
                )
            of_topic[partition] = 1
        count += len(partitions)
    return count


def _fault(member_id: str, what: str, topic_id: TopicId, topics: TopicDescriber) -> AssignorError:
    return AssignorError(
        f"{member_id} got {what.format(topic=topics.name(topic_id) or topic_id.hex())}"
    )
