"""Which topic names are legal, which are internal, and how a partition's log is named.

Rules are Kafka's: 1-249 ASCII letters, digits, `.`, `_`, `-`; not `.` or `..`; and two topics may
not differ only in `.` against `_`, because metric names cannot tell them apart.
"""

from __future__ import annotations

from zlib import crc32

from groupd.coordinator.core import partitioning
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.topics import RESOURCE_BROKER
from groupd.storage.units import GROUPS, PARTITIONS, TRANSACTIONS, Unit

OFFSETS_TOPIC = partitioning.OFFSETS_TOPIC
COMPACTED_TOPIC = partitioning.COMPACTED_TOPIC
OFFSETS_TOPIC_ID: TopicId = bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667301")
"""The same in every installation: clients that remember it survive a move to another store."""

COMPACTED_TOPIC_ID: TopicId = bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667302")

TRANSACTIONS_TOPIC = "__transaction_state"
TRANSACTIONS_TOPIC_ID: TopicId = bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667303")
LEGACY_TRANSACTIONS_LOG = f"{TRANSACTIONS_TOPIC}-0"
"""The store's name of the log of all transactional ids that there was before they had shards. It is
read and never written."""

OFFSETS_PARTITIONS = (RESOURCE_BROKER, "", "offsets.topic.num.partitions")
TRANSACTIONS_PARTITIONS = (RESOURCE_BROKER, "", "transaction.state.log.num.partitions")
"""The keys under which the store remembers with how many shards it was made."""

INTERNAL_TOPICS = frozenset(
    {OFFSETS_TOPIC, COMPACTED_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"}
)
"""Names that only the broker may create and write to."""

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Kafka's log of its controllers: there is none here, and no topic may be called so."""

offsets_log_name = partitioning.offsets_log_name

PARTITION_UNITS = 64
"""Buckets of topic partitions; all partitions of a bucket have one leader. Fixed for ever: nodes of
a cluster must agree on it."""

MAX_NAME_LENGTH = 249
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def unit_of(topic: str, topic_id: TopicId, partition: int) -> Unit:
    """The unit that a partition belongs to. Partitions of a topic that follow each other are in
    buckets that do; those of a coordinator's log are led by the coordinator."""
    if topic in (OFFSETS_TOPIC, COMPACTED_TOPIC):
        return Unit(GROUPS, partition)
    if topic == TRANSACTIONS_TOPIC:
        return Unit(TRANSACTIONS, partition)
    return Unit(PARTITIONS, (crc32(topic_id) + partition) % PARTITION_UNITS)


def transactions_log_name(partition: int) -> str:
    """The store's name of the log of a shard of transactional ids."""
    return f"{TRANSACTIONS_TOPIC}.shard-{partition}"


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
    """Names with equal keys collide."""
    return name.replace(".", "_")


def log_name(topic_id: TopicId, partition: int) -> str:
    """The store's name of a topic partition's log."""
    return f"{topic_id.hex()}-{partition}"


def stored_log_name(topic: str, topic_id: TopicId, partition: int) -> str:
    """The same as `log_name`, but it knows the topics of the coordinators' logs, too."""
    if topic == OFFSETS_TOPIC:
        return partitioning.offsets_log_name(partition)
    if topic == COMPACTED_TOPIC:
        return partitioning.compacted_log_name(partition)
    if topic == TRANSACTIONS_TOPIC:
        return transactions_log_name(partition)
    return log_name(topic_id, partition)
