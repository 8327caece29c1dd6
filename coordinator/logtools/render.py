"""Entries as lines: for people, and as JSON objects."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import UTC, datetime
from typing import Any

from groupd.coordinator.logtools.entries import Entry
from groupd.coordinator.logtools.record_json import key_json, value_json


def json_line(log: str, partition: int, entry: Entry) -> str:
    """One object: where and when, then key and value in the shape of Kafka's formatters. What is
    not decoded stands as base64 under `raw`."""
    raw = entry.raw
    line: dict[str, Any] = {
        "log": log,
        "partition": partition,
        "offset": raw.offset,
        "timestamp": raw.timestamp_ms,
        "type": entry.kind,
    }
    if entry.producer is not None:
        line["producerId"], line["producerEpoch"] = entry.producer
        line["transactional"] = entry.header.is_transactional
    if entry.marker is not None:
        line["marker"] = "commit" if entry.marker.committed else "abort"
        line["coordinatorEpoch"] = entry.marker.coordinator_epoch
    elif entry.record is not None and entry.number is not None:
        line["tombstone"] = entry.record.value is None
        line["key"] = key_json(entry.number, entry.record.key)
        line["value"] = None
        if entry.record.value is not None:
            line["value"] = value_json(_version(raw.value), entry.record.value)
    else:
        line["tombstone"] = raw.value is None
        if entry.group is not None:
            line["group"] = entry.group
        line["key"] = _raw(raw.key) if entry.number is None else {"type": entry.number}
        if entry.number is not None:
            line["key"]["raw"] = b64encode(raw.key or b"").decode()
        line["value"] = _raw(raw.value)
    if entry.error is not None:
        line["error"] = entry.error
    return json.dumps(line, ensure_ascii=False)


def text_line(log: str, entry: Entry) -> str:
    """`log@offset time type key=... -> value=...` with the fields' names in Kafka's schemas."""
    raw = entry.raw
    parts = [f"{log}@{raw.offset}", time_text(raw.timestamp_ms), entry.kind]
    if entry.marker is not None:
        parts.append("COMMIT" if entry.marker.committed else "ABORT")
        parts.append(f"coordinatorEpoch={entry.marker.coordinator_epoch}")
    elif entry.record is not None and entry.number is not None:
        parts.append(_fields(key_json(entry.number, entry.record.key)["data"]))
        parts.append("->")
        if entry.record.value is None:
            parts.append("<deleted>")
        else:
            parts.append(_fields(value_json(0, entry.record.value)["data"]))
    else:
        if entry.group is not None:
            parts.append(f"group={_text(entry.group)}")
        parts.append(f"key=<{len(raw.key or b'')} bytes>")
        parts.append("<deleted>" if raw.value is None else f"value=<{len(raw.value)} bytes>")
    if entry.producer is not None:
        kind = "transaction" if entry.header.is_transactional else "producer"
        parts.append(f"{kind}={entry.producer[0]}/{entry.producer[1]}")
    if entry.error is not None:
        parts.append(f"ERROR {entry.error}")
    return " ".join(parts)


def time_text(timestamp_ms: int) -> str:
    """UTC, or the number when it is no time."""
    try:
        time = datetime.fromtimestamp(timestamp_ms / 1000, UTC) if timestamp_ms >= 0 else None
    except (ValueError, OverflowError, OSError):
        time = None
    if time is None:
        return str(timestamp_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _version(value: bytes | None) -> int:
    return int.from_bytes((value or b"\0\0")[:2], "big", signed=True)


def _raw(data: bytes | None) -> dict[str, Any] | None:
    return None if data is None else {"raw": b64encode(data).decode()}


def _fields(data: dict[str, Any]) -> str:
    shown = []
    for name, value in data.items():
        if name.endswith("Timestamp") and isinstance(value, int):
            shown.append(f"{name}={time_text(value)}")
        elif isinstance(value, str):
            shown.append(f"{name}={_text(value)}")
        else:
            shown.append(f"{name}={json.dumps(value, ensure_ascii=False)}")
    return " ".join(shown)


def _text(value: str) -> str:
    """Bare when it cannot be mistaken, else as a JSON string: one record stays one line."""
    plain = value.isprintable() and value and not set(' "=') & set(value)
    return value if plain else json.dumps(value)
