"""The topics of the cluster. Every change writes the store first, then memory, then notifies the
listeners. One change runs at a time (see `coordinator.catalogue_changes`), so exactly one of
several concurrent creations of a name wins. A topic id is random and never reused, so a topic that
is created again has a new one. The topics of the coordinators (`runtime.coordinator_types`) are not
in the store: they always exist, with fixed ids, and clients cannot change them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec.structs import replace

from groupd.coordinator.catalogue_changes import TOPICS, CatalogueChanges
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.runtime.coordinator_types import is_internal
from groupd.coordinator.topics.checks import id_not_hosted
from groupd.coordinator.topics.topic import (
    CLUSTER_METADATA_TOPIC,
    PARTITION_UNITS,
    Topic,
    check_topic_name,
    collision_key,
    coordinator_topics,
    stored_topic,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.storage.log import Catalogue, MadePartitions, StoredTopic

MetadataListener = Callable[[MetadataDelta], None]


class TopicCatalogue:
    """The topics in memory, over the store.

    `new_topic_id()` returns 16 random bytes. In a cluster, the version of the image is that of the
    catalogue. Without one, versions count from `first_version`. It should not be below any version
    of an earlier run, because groups remember versions across restarts (wall time in milliseconds
    will do).
    """

    def __init__(
        self,
        store: Catalogue,
        config: CoordinatorConfig,
        new_topic_id: Callable[[], TopicId],
        changes: CatalogueChanges,
        first_version: int = 1,
    ) -> None:
        self._store = store
        self._config = config
        self._new_topic_id = new_topic_id
        self._changes = changes
        self._listeners: list[MetadataListener] = []
        self._config_listeners: list[Callable[[], None]] = []
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[TopicId, Topic] = {}
        self._collisions: dict[str, str] = {}
        self._images: dict[str, TopicImage] = {}
        self._shown: Sequence[Topic] = ()
        self._partitions = 0
        """The number of partitions of all topics that clients have created."""
        self._version = first_version - 1
        self._coordinator_topics = coordinator_topics(config)
        """The topics of the coordinators, which do not count towards the limit on topics."""
        self._read_before_created: set[TopicId] = set()
        """Topics whose row was read before the change that created it, see `read`."""
        self.image = MetadataImage()
        self.cluster_id = ""
        changes.follow(TOPICS, self)

    async def load(self) -> None:
        """Read the topics from the store. Raises LogError."""
        self.cluster_id = await self._store.cluster_id()
        await self._changes.make(self.read_all)

    def add_listener(self, listener: MetadataListener) -> None:
        """Call `listener` with every delta from now on; the topics up to now are in `image`. It
        must not raise."""
        self._listeners.append(listener)

    def add_config_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after a topic was created or its configs changed. It must not raise."""
        self._config_listeners.append(listener)

    def topic(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def has_partition(self, name: str, partition: int) -> bool:
        topic = self.topic(name)
        return topic is not None and 0 <= partition < topic.partitions

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        return self._by_id.get(topic_id)

    def topics(self) -> Sequence[Topic]:
        """All listed topics, sorted by name. The sequence is never modified; a change makes a new
        one."""
        return self._shown

    def check_name(self, name: str) -> None:
        """Check whether a new topic may have this name. Raises ApiError INVALID_TOPIC_EXCEPTION,
        TOPIC_ALREADY_EXISTS, or INVALID_REQUEST for Kafka's metadata log."""
        if name == CLUSTER_METADATA_TOPIC:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
            )
        check_topic_name(name)
        if name in self._by_name:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if is_internal(name):
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' is reserved for the broker."
            )
        other = self._collisions.get(collision_key(name))
        if other is not None:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"Topic '{name}' collides with existing topic: {other}",
            )

    def check_new(self, name: str, partitions: int) -> None:
        """Check whether a topic may be created. Raises ApiError as `check_name`, and
        INVALID_PARTITIONS or POLICY_VIOLATION (too many topics, or partitions of all topics)."""
        self.check_name(name)
        self._check_partitions(partitions)
        if len(self._by_name) - len(self._coordinator_topics) >= self._config.max_topics:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"The limit of {self._config.max_topics} topics (groupd.max.topics) is reached.",
            )
        self._check_room(partitions)

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
        """Create a topic; the caller has checked `configs`. Raises ApiError as `check_new`, and
        LogError if the store fails."""

        async def change() -> Topic:
            self.check_new(name, partitions)
            topic = Topic(self._fresh_id(), name, partitions, MappingProxyType(dict(configs)))
            topic = await self._put(topic, made_from=0)
            self._change([(None, topic)])
            return topic

        return await self._changes.make(change)

    async def delete(self, topic_id: TopicId) -> Topic:
        """Delete a topic, but not its logs, which the caller deletes. Raises ApiError
        UNKNOWN_TOPIC_ID or INVALID_TOPIC_EXCEPTION (internal), and LogError."""

        async def change() -> Topic:
            topic = self._existing(topic_id)
            await self._store.delete_topic(topic_id)
            self._change([(topic, None)])
            return topic

        return await self._changes.make(change)

    def check_growth(self, topic: Topic, count: int) -> None:
        """Check whether the topic may have `count` partitions. Raises ApiError INVALID_PARTITIONS,
        INVALID_TOPIC_EXCEPTION (internal) or POLICY_VIOLATION (too many partitions of all
        topics)."""
        self.refuse_internal(topic)
        if count == topic.partitions:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic already has {topic.partitions} partition(s).",
            )
        if count < topic.partitions:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"The topic {topic.name} currently has {topic.partitions} partition(s); "
                f"{count} would not be an increase.",
            )
        self._check_partitions(count)
        self._check_room(count - topic.partitions)

    async def grow(self, topic_id: TopicId, count: int) -> Topic:
        """Add partitions up to a total of `count`. Raises as `check_growth` and `delete`."""

        async def change() -> Topic:
            topic = self._existing(topic_id)
            self.check_growth(topic, count)
            return await self._replace(topic, replace(topic, partitions=count))

        return await self._changes.make(change)

    async def change_configs(
        self, topic_id: TopicId, altered: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> Topic:
        """Replace the topic's overrides by `altered(overrides)`, which may raise ApiError."""

        async def change() -> Topic:
            topic = self._existing(topic_id)
            configs = MappingProxyType(dict(altered(topic.configs)))
            return await self._replace(topic, replace(topic, configs=configs))

        return await self._changes.make(change)

    def _check_partitions(self, partitions: int) -> None:
        if partitions <= 0:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        most = self._config.max_partitions_per_topic
        if partitions > most:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"{partitions} partitions exceed the limit of {most}.",
            )

    def _check_room(self, added: int) -> None:
        most = self._config.max_partitions
        if self._partitions + added > most:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION,
                f"There are {self._partitions} partitions; {added} more would exceed the limit of "
                f"{most} (groupd.max.partitions).",
            )

    def _existing(self, topic_id: TopicId) -> Topic:
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise id_not_hosted()
        self.refuse_internal(topic)
        return topic

    @staticmethod
    def refuse_internal(topic: Topic) -> None:
        """Raises ApiError INVALID_TOPIC_EXCEPTION for a topic of the coordinators."""
        if topic.internal:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"The internal topic {topic.name} can not be changed.",
            )

    def _fresh_id(self) -> TopicId:
        # As in Kafka, the text form of an id never begins with "-". The zero id means "none".
        while True:
            topic_id = self._new_topic_id()
            if topic_id != NO_TOPIC_ID and topic_id not in self._by_id and topic_id[0] >> 2 != 62:
                return topic_id

    async def _put(self, topic: Topic, made_from: int) -> Topic:
        """Store the topic. `made_from`: the first of the partitions that this change creates."""
        made = range(made_from, min(topic.partitions, made_from + PARTITION_UNITS))
        units = [topic.unit(partition) for partition in made]
        configs = tuple(sorted(topic.configs.items()))
        stored = await self._store.put_topic(
            StoredTopic(topic.topic_id, topic.name, topic.partitions, configs, topic.first_epochs),
            MadePartitions(made_from, units) if units else None,
        )
        return replace(topic, first_epochs=stored.first_epochs)

    async def _replace(self, old: Topic, new: Topic) -> Topic:
        new = await self._put(new, old.partitions)
        self._change([(old, new)])
        return new

    async def read_all(self) -> None:
        """See `catalogue_changes.CatalogueCache`."""
        topics = [stored_topic(row) for row in await self._store.topics()]
        now = {topic.name: topic for topic in [*self._coordinator_topics, *topics]}
        names = sorted(now.keys() | self._by_name.keys())
        self._change([(self._by_name.get(name), now.get(name)) for name in names])
        self._read_before_created = {topic.topic_id for topic in topics}

    async def read(self, names: Sequence[str]) -> None:
        """See `catalogue_changes.CatalogueCache`; `names` are topic ids in hex. In a cluster, a row
        may be read before the change that created it. Then the next change of this topic counts as
        its creation."""
        ids = [bytes.fromhex(name) for name in names]
        stored = {row.topic_id: stored_topic(row) for row in await self._store.topics_by_id(ids)}
        changes: dict[str, tuple[Topic | None, Topic | None]] = {}
        made = False
        for topic_id in ids:
            old, new = self._by_id.get(topic_id), stored.get(topic_id)
            if new is None:
                self._read_before_created.discard(topic_id)
            elif topic_id in self._read_before_created:
                self._read_before_created.remove(topic_id)
                made = True
            elif old is None:
                self._read_before_created.add(topic_id)
            # The name may have passed from one topic to another.
            if old is not None and old.name not in changes:
                changes[old.name] = (old, None)
            if new is not None:
                changes[new.name] = (self._by_name.get(new.name), new)
        self._change(list(changes.values()), made=made)

    def _change(
        self, changes: Iterable[tuple[Topic | None, Topic | None]], *, made: bool = False
    ) -> None:
        """Replace topics by others of the same name (None: there is no topic), and notify the
        listeners. `made`: this version created a topic that is in memory already."""
        created, changed, deleted = set(), set(), []
        configured = False
        for old, new in changes:
            if old is not None:
                self._take_out(old)
            if new is not None:
                self._put_in(new)
                configured |= old is None or old.configs != new.configs
            if new is not None and (old is None or old.topic_id != new.topic_id):
                created.add(new.name)
            elif new is not None and old is not None and old.partitions != new.partitions:
                changed.add(new.name)
            if old is not None and (new is None or old.topic_id != new.topic_id):
                deleted.append((old.name, old.topic_id))
        names = sorted(self._by_name)
        self._shown = [self._by_name[name] for name in names if self._by_name[name].listed]
        if created or deleted or changed or made:
            version = self._changes.version
            self._version = self._version + 1 if version is None else version
            self.image = MetadataImage(
                [self._images[name] for name in names],
                self._version,
                self._version if created or made else self.image.created_version,
            )
            delta = MetadataDelta(
                self.image, frozenset(created), frozenset(changed), tuple(deleted)
            )
            for listener in self._listeners:
                listener(delta)
        if configured:
            for told in self._config_listeners:
                told()

    def _take_out(self, topic: Topic) -> None:
        del self._by_name[topic.name], self._by_id[topic.topic_id], self._images[topic.name]
        if not topic.internal:
            self._partitions -= topic.partitions
        if self._collisions.get(collision_key(topic.name)) == topic.name:
            del self._collisions[collision_key(topic.name)]

    def _put_in(self, topic: Topic) -> None:
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self._images[topic.name] = TopicImage(
            topic.topic_id, topic.name, topic.partitions, topic.internal
        )
        if not topic.internal:
            self._partitions += topic.partitions
        if "." in topic.name or "_" in topic.name:
            self._collisions[collision_key(topic.name)] = topic.name
