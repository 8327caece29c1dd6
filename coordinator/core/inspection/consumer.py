"""A consumer group: epochs, members, who holds what another one is waiting for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coordinator.core.assignors.api import Assignment
from coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from coordinator.core.consumer_group.member import ConsumerGroupMember
from coordinator.core.metadata_image import MetadataImage
from coordinator.core.slices import SLICE_ITEMS, spans
from protocol.messages import TopicId

Partition = tuple[TopicId, int]


class _Snapshot:
    """What is shown of a group, at one moment: members and targets are immutable."""

    __slots__ = ("image", "members", "targets")

    def __init__(self, group: ConsumerGroup, image: MetadataImage) -> None:
        self.members = [group.members[member_id] for member_id in group.sorted_member_ids()]
        self.targets = dict(group.targets)
        self.image = image

    def parts(self) -> Iterator[list[ConsumerGroupMember]]:
        """The members, some at a time."""
        for some in spans(len(self.members), SLICE_ITEMS):
            yield self.members[some]

    def target(self, member: ConsumerGroupMember) -> Assignment:
        return self.targets.get(member.member_id, NO_TARGET)


def inspect_consumer_group(group: ConsumerGroup, image: MetadataImage) -> dict[str, Any]:
    """`blocked`: per member that waits, each wanted partition with the member that still holds
    it, and whether that one has been told to give it up. The lists are iterators: of this moment,
    but made when they are read, as they may be long. None in them is no item but a stop: much has
    been looked at, and others may have their turn."""
    snapshot = _Snapshot(group, image)
    return {
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignment_timestamp_ms": group.assignment_timestamp_ms,
        "resolved_regexes": {
            pattern: list(group.regexes.topics_of(pattern)) for pattern in sorted(group.regexes)
        },
        "members": (_member(snapshot, member) for member in snapshot.members),
        "blocked": _blocked(snapshot),
    }


def _member(snapshot: _Snapshot, member: ConsumerGroupMember) -> dict[str, Any]:
    image = snapshot.image
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
        "target": named(snapshot.target(member), image),
    }


def _blocked(snapshot: _Snapshot) -> Iterator[dict[str, Any] | None]:
    holders: dict[Partition, ConsumerGroupMember] = {}
    for found in _wanted(snapshot):
        if found is None:
            yield None
            continue
        member, topic_id, partition = found
        if not holders:
            for one in snapshot.parts():
                holders.update(_held(one))
                yield None
        holder = holders.get((topic_id, partition))
        if holder is None or holder is member:
            continue
        yield {
            "member_id": member.member_id,
            "topic": topic_name(topic_id, snapshot.image),
            "partition": partition,
            "held_by": holder.member_id,
            "revoking": partition in holder.pending_revocation.get(topic_id, {}),
        }


def _wanted(snapshot: _Snapshot) -> Iterator[tuple[ConsumerGroupMember, TopicId, int] | None]:
    """What members do not have of their targets. None: a stop."""
    for members in snapshot.parts():
        for member in members:
            target = snapshot.target(member)
            for topic_id in sorted(target):
                mine = member.assigned.get(topic_id, {})
                for partition in target[topic_id]:
                    if partition not in mine:
                        yield member, topic_id, partition
        yield None


def _held(members: list[ConsumerGroupMember]) -> dict[Partition, ConsumerGroupMember]:
    return {
        (topic_id, partition): member
        for member in members
        for holdings in (member.assigned, member.pending_revocation)
        for topic_id, partitions in holdings.items()
        for partition in partitions
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
