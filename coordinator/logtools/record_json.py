"""Records <-> JSON, in the shape that Kafka's own message formatters print.

A key is `{"type": n, "data": {...}}`, a value `{"version": n, "data": {...}}` or null. Field names
are those of Kafka's schemas; bytes are base64 and ids Kafka's 22 characters of base64url. So what
kafka-console-consumer wrote with a formatter can be read back, and the other way round scripts
that know its output read ours.
"""

from __future__ import annotations

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any, NamedTuple

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records import schema
from groupd.protocol.records.schema import Record, RecordKey, RecordValue

Json = dict[str, Any]


class BadJson(ValueError):
    """An object that is no record; `str()` says why."""


class _Field(NamedTuple):
    attribute: str
    name: str
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


def id_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """Raises ValueError."""
    raw = urlsafe_b64decode(text + "==")
    if len(raw) != len(NO_TOPIC_ID):
        raise ValueError(f"{text} is no topic id")
    return raw


def _blob(attribute: str, name: str) -> _Field:
    return _Field(attribute, name, lambda raw: b64encode(raw).decode(), b64decode)


def _id(attribute: str = "topic_id", name: str = "topicId") -> _Field:
    return _Field(attribute, name, id_text, id_bytes)


def _ints(attribute: str, name: str) -> _Field:
    return _Field(
        attribute,
        name,
        lambda values: None if values is None else list(values),
        lambda values: None if values is None else tuple(values),
    )


def _structs(attribute: str, name: str, kind: type[Any]) -> _Field:
    return _Field(
        attribute,
        name,
        lambda items: [_write(item) for item in items],
        lambda items: tuple([_read(kind, item) for item in items]),
    )


_SCHEMAS: dict[type[Any], tuple[_Field, ...]] = {
    schema.OffsetCommitKey: (
        _Field("group", "group"),
        _Field("topic", "topic"),
        _Field("partition", "partition"),
    ),
    schema.GroupMetadataKey: (_Field("group", "group"),),
    schema.ConsumerGroupRegexKey: (
        _Field("group", "groupId"),
        _Field("regex", "regularExpression"),
    ),
    schema.OffsetCommitValue: (
        _Field("offset", "offset"),
        _Field("leader_epoch", "leaderEpoch"),
        _Field("metadata", "metadata"),
        _Field("commit_timestamp_ms", "commitTimestamp"),
        _Field("expire_timestamp_ms", "expireTimestamp"),
        _id(),
    ),
    schema.GroupMetadataMember: (
        _Field("member_id", "memberId"),
        _Field("group_instance_id", "groupInstanceId"),
        _Field("client_id", "clientId"),
        _Field("client_host", "clientHost"),
        _Field("rebalance_timeout_ms", "rebalanceTimeout"),
        _Field("session_timeout_ms", "sessionTimeout"),
        _blob("subscription", "subscription"),
        _blob("assignment", "assignment"),
    ),
    schema.GroupMetadataValue: (
        _Field("protocol_type", "protocolType"),
        _Field("generation", "generation"),
        _Field("protocol", "protocol"),
        _Field("leader", "leader"),
        _Field("current_state_timestamp_ms", "currentStateTimestamp"),
        _structs("members", "members", schema.GroupMetadataMember),
    ),
    schema.ConsumerGroupMetadataValue: (
        _Field("epoch", "epoch"),
        _Field("metadata_hash", "metadataHash"),
    ),
    schema.ConsumerGroupPartitionMetadataValue: (_blob("raw", "raw"),),
    schema.ClassicProtocol: (_Field("name", "name"), _blob("metadata", "metadata")),
    schema.ClassicMemberMetadata: (
        _Field("session_timeout_ms", "sessionTimeoutMs"),
        _structs("supported_protocols", "supportedProtocols", schema.ClassicProtocol),
    ),
    schema.ConsumerGroupMemberMetadataValue: (
        _Field("instance_id", "instanceId"),
        _Field("rack_id", "rackId"),
        _Field("client_id", "clientId"),
        _Field("client_host", "clientHost"),
        _ints("subscribed_topic_names", "subscribedTopicNames"),
        _Field("subscribed_topic_regex", "subscribedTopicRegex"),
        _Field("rebalance_timeout_ms", "rebalanceTimeoutMs"),
        _Field("server_assignor", "serverAssignor"),
        _Field(
            "classic",
            "classicMemberMetadata",
            lambda classic: None if classic is None else _write(classic),
            lambda data: None if data is None else _read(schema.ClassicMemberMetadata, data),
        ),
    ),
    schema.ConsumerGroupTargetMetadataValue: (
        _Field("assignment_epoch", "assignmentEpoch"),
        _Field("assignment_timestamp_ms", "assignmentTimestamp"),
    ),
    schema.AssignedTopic: (_id(), _ints("partitions", "partitions")),
    schema.ConsumerGroupTargetMemberValue: (
        _structs("topics", "topicPartitions", schema.AssignedTopic),
    ),
    schema.OwnedTopic: (
        _id(),
        _ints("partitions", "partitions"),
        _ints("assignment_epochs", "assignmentEpochs"),
    ),
    schema.ConsumerGroupCurrentMemberValue: (
        _Field("member_epoch", "memberEpoch"),
        _Field("previous_member_epoch", "previousMemberEpoch"),
        _Field("state", "state"),
        _structs("assigned", "assignedPartitions", schema.OwnedTopic),
        _structs("pending_revocation", "partitionsPendingRevocation", schema.OwnedTopic),
    ),
    schema.ConsumerGroupRegexValue: (
        _ints("topics", "topics"),
        _Field("version", "version"),
        _Field("timestamp_ms", "timestamp"),
    ),
}
_GROUP_KEY = (_Field("group", "groupId"),)
_MEMBER_KEY = (_Field("group", "groupId"), _Field("member_id", "memberId"))

_KINDS: dict[int, tuple[type[Any], type[Any]]] = {
    0: (schema.OffsetCommitKey, schema.OffsetCommitValue),
    1: (schema.OffsetCommitKey, schema.OffsetCommitValue),
    2: (schema.GroupMetadataKey, schema.GroupMetadataValue),
    3: (schema.ConsumerGroupMetadataKey, schema.ConsumerGroupMetadataValue),
    4: (schema.ConsumerGroupPartitionMetadataKey, schema.ConsumerGroupPartitionMetadataValue),
    5: (schema.ConsumerGroupMemberMetadataKey, schema.ConsumerGroupMemberMetadataValue),
    6: (schema.ConsumerGroupTargetMetadataKey, schema.ConsumerGroupTargetMetadataValue),
    7: (schema.ConsumerGroupTargetMemberKey, schema.ConsumerGroupTargetMemberValue),
    8: (schema.ConsumerGroupCurrentMemberKey, schema.ConsumerGroupCurrentMemberValue),
    16: (schema.ConsumerGroupRegexKey, schema.ConsumerGroupRegexValue),
}


def key_json(number: int, key: RecordKey) -> Json:
    """`number`: the record type as it stands in the encoded key."""
    return {"type": number, "data": _write(key)}


def value_json(version: int, value: RecordValue) -> Json:
    return {"version": version, "data": _write(value)}


def record_of(key: Any, value: Any) -> Record | None:
    """The record of the JSON of a key and a value; None for a type that is not held here.
    Raises BadJson."""
    try:
        number = key["type"]
        if number not in _KINDS:
            return None
        key_kind, value_kind = _KINDS[number]
        decoded = _read(key_kind, key["data"])
        return Record(decoded, None if value is None else _read(value_kind, value["data"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadJson(f"no record: {type(error).__name__}: {error}") from error


def _fields(kind: type[Any]) -> tuple[_Field, ...]:
    found = _SCHEMAS.get(kind)
    if found is None:
        # Keys that name a group, or a group and a member.
        found = _MEMBER_KEY if "member_id" in kind.__slots__ else _GROUP_KEY
    return found


def _write(item: Any) -> Json:
    out = {}
    for attribute, name, write, _ in _fields(type(item)):
        value = getattr(item, attribute)
        out[name] = value if write is None else write(value)
    return out


def _read(kind: type[Any], data: Json) -> Any:
    """Fields that older versions do not have take their defaults."""
    given = {}
    for attribute, name, _, read in _fields(kind):
        if name in data:
            given[attribute] = data[name] if read is None else read(data[name])
    return kind(**given)
