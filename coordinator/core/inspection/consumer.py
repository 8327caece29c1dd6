"""A consumer group: epochs, members, who holds what another one is waiting for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from coordinator.core.consumer_group.member import ConsumerGroupMember
from coordinator.core.metadata_image import MetadataImage
from protocol.messages import TopicId

Partition = tuple[TopicId, int]


def inspect_consumer_group(group: ConsumerGroup, image: MetadataImage) -> dict[str, Any]:
    """`blocked`: per member that waits, each wanted partition with the member that still holds
    it, and whether that one has been told to give it up."""
    holders = _holders(group)
    return {
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp_ms": group.assignment_timestamp_ms,
        "resolved_regexes": {
            pattern: list(group.regexes.topics_of(pattern)) for pattern in sorted(group.regexes)
        },
        "members": [
            _member(group, group.members[member_id], image)
            for member_id in group.sorted_member_ids()
        ],
        "blocked": [
            entry
            for member_id in group.sorted_member_ids()
            for entry in _blocked(group, group.members[member_id], holders, image)
        ],
    }


def _member(
    group: ConsumerGroup, member: ConsumerGroupMember, image: MetadataImage
) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "protocol": "consumer" if member.classic is None else "classic",
        "state": member.state.name,
        "member_epoch": member.member_epoch,
        "previous_member_epoch": member.previous_member_epoch,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
        "subscribed_topic_names": list(member.subscribed_topic_names),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "server_assignor": member.server_assignor,
        "owned": named(member.assigned, image),
        "pending_revocation": named(member.pending_revocation, image),
        "target": named(group.targets.get(member.member_id, NO_TARGET), image),
    }


def _holders(group: ConsumerGroup) -> dict[Partition, str]:
    return {
        (topic_id, partition): member.member_id
        for member in group.members.values()
        for holdings in (member.assigned, member.pending_revocation)
        for topic_id, partitions in holdings.items()
        for partition in partitions
    }


def _blocked(
    group: ConsumerGroup,
    member: ConsumerGroupMember,
    holders: Mapping[Partition, str],
    image: MetadataImage,
) -> Iterable[dict[str, Any]]:
    target = group.targets.get(member.member_id, NO_TARGET)
    for topic_id in sorted(target):
        for partition in target[topic_id]:
            holder = holders.get((topic_id, partition))
            if holder is None or holder == member.member_id:
                continue
            pending = group.members[holder].pending_revocation.get(topic_id, {})
            yield {
                "member_id": member.member_id,
                "topic": topic_name(topic_id, image),
                "partition": partition,
                "held_by": holder,
                "revoking": partition in pending,
            }


def topic_name(topic_id: TopicId, image: MetadataImage) -> str:
    """The name; the id in hex for a topic that is gone."""
    topic = image.by_id.get(topic_id)
    return topic_id.hex() if topic is None else topic.name


def named(
    partitions: Mapping[TopicId, Iterable[int]], image: MetadataImage
) -> dict[str, list[int]]:
    """Topic name -> partitions, both ascending."""
    by_name = {topic_name(topic_id, image): sorted(p) for topic_id, p in partitions.items()}
    return dict(sorted(by_name.items()))
