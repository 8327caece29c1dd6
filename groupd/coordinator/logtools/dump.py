"""`groupd log dump`: the entries of a log as lines, with one batch in memory at a time."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.logtools.entries import CHOICES, MARKER, LogEntry, LogToolError, entries_of
from groupd.coordinator.logtools.record_json import key_json, value_json
from groupd.coordinator.logtools.segments import LogSource, log_name
from groupd.protocol.records.batch import BatchHeader, CorruptBatch
from groupd.protocol.records.compression import UnsupportedCodec


async def dump_lines(
    sources: Sequence[LogSource],
    make_selection: Callable[[], Selection],
    partitions: Sequence[int] | None,
    *,
    as_json: bool,
) -> AsyncIterator[str]:
    """The lines of all wanted partitions of the logs, one after the other, each in the order of its
    offsets. Raises LogToolError, also if no log has one of `partitions`."""
    there = [await source.partitions() for source in sources]
    known = sorted({partition for found in there for partition in found})
    for partition in sorted(set(partitions or ()).difference(known)):
        raise LogToolError(f"--partition {partition}: there is no such log; there are {known}")
    for source, found in zip(sources, there, strict=True):
        for partition in found if partitions is None else partitions:
            if partition in found:
                async for line in _lines(source, partition, make_selection(), as_json):
                    yield line


async def _lines(
    source: LogSource, partition: int, selection: Selection, as_json: bool
) -> AsyncIterator[str]:
    log = log_name(partition, source.log)
    # A transaction must be followed from its first record on.
    from_ms = None if selection.groups else selection.from_ms
    async for batch in source.batches(partition, from_ms):
        if not selection.may_hold(batch.header):
            continue
        try:
            for entry in selection.of(entries_of(batch, source.log)):
                yield json_line(log, partition, entry) if as_json else text_line(log, entry)
        except (CorruptBatch, UnsupportedCodec) as error:
            raise LogToolError(f"{log} at offset {batch.header.base_offset}: {error}") from None


def parse_types(text: str | None) -> frozenset[str]:
    """The record types in a comma-separated list; an empty list means all. Raises LogToolError."""
    names = frozenset(part.strip() for part in (text or "").split(",") if part.strip())
    for name in sorted(names - set(CHOICES)):
        raise LogToolError(f"--type {name}: must be one of {', '.join(CHOICES)}")
    return names


class Selection(Struct):
    """Which entries are shown. `from_ms` is inclusive, `to_ms` exclusive. Markers have no group:
    with `groups`, a marker is shown if its transaction wrote to one of these groups. So one object
    serves only one log."""

    groups: frozenset[str] = frozenset()
    types: frozenset[str] = frozenset()
    from_ms: int | None = None
    to_ms: int | None = None
    _producers: set[int] = field(default_factory=set)

    @property
    def everything(self) -> bool:
        return not (self.groups or self.types) and self.from_ms is None and self.to_ms is None

    def may_hold(self, header: BatchHeader) -> bool:
        """False if no record of the batch can be selected. Transactions must be followed, so only
        batches outside transactions are skipped."""
        if self.from_ms is None or header.is_transactional:
            return True
        return header.max_timestamp_ms >= self.from_ms

    def of(self, entries: Iterable[LogEntry]) -> Iterable[LogEntry]:
        return (entry for entry in entries if self._wants(entry))

    def _wants(self, entry: LogEntry) -> bool:
        if self.groups and not self._of_group(entry):
            return False
        if self.types and entry.kind not in self.types:
            return False
        time_ms = entry.raw.timestamp_ms
        if self.from_ms is not None and time_ms < self.from_ms:
            return False
        return self.to_ms is None or time_ms < self.to_ms

    def _of_group(self, entry: LogEntry) -> bool:
        producer_id = entry.header.producer_id
        if entry.kind == MARKER:
            found = producer_id in self._producers
            self._producers.discard(producer_id)
            return found
        if entry.group not in self.groups:
            return False
        if entry.header.is_transactional:
            self._producers.add(producer_id)
        return True


def json_line(log: str, partition: int, entry: LogEntry) -> str:
    """One JSON object: log, offset, time, then key and value in the shape of Kafka's formatters. A
    record that is not decoded is base64 under `raw`."""
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
    elif entry.decoded is not None and entry.number is not None:
        line["tombstone"] = entry.decoded.value is None
        line["key"] = key_json(entry.number, entry.decoded.key)
        line["value"] = None
        if entry.decoded.value is not None:
            line["value"] = value_json(_version(raw.value), entry.decoded.value)
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
    return json.dumps(line, ensure_ascii=False)  # with spaces, for people


def text_line(log: str, entry: LogEntry) -> str:
    """`log@offset time type key=... -> value=...`, with the field names of Kafka's schemas."""
    raw = entry.raw
    parts = [f"{log}@{raw.offset}", time_quoted(raw.timestamp_ms), entry.kind]
    if entry.marker is not None:
        parts.append("COMMIT" if entry.marker.committed else "ABORT")
        parts.append(f"coordinatorEpoch={entry.marker.coordinator_epoch}")
    elif entry.decoded is not None and entry.number is not None:
        parts.append(_fields(key_json(entry.number, entry.decoded.key)["data"]))
        parts.append("->")
        if entry.decoded.value is None:
            parts.append("<deleted>")
        else:
            parts.append(_fields(value_json(0, entry.decoded.value)["data"]))
    else:
        if entry.group is not None:
            parts.append(f"group={_quoted(entry.group)}")
        parts.append(f"key=<{len(raw.key or b'')} bytes>")
        parts.append("<deleted>" if raw.value is None else f"value=<{len(raw.value)} bytes>")
    if entry.producer is not None:
        kind = "transaction" if entry.header.is_transactional else "producer"
        parts.append(f"{kind}={entry.producer[0]}/{entry.producer[1]}")
    if entry.error is not None:
        parts.append(f"ERROR {entry.error}")
    return " ".join(parts)


def time_quoted(timestamp_ms: int) -> str:
    """The time in UTC, or the number if it is not a valid time."""
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
            shown.append(f"{name}={time_quoted(value)}")
        elif isinstance(value, str):
            shown.append(f"{name}={_quoted(value)}")
        else:
            shown.append(f"{name}={json.dumps(value, ensure_ascii=False)}")
    return " ".join(shown)


def _quoted(value: str) -> str:
    """The text as it is if it cannot be misread, else as a JSON string, so that a record stays one
    line."""
    plain = value.isprintable() and value and not set(' "=') & set(value)
    return value if plain else json.dumps(value)  # escapes characters outside ASCII, unlike msgspec
