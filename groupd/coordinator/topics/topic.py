"""A topic of the cluster, created by clients or showing the logs of a coordinator. Also names:
which are legal, how a partition's log is named, and which unit a partition is in.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from operator import itemgetter
from types import MappingProxyType
from zlib import crc32

from msgspec import Struct, field

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.coordinator_types import COORDINATOR_TYPES, CoordinatorType
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.storage.log import FirstEpochs, StoredTopic
from groupd.storage.units import PARTITIONS, Unit

# The rules are Kafka's: 1-249 ASCII letters, digits, `.`, `_`, `-`; not `.` or `..`. Two names that
# differ only in `.` against `_` collide, because metric names cannot tell them apart.

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Kafka's log of its controllers. groupd has none, and no topic may have this name."""

PARTITION_UNITS = 64
"""The number of buckets of topic partitions. All partitions of a bucket have one leader. The number
can never change, because the nodes of a cluster must agree on it."""

MAX_NAME_LENGTH = 249
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def bucket_of(topic_id: TopicId, partition: int) -> Unit:
    """The bucket of a partition of a client's topic. Consecutive partitions of a topic are in
    consecutive buckets."""
    return Unit(PARTITIONS, (crc32(topic_id) + partition) % PARTITION_UNITS)


def check_topic_name(name: str) -> None:
    """Raises ApiError INVALID_TOPIC_EXCEPTION with the reason."""
    reason = _illegal(name)
    if reason is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def _illegal(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _LEGAL.issuperset(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    return None


def collision_key(name: str) -> str:
    """Topic names with equal keys collide."""
    return name.replace(".", "_")


def log_name(topic_id: TopicId, partition: int) -> str:
    """The store's name for the log of a partition of a client's topic."""
    return f"{topic_id.hex()}-{partition}"


class Topic(Struct, frozen=True):
    """A topic. `configs`: its overrides. `coordinator`: the coordinator whose logs it shows; None
    for a topic that clients have created."""

    topic_id: TopicId
    name: str
    partitions: int
    configs: Mapping[str, str] = field(default_factory=dict)
    coordinator: CoordinatorType | None = None
    first_epochs: FirstEpochs = ()

    @property
    def internal(self) -> bool:
        return self.coordinator is not None

    @property
    def listed(self) -> bool:
        """False for a compacted view, which is shown only to requests that name it."""
        return self.coordinator is None or self.name == self.coordinator.topic.name

    def unit(self, partition: int) -> Unit:
        """The unit of a partition. The log of a shard is led by the shard's coordinator."""
        if self.coordinator is None:
            return bucket_of(self.topic_id, partition)
        return Unit(self.coordinator.kind, partition)

    def log_name(self, partition: int) -> str:
        """The store's name for the log of a partition."""
        if self.coordinator is None:
            return log_name(self.topic_id, partition)
        return self.coordinator.topic_called(self.name).log_name(partition)

    def first_epoch(self, partition: int) -> int:
        """The epoch of its unit from which the leader epochs of a partition are counted."""
        if not self.first_epochs:
            return 0
        made = bisect_right(self.first_epochs, partition, key=itemgetter(0))
        first, epochs = self.first_epochs[made - 1] if made else (0, ())
        # After `PARTITION_UNITS` partitions the units repeat. Some partitions may have been added
        # by a node without a cluster, which has no epochs.
        place = (partition - first) % PARTITION_UNITS
        return epochs[place] if place < len(epochs) else 0


def coordinator_topics(config: CoordinatorConfig) -> list[Topic]:
    return [
        Topic(topic.topic_id, topic.name, one.shards(config), one.configs, one)
        for one in COORDINATOR_TYPES
        for topic in one.topics
    ]


def stored_topic(row: StoredTopic) -> Topic:
    """The topic in a row of the store."""
    configs = MappingProxyType(dict(row.configs))
    return Topic(row.topic_id, row.name, row.partitions, configs, first_epochs=row.first_epochs)
