"""Which topic names are legal, how a partition's log is named, and which unit it is in.

Rules are Kafka's: 1-249 ASCII letters, digits, `.`, `_`, `-`; not `.` or `..`; and two topics may
not differ only in `.` against `_`, because metric names cannot tell them apart.
"""

from __future__ import annotations

from zlib import crc32

from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.storage.units import PARTITIONS, Unit

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""Kafka's log of its controllers: there is none here, and no topic may be called so."""

PARTITION_UNITS = 64
"""Buckets of topic partitions; all partitions of a bucket have one leader. Fixed for ever: nodes of
a cluster must agree on it."""

MAX_NAME_LENGTH = 249
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def bucket_of(topic_id: TopicId, partition: int) -> Unit:
    """The bucket that a partition of a client's topic is in. Partitions of a topic that follow each
    other are in buckets that do."""
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
    """Names with equal keys collide."""
    return name.replace(".", "_")


def log_name(topic_id: TopicId, partition: int) -> str:
    """The store's name of the log of a partition of a client's topic."""
    return f"{topic_id.hex()}-{partition}"
