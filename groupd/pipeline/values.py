"""Turns the value of a record into the value of its struct column (`schema.VALUE_COLUMNS`).

The results are plain dicts in the shape that Arrow takes: times in microseconds, topic ids as text.
What a record does not have (a time, a topic id) is null, not the number that stands for it on the
wire.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any
from uuid import UUID

from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegexKey,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    Record,
)

FIRST_MS, LAST_MS = -62135596800000, 253402300799999
"""The first millisecond of the year 1 and the last of the year 9999, the range of Python's
calendar."""

_NO_TIME_MS = -1


class NotHeld(ValueError):
    """A record is well formed, but a column cannot hold what it says."""


def micros(time_ms: int, absent: int = _NO_TIME_MS) -> int | None:
    """Microseconds since 1970; None if the time is `absent`. Raises NotHeld."""
    if time_ms == absent:
        return None
    if not FIRST_MS <= time_ms <= LAST_MS:
        raise NotHeld(f"a time outside of the years 1 to 9999: {time_ms} ms")
    return time_ms * 1000


@lru_cache(maxsize=65536)
def topic_id_text(topic_id: TopicId) -> str | None:
    """The id as UUID text; None for the zero id."""
    return None if topic_id == NO_TOPIC_ID else str(UUID(bytes=topic_id))


def value_of(record: Record) -> dict[str, Any] | None:
    """The value of the struct column; None for a tombstone and for types without a column. The
    tombstone of a regular expression gives the expression, which is part of the key. Raises
    NotHeld."""
    value = record.value
    if isinstance(record.key, ConsumerGroupRegexKey):
        found = {"regex": record.key.regex}
        return found if value is None else found | _VALUES[type(value)](value)
    shape = _VALUES.get(type(value))
    return None if shape is None else shape(value)


def key_columns(record: Record) -> tuple[str | None, str | None, int | None]:
    """The member, topic and partition that the key of a record names."""
    key = record.key
    if isinstance(key, OffsetCommitKey):
        return None, key.topic, key.partition
    return getattr(key, "member_id", None), None, None


def _offset_commit(value: OffsetCommitValue) -> dict[str, Any]:
    return {
        "offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "commit_time": micros(value.commit_timestamp_ms),
        "expire_time": micros(value.expire_timestamp_ms),
        "topic_id": topic_id_text(value.topic_id),
    }


def _group_metadata(value: GroupMetadataValue) -> dict[str, Any]:
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "current_state_time": micros(value.current_state_timestamp_ms),
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "rebalance_timeout_ms": member.rebalance_timeout_ms,
                "session_timeout_ms": member.session_timeout_ms,
                "subscription": member.subscription,
                "assignment": member.assignment,
            }
            for member in value.members
        ],
    }


def _consumer_group(value: ConsumerGroupMetadataValue) -> dict[str, Any]:
    return {"epoch": value.epoch, "metadata_hash": value.metadata_hash}


def _member_metadata(value: ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    classic = None
    if value.classic is not None:
        classic = {
            "session_timeout_ms": value.classic.session_timeout_ms,
            "supported_protocols": [
                {"name": protocol.name, "metadata": protocol.metadata}
                for protocol in value.classic.supported_protocols
            ],
        }
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "subscribed_topic_names": list(value.subscribed_topic_names),
        "subscribed_topic_regex": value.subscribed_topic_regex,
        "rebalance_timeout_ms": value.rebalance_timeout_ms,
        "server_assignor": value.server_assignor,
        "classic": classic,
    }


def _target_metadata(value: ConsumerGroupTargetMetadataValue) -> dict[str, Any]:
    return {
        "assignment_epoch": value.assignment_epoch,
        # Records written before the field existed have none, which reads as 0.
        "assignment_time": micros(value.assignment_timestamp_ms, 0),
    }


def _target_member(value: ConsumerGroupTargetMemberValue) -> dict[str, Any]:
    return {
        "topics": [
            {"topic_id": topic_id_text(topic.topic_id), "partitions": list(topic.partitions)}
            for topic in value.topics
        ]
    }


def _owned(topics: tuple[OwnedTopic, ...]) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": topic_id_text(topic.topic_id),
            "partitions": list(topic.partitions),
            "assignment_epochs": None
            if topic.assignment_epochs is None
            else list(topic.assignment_epochs),
        }
        for topic in topics
    ]


def _current_member(value: ConsumerGroupCurrentMemberValue) -> dict[str, Any]:
    return {
        "member_epoch": value.member_epoch,
        "previous_member_epoch": value.previous_member_epoch,
        "state": value.state,
        "assigned": _owned(value.assigned),
        "pending_revocation": _owned(value.pending_revocation),
    }


def _regex(value: ConsumerGroupRegexValue) -> dict[str, Any]:
    return {
        "topics": list(value.topics),
        "version": value.version,
        "time": micros(value.timestamp_ms),
    }


_VALUES: dict[type[Any], Callable[[Any], dict[str, Any]]] = {
    OffsetCommitValue: _offset_commit,
    GroupMetadataValue: _group_metadata,
    ConsumerGroupMetadataValue: _consumer_group,
    ConsumerGroupMemberMetadataValue: _member_metadata,
    ConsumerGroupTargetMetadataValue: _target_metadata,
    ConsumerGroupTargetMemberValue: _target_member,
    ConsumerGroupCurrentMemberValue: _current_member,
    ConsumerGroupRegexValue: _regex,
}
