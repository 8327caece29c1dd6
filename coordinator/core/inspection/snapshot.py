"""A consumer group at one moment, and its topics by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import SLICE_ITEMS, spans
from groupd.protocol.messages import TopicId


class Snapshot:
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
