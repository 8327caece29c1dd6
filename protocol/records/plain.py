"""All records of a batch at once, as plain tuples: for readers of whole logs.

The same as `batch.iter_records`, which is for few records and makes an object of each. What is
unusual (long varints, nulls in odd places, headers) is left to `batch.read_record`, so there is
one place that says what a record is and what is wrong with one.
"""

from __future__ import annotations

from groupd.protocol.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    CorruptBatch,
    read_record,
)
from groupd.protocol.records.compression import BadCompression, decompress
from groupd.protocol.records.varints import BadVarint

_TWO_BYTES = 0x3FFE
"""What an even number has that takes two bytes as a varint."""

PlainRecord = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""The fields of a `batch.BatchRecord`."""


def plain_records(header: BatchHeader, payload: bytes) -> list[PlainRecord]:
    """Of one whole batch. Raises CorruptBatch, UnsupportedCodec."""
    if header.record_count == 0 and header.size == HEADER_BYTES:
        return []
    try:
        data = decompress(header.codec, payload[HEADER_BYTES : header.size])
        return _records(header, data)
    except (BadCompression, BadVarint, IndexError) as error:
        raise CorruptBatch(f"records at offset {header.base_offset}: {error}") from error


def _records(header: BatchHeader, data: bytes) -> list[PlainRecord]:
    """Varints are looked at in place: lengths and the offset delta if they take up to two bytes
    and are not negative (an even zigzag), the time delta if it is zero."""
    base, position, size = header.base_offset, 0, len(data)
    fixed = header.attributes & LOG_APPEND_TIME
    time_ms = header.max_timestamp_ms if fixed else header.base_timestamp_ms
    found: list[PlainRecord] = []
    append = found.append
    for _ in range(header.record_count):
        start = position
        try:
            length = data[position]
            position += 1
            if length >= 0x80:
                length += (data[position] << 7) - 0x80
                position += 1
            end = position + (length >> 1)
            time_delta, delta = data[position + 1], data[position + 2]
            position += 3
            if delta >= 0x80:
                delta += (data[position] << 7) - 0x80
                position += 1
            key_size = data[position]
            position += 1
            if key_size >= 0x80:
                key_size += (data[position] << 7) - 0x80
                position += 1
            key_end = position + (key_size >> 1)
            value_size = data[key_end]
            value_at = key_end + 1
            if value_size >= 0x80:
                value_size += (data[value_at] << 7) - 0x80
                value_at += 1
            value_end = value_at + (value_size >> 1)
            if (
                # A third byte would have set the bit above 0x3FFF; the last byte is the number
                # of headers.
                (length | delta | key_size | value_size) & ~_TWO_BYTES == 0
                and time_delta == 0
                and value_end + 1 == end
                and data[value_end] == 0
            ):
                key, value = data[position:key_end], data[value_at:value_end]
                append((base + (delta >> 1), time_ms, key, value, ()))
                position = end
                continue
        except IndexError:
            pass  # of a look too far ahead, unless the long way says so too
        record, position = read_record(header, data, start)
        append(record)
    if position != size:
        raise CorruptBatch(f"bytes after the last record of the batch at {header.base_offset}")
    return found
