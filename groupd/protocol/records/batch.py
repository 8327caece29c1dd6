"""Record batches of magic 2, which the log stores and Fetch serves
(docs/spec/offsets-and-log.md#6).

A batch is a 61-byte header and its records:

    base offset i64, length i32 (bytes that follow), partition leader epoch i32, magic i8 = 2,
    CRC-32C u32 (of everything after it), attributes i16, last offset delta i32,
    base timestamp i64, max timestamp i64, producer id i64, producer epoch i16,
    base sequence i32, record count i32

    record: varint length, i8 0, varlong timestamp delta, varint offset delta,
            varint key length, key, varint value length, value, varint header count,
            [varint key length, key, varint value length, value]

Varints are zigzag; length -1 is null. Attributes: bits 0-2 codec, 3 log append time,
4 transactional, 5 control, 6 delete horizon. The CRC does not cover base offset and leader epoch,
so the log can set them without changing the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from typing import NamedTuple

from groupd.protocol.crc import crc32c
from groupd.protocol.records.compression import (
    NONE,
    UNPACKED_MAX_BYTES,
    BadCompression,
    Plain,
    UnpacksTooLarge,
    decompress,
)
from groupd.protocol.records.varints import BadVarint, read_varint, read_zigzag

MAGIC = 2
HEADER_BYTES = 61
CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
ABORT_MARKER = 0
COMMIT_MARKER = 1
RECORD_BYTES_MIN = 7
"""A record has at least a length, attributes, time, offset, key, value and number of headers."""
HEADER_BYTES_MIN = 2
"""A header of a record has a name and a value."""

_LENGTH_PREFIX_BYTES = 12
_CRC_START = 21
_MAGIC_AT = 16
_HEADER = Struct(">qiibIhiqqqhii")
_OFFSET = Struct(">q")
_INT32 = Struct(">i")
_ATTRIBUTES = Struct(">h")
_CRC = Struct(">I")
_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35

Buffer = bytes | bytearray | memoryview


class CorruptBatch(Exception):
    """The bytes are not a valid record batch."""


class UnsupportedMagic(CorruptBatch):
    """A message set from before magic 2 (Kafka 0.10 and older)."""


class BatchHeader(NamedTuple):
    """`length` is the value on the wire: the batch without its first 12 bytes."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch in bytes."""
        return self.length + _LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)


class Batch(NamedTuple):
    header: BatchHeader
    payload: bytes


class BatchRecord(NamedTuple):
    """One record with its absolute offset and timestamp."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


RawRecord = tuple[int, int, int, int, int, int, int, int]
"""One record in the uncompressed data, as (offset delta, timestamp delta in ms, position of the
key, size of the key, size of the value, position of the record, position of its headers, end of the
record). The value ends where the headers begin. The size of a null key or value is -1."""


class MarkerRecord(NamedTuple):
    """The end of a transaction, as the record of a control batch describes it."""

    committed: bool
    coordinator_epoch: int


def decode_marker(record: BatchRecord) -> MarkerRecord | None:
    """Returns None for other control records, which readers ignore. Raises CorruptBatch."""
    try:
        _, kind = _MARKER_KEY.unpack_from(record.key or b"")
        if kind not in (ABORT_MARKER, COMMIT_MARKER):
            return None
        _, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value or b"")
    except struct.error as error:
        raise CorruptBatch(f"control record at {record.offset}: {error}") from error
    return MarkerRecord(kind == COMMIT_MARKER, coordinator_epoch)


def parse_header(data: Buffer, offset: int = 0) -> BatchHeader:
    """Returns the header of the batch that starts at `offset`. The records are not looked at: they
    may be missing or wrong, see `check`. Raises UnsupportedMagic, CorruptBatch."""
    available = len(data) - offset
    if available > _MAGIC_AT and data[offset + _MAGIC_AT] != MAGIC:
        raise UnsupportedMagic(f"magic {data[offset + _MAGIC_AT]} at byte {offset}")
    if available < HEADER_BYTES:
        raise CorruptBatch(f"{available} bytes at byte {offset} are no batch")
    # `tuple.__new__` makes the header without a Python call.
    header: BatchHeader = tuple.__new__(BatchHeader, _HEADER.unpack_from(data, offset))
    if header.size < HEADER_BYTES:
        raise CorruptBatch(f"batch length {header.length} at byte {offset}")
    return header


def is_transactional(data: Buffer) -> bool:
    """Whether the data begins with a transactional batch, without reading the whole header. False
    where `parse_header` would raise."""
    if len(data) < HEADER_BYTES or not data[_ATTRIBUTES_AT + 1] & TRANSACTIONAL:
        return False
    (length,) = _INT32.unpack_from(data, 8)
    return data[_MAGIC_AT] == MAGIC and length + _LENGTH_PREFIX_BYTES >= HEADER_BYTES


def verify_crc(payload: Buffer, header: BatchHeader | None = None) -> bool:
    """Whether the checksum of one batch is right."""
    header = header or parse_header(payload)
    with memoryview(payload) as view:
        return crc32c(view[_CRC_START : header.size]) == header.crc


def check(payload: Buffer) -> BatchHeader:
    """Checks that the bytes are exactly one whole batch with the right checksum and plausible
    counts. Returns its header. Raises CorruptBatch."""
    header = parse_header(payload)
    check_whole(payload, header)
    return header


def check_whole(payload: Buffer, header: BatchHeader) -> None:
    """As `check`, for a header that was already parsed."""
    if header.size != len(payload):
        raise CorruptBatch(f"batch of {header.size} bytes in {len(payload)}")
    if not verify_crc(payload, header):
        raise CorruptBatch(f"wrong checksum of the batch at offset {header.base_offset}")
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise CorruptBatch(
            f"{header.record_count} records up to offset delta {header.last_offset_delta}"
        )


def iter_batches(buffer: Buffer) -> Iterator[Batch]:
    """Yields the batches of `buffer`, which must end with a whole batch. Does not check checksums.
    Raises CorruptBatch."""
    position = 0
    while position < len(buffer):
        header = parse_header(buffer, position)
        end = position + header.size
        if end > len(buffer):
            raise CorruptBatch(f"batch at byte {position} ends {end - len(buffer)} bytes too late")
        yield Batch(header, bytes(buffer[position:end]))
        position = end


def with_base_offset(payload: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """Returns the batch with another base offset and leader epoch. The checksum does not cover
    them, so it stays right."""
    with memoryview(payload) as view:
        return b"".join(
            (
                _OFFSET.pack(base_offset),
                view[8:_LENGTH_PREFIX_BYTES],
                _INT32.pack(leader_epoch),
                view[_MAGIC_AT:],
            )
        )


def with_log_append_time(payload: Buffer, timestamp_ms: int) -> bytes:
    """Returns the batch as `message.timestamp.type=LogAppendTime` wants it: all records have the
    timestamp `timestamp_ms`."""
    return _with_max_timestamp(payload, timestamp_ms, LOG_APPEND_TIME)


def with_create_time(payload: Buffer, max_timestamp_ms: int) -> bytes:
    """Returns the batch as `message.timestamp.type=CreateTime` wants it: each record keeps its own
    timestamp, and `max_timestamp_ms` is the latest of them."""
    return _with_max_timestamp(payload, max_timestamp_ms, 0)


def _with_max_timestamp(payload: Buffer, timestamp_ms: int, timestamp_type: int) -> bytes:
    """Returns the batch with another max timestamp and timestamp type, and a new checksum."""
    out = bytearray(payload)
    (attributes,) = _ATTRIBUTES.unpack_from(out, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(out, _ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME | timestamp_type)
    _OFFSET.pack_into(out, _MAX_TIMESTAMP_AT, timestamp_ms)
    _CRC.pack_into(out, _CRC_START - 4, crc32c(bytes(out[_CRC_START:])))
    return bytes(out)


def records_data(header: BatchHeader, payload: bytes, limit: int = UNPACKED_MAX_BYTES) -> Plain:
    """Returns the uncompressed records of a whole batch. Raises CorruptBatch, UnsupportedCodec, and
    UnpacksTooLarge if a compressed batch unpacks to more than `limit` bytes."""
    if header.codec == NONE or (header.record_count == 0 and header.size == HEADER_BYTES):
        # If compaction has removed all records, only the header is left.
        return Plain(payload, HEADER_BYTES, header.size)
    try:
        return decompress(header.codec, payload[HEADER_BYTES : header.size], limit)
    except UnpacksTooLarge:
        raise
    except BadCompression as error:
        raise CorruptBatch(f"records at offset {header.base_offset}: {error}") from error


def iter_records(batch: Batch | Buffer) -> Iterator[BatchRecord]:
    """Yields the records of one batch in order. In the name of a header, bytes that are not UTF-8
    are replaced, as Java does. Raises CorruptBatch, UnsupportedCodec."""
    if isinstance(batch, Batch):
        header, payload = batch
    else:
        header, payload = parse_header(batch), bytes(batch)
    try:
        records = records_data(header, payload)
    except UnpacksTooLarge as error:
        raise CorruptBatch(f"records at offset {header.base_offset}: {error}") from error
    data = records.data
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    append_ms = header.max_timestamp_ms if header.is_log_append_time else None
    for delta, time, key_at, key_size, size, _, headers_at, end in read_records(header, records):
        key = None if key_size < 0 else data[key_at : key_at + key_size]
        value = None if size < 0 else data[headers_at - size : headers_at]
        headers = () if headers_at + 1 == end else _headers(data, headers_at, end)
        timestamp_ms = base_ms + time if append_ms is None else append_ms
        # `tuple.__new__` makes the record without a Python call.
        yield tuple.__new__(BatchRecord, (base_offset + delta, timestamp_ms, key, value, headers))


def read_records(
    header: BatchHeader, records: Plain, position: int | None = None, first: int = 0
) -> Iterator[RawRecord]:
    """Yields the records in `records` (see `records_data`), beginning with the one at index
    `first`, which starts at `position`. Every reader of records uses this function, so it checks
    the format of a record, except for headers (see `read_headers`). Raises CorruptBatch."""
    data, _, stop = records
    index, end = first, records.start if position is None else position
    _check_room(header, first, stop - end)
    try:
        for index in range(first, header.record_count):  # noqa: B007
            # Varints of one byte are read here: with calls the loop would take twice as long.
            start = end
            size, position = data[start], start + 1
            if size >= 0x80:
                size, position = read_zigzag(data, start)
            end = position + (size >> 1)
            position += 1  # skips the attributes, which Kafka does not use
            time, position = data[position], position + 1
            if time >= 0x80:
                time, position = read_zigzag(data, position - 1, bits=64)
            delta, position = data[position], position + 1
            if delta >= 0x80:
                delta, position = read_zigzag(data, position - 1)
            length, position = data[position], position + 1
            if length >= 0x80:
                length, position = read_zigzag(data, position - 1)
            key_at, key_size = position, -1
            if not length & 1:
                key_size = length >> 1
                position += key_size
            length, position = data[position], position + 1
            if length >= 0x80:
                length, position = read_zigzag(data, position - 1)
            value_size = -1
            if not length & 1:
                value_size = length >> 1
                position += value_size
            # A record without headers ends with their number, which is 0.
            ends = position + 1 < end if data[position] else position + 1 == end
            if size & 1 or not ends or end > stop:
                raise CorruptBatch("its length is wrong")
            time = (time >> 1) ^ -(time & 1)
            delta = (delta >> 1) ^ -(delta & 1)
            yield delta, time, key_at, key_size, value_size, start, position, end
    except (BadVarint, CorruptBatch, IndexError) as error:
        raise CorruptBatch(
            f"record {index} of {header.record_count} in the batch at offset "
            f"{header.base_offset}: {error}"
        ) from error
    if end != stop:
        raise CorruptBatch(
            f"bytes after the last record of the batch at offset {header.base_offset}"
        )


def _check_room(header: BatchHeader, first: int, size: int) -> None:
    """Raises CorruptBatch if the records from index `first` on cannot fit into `size` bytes."""
    count = header.record_count - first
    if count * RECORD_BYTES_MIN > size:
        raise CorruptBatch(f"{count} records in {size} bytes at offset {header.base_offset}")


def read_headers(
    data: bytes | mmap, position: int, end: int
) -> Iterator[tuple[int, int, int, int]]:
    """Yields the headers of a record as (position of the name, its size, position of the value, its
    size or -1). They start at `position`; the record ends at `end`. Raises CorruptBatch."""
    try:
        count, position = read_varint(data, position)
        if not 0 <= count * HEADER_BYTES_MIN <= end - position:
            raise CorruptBatch(f"{count} headers in {end - position} bytes")
        for _ in range(count):
            size, name_at = data[position], position + 1
            if size >= 0x80:
                size, name_at = read_zigzag(data, position)
            if size & 1:
                raise CorruptBatch("a header without a name")
            size >>= 1
            position = name_at + size
            length, value_at = data[position], position + 1
            if length >= 0x80:
                length, value_at = read_zigzag(data, position)
            length = -1 if length & 1 else length >> 1
            position = value_at + length if length > 0 else value_at
            yield name_at, size, value_at, length
    except (BadVarint, IndexError) as error:
        raise CorruptBatch(f"headers of a record: {error}") from error
    if position != end:
        raise CorruptBatch("a record whose length is wrong")


def _headers(data: bytes | mmap, at: int, end: int) -> tuple[tuple[str, bytes | None], ...]:
    return tuple(
        (
            data[name_at : name_at + size].decode(errors="replace"),
            None if value_size < 0 else data[value_at : value_at + value_size],
        )
        for name_at, size, value_at, value_size in read_headers(data, at, end)
    )
