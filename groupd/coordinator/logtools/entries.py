"""Turns batches into entries: one for each record, decoded if possible, with the name of its type
and the group of its key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from groupd.coordinator.logtools.logs import OFFSETS_LOG, SHARE_STATE_LOG, ToolLog
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    BatchRecord,
    MarkerRecord,
    decode_marker,
    iter_records,
)
from groupd.protocol.records.codec import (
    TYPES_BY_PREFIX,
    CorruptRecord,
    UnknownRecordType,
    decode_record,
    record_type,
)
from groupd.protocol.records.schema import Record
from groupd.protocol.records.share_state_records import (
    SNAPSHOT,
    UPDATE,
    SharePartitionKey,
    ShareStateValue,
)
from groupd.protocol.records.share_state_records import decode_record as decode_state


class LogToolError(Exception):
    """`str()` is one line that says what is wrong and how to correct it."""


# The keys of all types begin with the group id, also of types that this coordinator does not hold.
# So records of streams groups can be counted, filtered and left out by group.

_LENGTH = struct.Struct(">h")

MARKER = "marker"
"""The kind of control records, which have no type of their own."""

TYPE_NAMES = {
    0: "legacy-offset-commit",
    1: "offset-commit",
    2: "group-metadata",
    3: "consumer-group-metadata",
    4: "consumer-group-partition-metadata",
    5: "consumer-group-member-metadata",
    6: "consumer-group-target-assignment-metadata",
    7: "consumer-group-target-assignment-member",
    8: "consumer-group-current-member-assignment",
    10: "share-group-member-metadata",
    11: "share-group-metadata",
    12: "share-group-target-assignment-metadata",
    13: "share-group-target-assignment-member",
    14: "share-group-current-member-assignment",
    15: "share-group-state-partition-metadata",
    16: "consumer-group-regular-expression",
    17: "streams-group-metadata",
    19: "streams-group-member-metadata",
    20: "streams-group-target-assignment-metadata",
    21: "streams-group-target-assignment-member",
    22: "streams-group-current-member-assignment",
    23: "streams-group-topology",
}
STATE_TYPE_NAMES = {SNAPSHOT: "share-snapshot", UPDATE: "share-update"}
"""The types of records in the log of share groups' state."""

UNHELD_TYPES = frozenset(range(17, 24))
"""Records of streams groups, which this coordinator does not hold."""

CHOICES = (*TYPE_NAMES.values(), *STATE_TYPE_NAMES.values(), MARKER)


def type_name(number: int) -> str:
    return TYPE_NAMES.get(number, f"type-{number}")


def state_type_name(number: int) -> str:
    return STATE_TYPE_NAMES.get(number, f"type-{number}")


def group_of(key: bytes) -> str | None:
    """The group id in an encoded key; None if the type is unknown or the key is damaged."""
    try:
        if record_type(key) not in TYPE_NAMES and key[:2] not in TYPES_BY_PREFIX:
            return None
        (length,) = _LENGTH.unpack_from(key, 2)
        raw = key[4 : 4 + length]
        return raw.decode() if len(raw) == length else None
    except (CorruptRecord, UnicodeDecodeError, struct.error):
        return None


UNREADABLE = "unreadable"
"""The kind of a record whose key is missing or too short to name a type."""


class LoggedState(NamedTuple):
    """A record of the log of share groups' state. `value` None = tombstone."""

    key: SharePartitionKey
    value: ShareStateValue


class LogEntry(Struct, frozen=True):
    """One record and its batch. `kind`: the name of its type, or `marker`. `record`: None for
    markers, for types that are not held here, and if decoding fails (`error` says why). `state`:
    the record instead of `record`, in the log of share groups' state."""

    header: BatchHeader
    raw: BatchRecord
    kind: str
    number: int | None = None
    group: str | None = None
    record: Record | None = None
    marker: MarkerRecord | None = None
    error: str | None = None
    state: LoggedState | None = None

    @property
    def decoded(self) -> Record | LoggedState | None:
        """The record, of whichever log."""
        return self.state if self.record is None else self.record

    @property
    def producer(self) -> tuple[int, int] | None:
        """The producer's (id, epoch); None outside transactions."""
        if self.header.producer_id < 0:
            return None
        return self.header.producer_id, self.header.producer_epoch


def entries_of(batch: Batch, log: ToolLog = OFFSETS_LOG) -> Iterator[LogEntry]:
    """The entries of a batch of `log`, including records that do not decode. Raises CorruptBatch
    and UnsupportedCodec."""
    for raw in iter_records(batch):
        if batch.header.is_control:
            yield LogEntry(batch.header, raw, MARKER, marker=decode_marker(raw))
        else:
            yield entry_of(batch.header, raw, log)


def entry_of(header: BatchHeader, raw: BatchRecord, log: ToolLog = OFFSETS_LOG) -> LogEntry:
    """The entry of a record of `log` that is not a control record."""
    if raw.key is None:
        return LogEntry(header, raw, UNREADABLE, error="a record without a key")
    try:
        number = record_type(raw.key)
    except CorruptRecord as corrupt:
        return LogEntry(header, raw, UNREADABLE, error=str(corrupt))
    group = group_of(raw.key)
    kind = state_type_name(number) if log == SHARE_STATE_LOG else type_name(number)
    try:
        if log == SHARE_STATE_LOG:
            state = LoggedState(*decode_state(raw.key, raw.value))
            return LogEntry(header, raw, kind, number, group, state=state)
        return LogEntry(header, raw, kind, number, group, decode_record(raw.key, raw.value))
    except UnknownRecordType:
        return LogEntry(header, raw, kind, number, group)
    except CorruptRecord as corrupt:
        return LogEntry(header, raw, kind, number, group, error=str(corrupt))
