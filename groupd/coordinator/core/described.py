"""What the descriptions of members share: their partitions with topic names, and whether a client
may see these topics."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.consumer_group import NamedTopicPartitions


def named_partitions(
    partitions: Mapping[TopicId, Iterable[int]], image: MetadataImage
) -> tuple[NamedTopicPartitions, ...]:
    """The partitions with the names of their topics; topics that do not exist any more are left
    out."""
    return tuple(
        NamedTopicPartitions(
            topic_id, image.by_id[topic_id].name, tuple(sorted(partitions[topic_id]))
        )
        for topic_id in sorted(partitions)
        if topic_id in image.by_id
    )


def may_describe(
    context: RequestContext, topic_ids: Collection[TopicId], image: MetadataImage
) -> bool:
    """Whether the client may describe all of these topics, as far as they exist."""
    topics = {image.by_id[topic_id].name for topic_id in topic_ids if topic_id in image.by_id}
    # Every topic is checked, so that the audit log names all that are hidden.
    seen = [context.allows(Operation.DESCRIBE, Resource.TOPIC, name) for name in sorted(topics)]
    return all(seen)
