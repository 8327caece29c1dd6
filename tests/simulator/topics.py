"""The catalogue of topics: created, grown, deleted and created again."""

from __future__ import annotations

from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.protocol.messages import TopicId
from tests.simulator.world import World


class Topics:
    """`image` is what every process gets; `deleted` are all ids that ever went."""

    def __init__(self, world: World, count: int, partitions_max: int) -> None:
        self._world = world
        self._partitions_max = partitions_max
        self._version = 1
        self._ids = 0
        self.deleted: set[TopicId] = set()
        self.names = tuple(f"topic-{number}" for number in range(count))
        first = [self._new(name) for name in self.names if name == "topic-0" or world.chance(0.8)]
        self.image = MetadataImage(first, 1)

    def _new(self, name: str) -> TopicImage:
        self._ids += 1
        # Ids in no particular order, so that id order and name order differ.
        topic_id = bytes([self._world.between(0, 255)]) + self._ids.to_bytes(15, "big")
        return TopicImage(topic_id, name, self._world.between(1, self._partitions_max))

    def restore(self) -> MetadataDelta | None:
        """Creates every topic that is missing; None if none is."""
        missing = [name for name in self.names if name not in self.image.by_name]
        created = {name: self._new(name) for name in missing}
        return self._install(created=created) if created else None

    def change(self) -> MetadataDelta | None:
        """Makes one random change."""
        name = self._world.random.choice(self.names)
        topic = self.image.by_name.get(name)
        if topic is None:
            return self._install(created={name: self._new(name)})
        kind = self._world.random.choice(["grow", "grow", "delete", "recreate"])
        if kind == "grow":
            if topic.partitions >= 2 * self._partitions_max:
                return None
            more = self._world.between(1, 2)
            return self._install(
                changed={name: TopicImage(topic.topic_id, name, topic.partitions + more)}
            )
        created = {name: self._new(name)} if kind == "recreate" else {}
        return self._install(created=created, deleted=[topic])

    def _install(
        self,
        created: dict[str, TopicImage] | None = None,
        changed: dict[str, TopicImage] | None = None,
        deleted: list[TopicImage] | None = None,
    ) -> MetadataDelta:
        created, changed, deleted = created or {}, changed or {}, deleted or []
        topics = dict(self.image.by_name)
        for topic in deleted:
            del topics[topic.name]
            self.deleted.add(topic.topic_id)
        topics.update(created)
        topics.update(changed)
        self._version += 1
        created_version = self._version if created else self.image.created_version
        self.image = MetadataImage(topics.values(), self._version, created_version)
        self._world.trace(
            "topics",
            {name: f"{t.topic_id.hex()} x{t.partitions}" for name, t in sorted(topics.items())},
        )
        return MetadataDelta(
            self.image,
            frozenset(created),
            frozenset(changed),
            tuple((topic.name, topic.topic_id) for topic in deleted),
        )
