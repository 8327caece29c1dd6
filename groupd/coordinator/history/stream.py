"""Reads one group's part of a shard's log: bytes of batches become records and markers in log
order.

Records of other groups are skipped without decoding, because every key starts with its type and the
group's id. A marker may end a transaction of any group, so all markers are yielded.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from groupd.protocol.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    check,
    decode_marker,
    iter_records,
    parse_header,
)
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType, decode_record
from groupd.protocol.records.schema import Record

_INT16 = Struct(">h")
_KEY_TYPE_BYTES = 2


class UnreadableLog(Exception):
    """The log cannot be read at some offset. `str()` says what is wrong and where."""


class GroupEntry(NamedTuple):
    """One record (`record`), or the end of a transaction (`commit` True or False).

    `producer_id` is -1 outside transactions.
    """

    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    record: Record | None
    commit: bool | None = None


def header_of(payload: bytes) -> BatchHeader:
    """Returns the header of a batch. Raises UnreadableLog."""
    try:
        return parse_header(payload)
    except CorruptBatch as error:
        raise UnreadableLog(f"the log is damaged: {error}") from error


def split(data: bytes, *, whole: bool = True) -> Iterator[bytes]:
    """Yields the batches in `data`. If `whole` is False the last batch may be cut off, as in a
    reply to Fetch. Raises UnreadableLog."""
    position = 0
    while len(data) - position >= (1 if whole else HEADER_BYTES):
        try:
            end = position + parse_header(data, position).size
        except CorruptBatch as error:
            raise UnreadableLog(f"the log is damaged: {error}") from error
        if end > len(data):
            if whole:
                raise UnreadableLog(f"the log is damaged: {end - len(data)} bytes are missing")
            return
        yield data[position:end]
        position = end


class GroupStream:
    """Decodes batches for one group."""

    def __init__(self, group_id: str) -> None:
        raw = group_id.encode()
        self._prefix = _INT16.pack(len(raw)) + raw
        self._key_min = _KEY_TYPE_BYTES + len(self._prefix)

    def entries(self, payload: bytes) -> Iterator[GroupEntry]:
        """Yields the entries of one batch. Raises UnreadableLog."""
        try:
            header = check(payload)
            producer_id = header.producer_id if header.is_transactional else -1
            for raw in iter_records(payload):
                if header.is_control:
                    marker = decode_marker(raw)
                    if marker is not None:
                        yield GroupEntry(
                            raw.offset,
                            raw.timestamp_ms,
                            header.producer_id,
                            header.producer_epoch,
                            None,
                            marker.committed,
                        )
                elif raw.key is not None and self.is_ours(raw.key):
                    try:
                        record = decode_record(raw.key, raw.value)
                    except UnknownRecordType:
                        continue  # the same as in the coordinator
                    yield GroupEntry(
                        raw.offset, raw.timestamp_ms, producer_id, header.producer_epoch, record
                    )
        except (CorruptBatch, CorruptRecord, ValueError) as error:
            offset = header_of(payload).base_offset
            raise UnreadableLog(f"the log is damaged at offset {offset}: {error}") from error

    def is_ours(self, key: bytes) -> bool:
        """Whether a key names the group; those of the share coordinator's log do it alike."""
        return key[_KEY_TYPE_BYTES : self._key_min] == self._prefix
