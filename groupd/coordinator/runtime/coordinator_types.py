"""The kinds of coordinators that keep their state in a log. Each is a row: its topic, its shards,
and for which keys clients look for it.

Topics, the plan of a cluster, FindCoordinator and the daemon use the rows of `COORDINATOR_TYPES`.
What the rows say is in stores and known to clients: names, ids and keys never change.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from re import ASCII
from re import compile as compile_re
from types import MappingProxyType

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import (
    COMPACTED_TOPIC,
    OFFSETS_TOPIC,
    compacted_log_name,
    offsets_log_name,
    partition_for,
)
from groupd.coordinator.core.types import Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.topics import RESOURCE_BROKER
from groupd.protocol.records.share_state_records import SharePartitionKey
from groupd.storage.units import GROUPS, SHARE_STATE, TRANSACTIONS, Unit

TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"

COMPACTED: Mapping[str, str] = MappingProxyType(
    {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
)


class CoordinatorTopic(Struct, frozen=True):
    """A topic that shows the logs of a coordinator. Its partitions are the shards. `topic_id`: the
    same in every installation, so that clients which remember it still find the topic after a move
    to another store. `log_name(partition)`: the name in the store of the log that the records are
    read from."""

    name: str
    topic_id: TopicId
    log_name: Callable[[int], str]


class KeyRights(Struct, frozen=True):
    """To find the coordinator of a key, a client needs DESCRIBE on the `resource` that the key
    names. `error`: the answer to a client without that right, with `message` in versions that have
    one key in a request."""

    resource: Resource
    error: ErrorCode
    message: str


def _whole(key: str) -> str:
    return key


class KeyType(Struct, frozen=True):
    """The keys that FindCoordinator knows by one key type. `number`: the key type. `since`: the
    first version of FindCoordinator that knows it; older versions are answered INVALID_REQUEST.
    `brokers_only`: the asking client needs CLUSTER_ACTION, whatever the key; without it the whole
    request fails. `rights` None: the keys need no right of their own. `hashed(key)`: the part of a
    key whose hash gives its shard; raises ApiError INVALID_REQUEST if `key` is not valid. It has to
    be cheap."""

    number: int
    since: int = 0
    brokers_only: bool = False
    rights: KeyRights | None = None
    hashed: Callable[[str], str] = _whole


class CoordinatorType(Struct, frozen=True):
    """A kind of coordinator. `kind`: the kind of its units in a cluster; each shard is one unit.
    `topic`: its log, which other clients may read. `compacted`: a second topic over the same
    shards, with the newest record of each key; only requests that name it get it. `configs`: the
    configs of both topics that clients are shown; they say how Kafka keeps the log short.
    `shards(config)`: the number of shards, from the setting `shards_setting`. `keys`: for which
    keys clients look for this coordinator. `level`: the level of a cluster's features from which on
    there are units of this kind; nodes that support only earlier levels do not know it."""

    kind: str
    topic: CoordinatorTopic
    shards_setting: str
    shards: Callable[[CoordinatorConfig], int]
    keys: KeyType
    compacted: CoordinatorTopic | None = None
    configs: Mapping[str, str] = COMPACTED
    level: int = 1

    @property
    def topics(self) -> tuple[CoordinatorTopic, ...]:
        return (self.topic,) if self.compacted is None else (self.topic, self.compacted)

    def topic_called(self, name: str) -> CoordinatorTopic:
        """Returns the topic of `topics` with this name."""
        return next(topic for topic in self.topics if topic.name == name)

    @property
    def shards_key(self) -> tuple[int, str, str]:
        """The key (resource, name, key) under which the store remembers with how many shards it was
        made."""
        return RESOURCE_BROKER, "", self.shards_setting

    def unit_of(self, key: str, config: CoordinatorConfig) -> Unit:
        """Returns the unit that a key belongs to. Raises what `keys.hashed` raises."""
        return Unit(self.kind, partition_for(self.keys.hashed(key), self.shards(config)))


def transactions_log_name(partition: int) -> str:
    """The store's name of the log of one shard of transactional ids."""
    return f"{TRANSACTIONS_TOPIC}.shard-{partition}"


GROUP_COORDINATOR = CoordinatorType(
    kind=GROUPS,
    topic=CoordinatorTopic(
        OFFSETS_TOPIC, bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667301"), offsets_log_name
    ),
    compacted=CoordinatorTopic(
        COMPACTED_TOPIC, bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667302"), compacted_log_name
    ),
    shards_setting="offsets.topic.num.partitions",
    shards=lambda config: config.offsets_topic_num_partitions,
    keys=KeyType(
        number=0,
        rights=KeyRights(
            Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."
        ),
    ),
)

TRANSACTION_COORDINATOR = CoordinatorType(
    kind=TRANSACTIONS,
    topic=CoordinatorTopic(
        TRANSACTIONS_TOPIC, bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667303"), transactions_log_name
    ),
    shards_setting="transaction.state.log.num.partitions",
    shards=lambda config: config.transaction_state_log_num_partitions,
    keys=KeyType(
        number=1,
        rights=KeyRights(
            Resource.TRANSACTIONAL_ID,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            "Transactional Id authorization failed.",
        ),
    ),
)


def share_partition_text(key: SharePartitionKey) -> str:
    """Returns the key by which clients look for a share-partition: group, topic id in base64url and
    partition (docs/spec/share-group.md#3)."""
    topic_id = urlsafe_b64encode(key.topic_id)[:22].decode()
    return f"{key.group_id}:{topic_id}:{key.partition}"


_SHARE_KEY = compile_re(r":[A-Za-z0-9_-]{22}:(0|[1-9][0-9]{0,9})", ASCII)


def _share_partition(key: str) -> str:
    """Returns the key of a share-partition, all of which is hashed. Raises ApiError."""
    # The group may have any characters, ":" too.
    group, topic_id, partition = ("", "", *key.rsplit(":", 2))[-3:]
    found = _SHARE_KEY.fullmatch(f":{topic_id}:{partition}")
    if found is None or int(found[1]) > _INT32_MAX or not group.strip():
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "The key is not of the form group:topicId:partition."
        )
    return key


_INT32_MAX = 2**31 - 1

SHARE_COORDINATOR = CoordinatorType(
    kind=SHARE_STATE,
    topic=CoordinatorTopic(
        SHARE_TOPIC,
        bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667304"),
        lambda partition: f"{SHARE_TOPIC}-{partition}",
    ),
    shards_setting="share.coordinator.state.topic.num.partitions",
    shards=lambda config: config.share_state_num_partitions,
    keys=KeyType(number=2, since=6, brokers_only=True, hashed=_share_partition),
    configs=MappingProxyType(
        {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "retention.ms": "-1",
            "segment.bytes": "104857600",
        }
    ),
    level=2,
)

COORDINATOR_TYPES: list[CoordinatorType] = [
    GROUP_COORDINATOR,
    TRANSACTION_COORDINATOR,
    SHARE_COORDINATOR,
]
"""All rows, in the order in which their logs are loaded. Transactions come after the groups, which
must be there to take their markers. `coordinator.daemon.parts.COORDINATORS` says which code makes
the coordinator of each row."""


def is_internal(name: str) -> bool:
    """Whether only the broker may create and write to a topic with this name."""
    return any(name == topic.name for one in COORDINATOR_TYPES for topic in one.topics)
