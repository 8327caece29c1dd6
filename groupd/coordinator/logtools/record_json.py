"""Converts records to JSON and back, in the shape that Kafka's own message formatters print. Also
reads a copy that kafka-console-consumer has made with OffsetsMessageFormatter.
"""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Struct

from groupd.coordinator.logtools.entries import (
    MARKER,
    LogEntry,
    LoggedState,
    LogToolError,
    entry_of,
)
from groupd.coordinator.logtools.latest import Kept, LatestEntries, LatestRecords, Tally
from groupd.coordinator.logtools.logs import SHARE_STATE_LOG, ToolLog
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records import schema
from groupd.protocol.records.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    BatchRecord,
    MarkerRecord,
)
from groupd.protocol.records.batch_builder import new_header
from groupd.protocol.records.codec import TYPES_BY_PREFIX, encode_key, encode_value
from groupd.protocol.records.schema import (
    GroupMetadataValue,
    OffsetCommitValue,
    Record,
    RecordKey,
    RecordValue,
)
from groupd.protocol.records.share_state_records import (
    SNAPSHOT,
    UPDATE,
    SharePartitionKey,
    ShareSnapshot,
    ShareUpdate,
)
from groupd.protocol.records.share_state_records import encode_record as encode_state

# A key is `{"type": n, "data": {...}}`, a value `{"version": n, "data": {...}}` or null. Field
# names are those of Kafka's schemas; bytes are base64, and ids are Kafka's 22 characters of
# base64url. So the output of kafka-console-consumer with a formatter can be read here, and scripts
# that know that output can read ours.

Json = dict[str, Any]

_TOPIC_ID = "topic_id"
"""Fields with this name are written as ids, as Kafka does; other bytes are base64."""

_DELETING = "deleting"
"""The field with pairs of topic id and topic name."""


class BadJson(ValueError):
    """The object is not a record; `str()` says why."""


def id_text(topic_id: bytes) -> str:
    """A topic id as Kafka writes it."""
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def id_bytes(text: str) -> bytes:
    """The bytes of a topic id that `id_text` wrote. Raises ValueError."""
    raw = urlsafe_b64decode(text + "==")
    if len(raw) != len(NO_TOPIC_ID):
        raise ValueError(f"{text} is no topic id")
    return raw


def _classes(number: int) -> tuple[Any, Any] | None:
    """The key class and the value class of a record type, which are named XKey and XValue in one
    module; None for a type that is not held here."""
    for one in TYPES_BY_PREFIX.values():
        if one.number == number:
            name = one.key.__name__.removesuffix("Key") + "Value"
            return one.key, getattr(sys.modules[one.key.__module__], name)
    return None


def key_json(number: int, key: RecordKey | SharePartitionKey) -> Json:
    """The key as JSON. `number`: the record type in the encoded key."""
    return {"type": number, "data": _write(key)}


def value_json(version: int, value: RecordValue | ShareSnapshot | ShareUpdate) -> Json:
    return {"version": version, "data": _write(value)}


_STATE_VALUES = {SNAPSHOT: ShareSnapshot, UPDATE: ShareUpdate}


def _is_state(key: Any) -> bool:
    """Whether the JSON of a key is from the log of share groups' state. Its type numbers are also
    those of offset commits, whose keys have no topic id."""
    return isinstance(key, dict) and "topicId" in key.get("data", ())


def record_of(key: Any, value: Any) -> Record | LoggedState | None:
    """The record from the JSON of its key and value; None for a type that is not held here. Raises
    BadJson."""
    try:
        number = key["type"]
        is_state = _is_state(key)
        classes = (SharePartitionKey, _STATE_VALUES[number]) if is_state else _classes(number)
        if classes is None:
            return None
        key_kind, value_kind = classes
        decoded = _read(key_kind, key["data"])
        found = None if value is None else _read(value_kind, value["data"])
        return LoggedState(decoded, found) if is_state else Record(decoded, found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadJson(f"no record: {type(error).__name__}: {error}") from error


_NAMES = {
    (schema.OffsetCommitKey, "group"): "group",
    (schema.GroupMetadataKey, "group"): "group",
    (schema.ConsumerGroupRegexKey, "regex"): "regularExpression",
    (schema.GroupMetadataMember, "rebalance_timeout_ms"): "rebalanceTimeout",
    (schema.GroupMetadataMember, "session_timeout_ms"): "sessionTimeout",
    (schema.ConsumerGroupMemberMetadataValue, "classic"): "classicMemberMetadata",
    (schema.ConsumerGroupTargetMemberValue, "topics"): "topicPartitions",
    (schema.ConsumerGroupCurrentMemberValue, "assigned"): "assignedPartitions",
    (schema.ConsumerGroupCurrentMemberValue, "pending_revocation"): "partitionsPendingRevocation",
    (schema.ShareGroupTargetMemberValue, "topics"): "topicPartitions",
    (schema.ShareGroupCurrentMemberValue, "assigned"): "assignedPartitions",
    (schema.ShareGroupStatePartitionsValue, "initializing"): "initializingTopics",
    (schema.ShareGroupStatePartitionsValue, "initialized"): "initializedTopics",
    (schema.ShareGroupStatePartitionsValue, _DELETING): "deletingTopics",
    (ShareSnapshot, "batches"): "stateBatches",
    (ShareUpdate, "batches"): "stateBatches",
}
"""Fields whose name in Kafka's schemas is not the one that `_name_of` would make."""


def _name_of(kind: type[Any], attribute: str) -> str:
    """A field's name in JSON: `member_id` -> memberId, `commit_timestamp_ms` -> commitTimestamp,
    `group` -> groupId."""
    known = _NAMES.get((kind, attribute))
    if known is not None:
        return known
    if attribute == "group":
        return "groupId"
    first, *rest = attribute.removesuffix("_ms").split("_")
    if attribute.endswith("_ms") and "timestamp" not in (first, *rest):
        rest.append("ms")
    return first + "".join(word.capitalize() for word in rest)


class _JsonField(NamedTuple):
    attribute: str
    name: str
    read: Callable[[Any], Any]


@cache
def _fields(kind: type[Any]) -> tuple[_JsonField, ...]:
    return tuple(
        _JsonField(attribute, _name_of(kind, attribute), _reader(hint, attribute))
        for attribute, hint in get_type_hints(kind).items()
    )


def _reader(hint: Any, attribute: str) -> Callable[[Any], Any]:
    """A function that makes the value of a field from JSON. `hint`: the field's type."""
    inner = [one for one in get_args(hint) if one not in (NoneType, Ellipsis)]
    if get_origin(hint) is UnionType:
        some = _reader(inner[0], attribute)
        return lambda data: None if data is None else some(data)
    if attribute == _DELETING:
        return lambda data: tuple((id_bytes(one["topicId"]), one["topicName"]) for one in data)
    if get_origin(hint) is tuple:
        item = _reader(inner[0], attribute)
        return lambda data: tuple([item(one) for one in data])
    if hint is bytes:
        return id_bytes if attribute == _TOPIC_ID else b64decode
    if isinstance(hint, type) and issubclass(hint, Struct):
        return lambda data: _read(hint, data)
    return lambda data: data


def _read(kind: Any, data: Json) -> Any:
    """Fields that older versions do not have get their defaults."""
    return kind(
        **{one.attribute: one.read(data[one.name]) for one in _fields(kind) if one.name in data}
    )


def _write(item: Any) -> Json:
    kind: Any = type(item)
    return {one.name: _plain(getattr(item, one.attribute), one.attribute) for one in _fields(kind)}


def _plain(value: Any, attribute: str) -> Any:
    if isinstance(value, bytes):
        return id_text(value) if attribute == _TOPIC_ID else b64encode(value).decode()
    if attribute == _DELETING:
        return [{"topicId": id_text(topic_id), "topicName": name} for topic_id, name in value]
    if isinstance(value, tuple):
        return [_plain(item, attribute) for item in value]
    return _write(value) if isinstance(value, Struct) else value


# Consumed copies ----------------------------------------------------------------------------

# The formatters leave out offsets, times and transactions. A consumer at read_committed shows only
# committed records, in order, and the file must contain exactly these. A dump has everything.

_CHUNK = 64 * 1024
_OBJECT_CHARS_MAX = 64 * 1024 * 1024


def latest_of_json(
    path: Path, groups: frozenset[str], tally: Tally, kind: type[LatestEntries] = LatestRecords
) -> list[Kept]:
    """Like `latest.latest_of`, for a file of JSON objects. Raises LogToolError."""
    logs: dict[int, LatestEntries] = {}
    for partition, entry in _entries(path, kind.log):
        if partition not in logs:
            logs[partition] = kind(f"{path}", groups, tally)
        logs[partition].add(entry)
    return [one for latest in logs.values() for one in latest.kept()]


def _entries(path: Path, log: ToolLog) -> Iterator[tuple[int, LogEntry]]:
    """The entries of one log in a file of JSON objects, each with the partition that its object
    names, -1 if it names none. Raises LogToolError."""
    try:
        for number, found in enumerate(_objects(path), start=1):
            try:
                if _is_state(found.get("key")) == (log == SHARE_STATE_LOG):
                    yield int(found.get("partition", -1)), _entry(found, number, log)
            except (BadJson, KeyError, TypeError, ValueError, AttributeError) as error:
                raise LogToolError(f"{path}, object {number}: {error}") from error
    except OSError as error:
        raise LogToolError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LogToolError(f"{path}: is not UTF-8 text") from error


def _entry(found: dict[str, Any], number: int, log: ToolLog) -> LogEntry:
    """The entry of one object. `number` is its offset if the object has none."""
    offset = found.get("offset", number)
    if found.get("type") == MARKER:
        header = _header(found, offset, int(found["timestamp"]), CONTROL | TRANSACTIONAL)
        marker = MarkerRecord(found["marker"] == "commit", found["coordinatorEpoch"])
        raw = BatchRecord(offset, header.max_timestamp_ms, None, None)
        return LogEntry(header, raw, MARKER, marker=marker)
    key, value = _encoded(found)
    time_ms = int(found["timestamp"]) if "timestamp" in found else _time_of(found)
    header = _header(found, offset, time_ms, TRANSACTIONAL if found.get("transactional") else 0)
    return entry_of(header, BatchRecord(offset, time_ms, key, value), log)


def _encoded(found: dict[str, Any]) -> tuple[bytes, bytes | None]:
    key, value = found["key"], found["value"]
    if "raw" in key:
        return b64decode(key["raw"]), None if value is None else b64decode(value["raw"])
    record = record_of(key, value)
    if isinstance(record, LoggedState):
        return encode_state(*record)
    if record is None:
        # This type is not held here: it is only counted, and its type number is enough for that.
        return int(key["type"]).to_bytes(2, "big") + b"\xff\xff", None
    return encode_key(record.key), encode_value(record)


def _time_of(found: dict[str, Any]) -> int:
    record = record_of(found["key"], found["value"])
    value = None if record is None else record.value
    if isinstance(value, OffsetCommitValue):
        return value.commit_timestamp_ms
    if isinstance(value, GroupMetadataValue):
        return value.current_state_timestamp_ms
    return -1


def _header(found: dict[str, Any], offset: int, time_ms: int, attributes: int) -> BatchHeader:
    return new_header(offset, offset, time_ms, time_ms)._replace(
        attributes=attributes,
        producer_id=found.get("producerId", -1),
        producer_epoch=found.get("producerEpoch", -1),
    )


def _objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of the file, with nothing or white space between them. Only one is in memory at a
    time."""
    decoder = json.JSONDecoder()  # Not msgspec, which does not tell where an object ends.
    text, wanted = "", _CHUNK
    with path.open(encoding="utf-8") as file:
        more = True
        while more or text:
            if more and len(text) < wanted:
                chunk = file.read(wanted)
                more = bool(chunk)
                text = (text + chunk).lstrip()
                if not text:
                    continue
            try:
                found, end = decoder.raw_decode(text)
            except json.JSONDecodeError as error:
                if not more or wanted > _OBJECT_CHARS_MAX:
                    raise LogToolError(f"{path}: is not JSON: {error}") from error
                wanted *= 2
                continue
            if not isinstance(found, dict):
                raise LogToolError(f"{path}: holds more than objects: {text[:40]!r}")
            yield found
            text, wanted = text[end:].lstrip(), _CHUNK
