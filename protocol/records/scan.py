"""Records of a batch, quickly: what loading and cleaning need of millions of them.

`batch.iter_records` reads everything and checks everything; here a record's headers and, for
loaders, its timestamp are passed over. Uncommon forms go the long way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from groupd.protocol.records.batch import (
    HEADER_BYTES,
    Batch,
    BatchHeader,
    CorruptBatch,
    read_record,
)
from groupd.protocol.records.compression import BadCompression, decompress
from groupd.protocol.records.varints import BadVarint, read_varint, read_varlong

_NO_VALUE = 1  # length -1 as a varint


def records_data(batch: Batch) -> bytes:
    """The uncompressed records of a batch. Raises CorruptBatch, UnsupportedCodec."""
    header = batch.header
    try:
        return decompress(header.codec, batch.payload[HEADER_BYTES : header.size])
    except BadCompression as error:
        raise CorruptBatch(f"records at offset {header.base_offset}: {error}") from error


def key_value(
    header: BatchHeader, data: bytes, position: int
) -> tuple[int, bytes | None, bytes | None, int]:
    """Offset, key and value of the record at `position` in `data`, and where the next one begins.
    Raises CorruptBatch."""
    start = position
    try:
        byte = data[position]
        if byte >= 0x80 and data[position + 1] < 0x80 and not byte & 1:
            length = (byte & 0x7F | data[position + 1] << 7) >> 1
            position += 2
        else:
            length, position = read_varint(data, position)
        end = position + length
        position += 1  # attributes
        if data[position] < 0x80:
            position += 1
        else:
            _, position = read_varlong(data, position)
        byte = data[position]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            offset_delta, position = read_varint(data, position)
        byte = data[position]
        if byte < 0x80 and not byte & 1:
            length = byte >> 1
            position += 1
        else:
            length, position = read_varint(data, position)
        key = None
        if length >= 0:
            key = data[position : position + length]
            position += length
        byte = data[position]
        if byte < 0x80 and not byte & 1:
            length = byte >> 1
            position += 1
        elif byte >= 0x80 and data[position + 1] < 0x80 and not byte & 1:
            length = (byte & 0x7F | data[position + 1] << 7) >> 1
            position += 2
        else:
            length, position = read_varint(data, position)
        value = None
        if length >= 0:
            value = data[position : position + length]
            position += length
        if position + 1 != end or data[position]:
            # Headers, or bytes that are wrong: this one tells.
            _, end = read_record(header, data, start)
    except (BadVarint, IndexError) as error:
        raise CorruptBatch(f"records at offset {header.base_offset}: {error}") from error
    return header.base_offset + offset_delta, key, value, end


def check_end(header: BatchHeader, data: bytes, position: int) -> None:
    """`position`: behind the last record. Raises CorruptBatch."""
    if position != len(data):
        raise CorruptBatch(f"bytes after the last record of the batch at {header.base_offset}")


class RawRecord(NamedTuple):
    """One record as bytes: `data[start:end]`, whose timestamp delta ends at `rest`."""

    start: int
    end: int
    rest: int
    timestamp_delta: int
    offset_delta: int
    key: bytes | None
    has_value: bool


def raw_records(header: BatchHeader, data: bytes) -> Iterator[RawRecord]:
    """The records in `data`, looked at no closer than needed. Raises CorruptBatch."""
    position = 0
    try:
        for _ in range(header.record_count):
            start = position
            length, position = read_varint(data, position)
            end = position + length
            timestamp_delta, rest = read_varlong(data, position + 1)
            offset_delta, position = read_varint(data, rest)
            length, position = read_varint(data, position)
            key = None
            if length >= 0:
                key = data[position : position + length]
                position += length
            has_value = data[position] != _NO_VALUE
            if not position < end <= len(data):
                raise CorruptBatch(f"a record is cut in the batch at {header.base_offset}")
            yield RawRecord(start, end, rest, timestamp_delta, offset_delta, key, has_value)
            position = end
    except (BadVarint, IndexError) as error:
        raise CorruptBatch(f"records at offset {header.base_offset}: {error}") from error
    check_end(header, data, position)
