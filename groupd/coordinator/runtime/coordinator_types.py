"""The kinds of coordinators that keep their state in a log, each a row: its topic, its shards, and
for which keys clients look for it.

Topics, the plan of a cluster, FindCoordinator and the daemon go over `COORDINATOR_TYPES`. What the
rows say is in stores and known to clients: names, ids and keys never change.
"""

from __future__ import annotations

from collections.abc import Callable

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
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.topics import RESOURCE_BROKER
from groupd.storage.units import GROUPS, TRANSACTIONS, Unit

TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
"""Internal in Kafka; here no coordinator keeps it."""


class CoordinatorTopic(Struct, frozen=True):
    """A topic that shows the logs of a coordinator. Its partitions are the shards. `topic_id`: the
    same in every installation, so clients that remember it survive a move to another store.
    `log_name(partition)`: the store's name of what its records are read from."""

    name: str
    topic_id: TopicId
    log_name: Callable[[int], str]


class KeyRights(Struct, frozen=True):
    """To find the coordinator of a key, a client needs DESCRIBE on the `resource` that the key
    names. `error`, with `message` in versions about one key: the answer without it."""

    resource: Resource
    error: ErrorCode
    message: str


class CoordinatorType(Struct, frozen=True):
    """A kind of coordinator.

    `kind`: of its units in a cluster, of which each shard is one. `topic`: its log, which others
    may read. `compacted`: a second topic over the same shards, with the newest record of each key;
    only requests that name it get it. `shards(config)`: the number of shards, from the setting
    `shards_setting`. `key_type`: of FindCoordinator; `key_rights` None: the keys need no right of
    their own. `shard_of_key(key, shards)`: the shard of a key; raises ApiError INVALID_REQUEST for
    what is no such key.
    """

    kind: str
    topic: CoordinatorTopic
    shards_setting: str
    shards: Callable[[CoordinatorConfig], int]
    key_type: int
    key_rights: KeyRights | None = None
    compacted: CoordinatorTopic | None = None
    shard_of_key: Callable[[str, int], int] = partition_for

    @property
    def topics(self) -> tuple[CoordinatorTopic, ...]:
        return (self.topic,) if self.compacted is None else (self.topic, self.compacted)

    def topic_called(self, name: str) -> CoordinatorTopic:
        """The one of `topics` that has the name."""
        return next(topic for topic in self.topics if topic.name == name)

    @property
    def shards_key(self) -> tuple[int, str, str]:
        """The config (resource, name, key) in which the store remembers with how many shards it was
        made."""
        return RESOURCE_BROKER, "", self.shards_setting

    def unit_of(self, key: str, config: CoordinatorConfig) -> Unit:
        """The unit that a key belongs to. Raises as `shard_of_key`."""
        return Unit(self.kind, self.shard_of_key(key, self.shards(config)))


def transactions_log_name(partition: int) -> str:
    """The store's name of the log of a shard of transactional ids."""
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
    key_type=0,
    key_rights=KeyRights(
        Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."
    ),
)

TRANSACTION_COORDINATOR = CoordinatorType(
    kind=TRANSACTIONS,
    topic=CoordinatorTopic(
        TRANSACTIONS_TOPIC, bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667303"), transactions_log_name
    ),
    shards_setting="transaction.state.log.num.partitions",
    shards=lambda config: config.transaction_state_log_num_partitions,
    key_type=1,
    key_rights=KeyRights(
        Resource.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "Transactional Id authorization failed.",
    ),
)

COORDINATOR_TYPES: list[CoordinatorType] = [GROUP_COORDINATOR, TRANSACTION_COORDINATOR]
"""All rows, in the order in which their logs are loaded: transactions after the groups, which take
their markers. `coordinator.daemon.parts.COORDINATORS` says who makes the coordinator of each."""


def is_internal(name: str) -> bool:
    """Whether only the broker may create and write to a topic of this name."""
    topics = [topic.name for coordinator in COORDINATOR_TYPES for topic in coordinator.topics]
    return name == SHARE_TOPIC or name in topics
