"""The topics as a worker knows them: what the main process has told, never ahead of it."""

from __future__ import annotations

from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.topics.catalogue import MetadataListener, Topic
from groupd.protocol.messages import TopicId


class ReplicatedTopics:
    """A `coordinator.topics.partitions.KnownTopics`, without the topics' configs."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._listeners: list[MetadataListener] = []

    def topic(self, name: str) -> Topic | None:
        return _topic(self.image.by_name.get(name))

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return _topic(self.image.by_id.get(topic_id))

    def add_listener(self, listener: MetadataListener) -> None:
        self._listeners.append(listener)

    def apply(self, delta: MetadataDelta) -> None:
        self.image = delta.image
        for listener in self._listeners:
            listener(delta)


def _topic(image: TopicImage | None) -> Topic | None:
    if image is None:
        return None
    return Topic(image.topic_id, image.name, image.partitions, internal=image.internal)
