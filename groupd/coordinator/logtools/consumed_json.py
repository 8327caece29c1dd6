"""Reads a consumed copy as JSON objects, one after the other: the output of kafka-console-consumer
with OffsetsMessageFormatter and GroupMetadataMessageFormatter, or of `groupd log dump --format
json`.

The formatters leave out offsets, times and transactions. A consumer at read_committed shows only
committed records, in order, and the file must hold exactly those. A dump has everything.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from groupd.coordinator.logtools.entries import LogEntry, entry_of
from groupd.coordinator.logtools.errors import LogToolError
from groupd.coordinator.logtools.latest import Kept, LatestRecords, Tally
from groupd.coordinator.logtools.record_json import BadJson, record_of
from groupd.coordinator.logtools.record_types import MARKER
from groupd.protocol.records.batch import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    BatchRecord,
    MarkerRecord,
)
from groupd.protocol.records.batch_builder import new_header
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import GroupMetadataValue, OffsetCommitValue, Record

_CHUNK = 64 * 1024
_OBJECT_CHARS_MAX = 64 * 1024 * 1024


def latest_of_json(path: Path, groups: frozenset[str], tally: Tally) -> list[Kept]:
    """The same as `latest.latest_of`. The partitions are those that the objects name, if they
    do."""
    logs: dict[int, LatestRecords] = {}
    try:
        for number, found in enumerate(_objects(path), start=1):
            where = f"{path}, object {number}"
            try:
                entry = _entry(found, number)
            except (BadJson, KeyError, TypeError, ValueError, AttributeError) as error:
                raise LogToolError(f"{where}: {error}") from error
            partition = int(found.get("partition", -1))
            if partition not in logs:
                logs[partition] = LatestRecords(f"{path}", groups, tally)
            logs[partition].add(entry)
    except OSError as error:
        raise LogToolError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LogToolError(f"{path}: is not UTF-8 text") from error
    return [one for latest in logs.values() for one in latest.kept()]


def _entry(found: dict[str, Any], number: int) -> LogEntry:
    """`number` stands in for the offset when the object has none."""
    offset = found.get("offset", number)
    if found.get("type") == MARKER:
        header = _header(found, offset, int(found["timestamp"]), CONTROL | TRANSACTIONAL)
        marker = MarkerRecord(found["marker"] == "commit", found["coordinatorEpoch"])
        raw = BatchRecord(offset, header.max_timestamp_ms, None, None)
        return LogEntry(header, raw, MARKER, marker=marker)
    key, value = _encoded(found)
    time_ms = int(found["timestamp"]) if "timestamp" in found else _time_of(found)
    header = _header(found, offset, time_ms, TRANSACTIONAL if found.get("transactional") else 0)
    return entry_of(header, BatchRecord(offset, time_ms, key, value))


def _encoded(found: dict[str, Any]) -> tuple[bytes, bytes | None]:
    key, value = found["key"], found["value"]
    if "raw" in key:
        return b64decode(key["raw"]), None if value is None else b64decode(value["raw"])
    record = record_of(key, value)
    if record is None:
        # This type is not held here: it is only counted, which needs no more than its number.
        return int(key["type"]).to_bytes(2, "big") + b"\xff\xff", None
    return encode_key(record.key), encode_value(record)


def _time_of(found: dict[str, Any]) -> int:
    record: Record | None = record_of(found["key"], found["value"])
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
    """The objects of the file, with nothing or white space between them; one in memory at a
    time."""
    decoder = json.JSONDecoder()  # msgspec does not tell where an object ends
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
