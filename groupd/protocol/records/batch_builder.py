"""Builds record batches of magic 2; `batch` describes their bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct

from groupd.protocol.crc import crc32c
from groupd.protocol.records.batch import (
    ABORT_MARKER,
    CODEC_MASK,
    COMMIT_MARKER,
    CONTROL,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    BatchRecord,
)
from groupd.protocol.records.varints import SMALL, SMALL_ZIGZAGS, zigzag

KeyValue = tuple[bytes | None, bytes | None]

NO_HEADERS = b"\x00"
"""The headers of a record that has none: only their number, 0."""

_NULL = b"\x01"
_ATTRIBUTES_AND_TIME = b"\x00\x00"
"""The attributes and the timestamp delta of a record whose timestamp is the one of its batch."""
RECORD_OVERHEAD_BYTES = 24
"""An upper bound of the varints, attributes and lengths of one record without headers."""
_RECORD_FIELDS_BYTES = 16
"""The largest size of all fields except key and value, in a record without headers."""
_BEFORE_CRC = Struct(">qiibI")
_AFTER_CRC = Struct(">hiqqqhii")
_LENGTH_WITHOUT_TAIL = 9
"""The length field of a batch counts leader epoch, magic and checksum (9 bytes), besides the bytes
after the checksum."""
_MARKER_KEY = Struct(">hh")
_MARKER_VALUE = Struct(">hi")


def new_header(
    base_offset: int,
    last_offset: int,
    base_timestamp_ms: int,
    max_timestamp_ms: int,
    *,
    leader_epoch: int = 0,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, 0),
    record_count: int = 0,
) -> BatchHeader:
    """Returns the header of a new batch. `producer`: its id, epoch and base sequence. (Stored
    batches without a producer have always had base sequence 0.) `pack_batch` sets length and
    checksum."""
    return BatchHeader(
        base_offset,
        0,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        last_offset - base_offset,
        base_timestamp_ms,
        max_timestamp_ms,
        *producer,
        record_count,
    )


def pack_batch(header: BatchHeader, records: bytes) -> bytes:
    """Returns the batch of `header` and `records`, which are encoded, and compressed as the header
    says. Length and checksum are computed here."""
    tail = _AFTER_CRC.pack(*header[5:]) + records
    length = _LENGTH_WITHOUT_TAIL + len(tail)
    start = _BEFORE_CRC.pack(header.base_offset, length, header.leader_epoch, MAGIC, crc32c(tail))
    return start + tail


def encode_record(
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    timestamp_delta_ms: int = 0,
    headers: bytes = NO_HEADERS,
) -> bytes:
    """Encodes one record. `headers`: encoded, see `encode_headers`."""
    time = b"\x00" if timestamp_delta_ms == 0 else zigzag(timestamp_delta_ms)
    body = b"\x00" + time + zigzag(offset_delta) + _sized(key) + _sized(value) + headers
    return zigzag(len(body)) + body


def _sized(data: bytes | None) -> bytes:
    if data is None:
        return _NULL
    size = len(data)
    return (SMALL_ZIGZAGS[size] if size < SMALL else zigzag(size)) + data


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    parts = [zigzag(len(headers))]
    for name, value in headers:
        raw = name.encode()
        parts += (zigzag(len(raw)), raw, _sized(value))
    return b"".join(parts)


def encode_records(records: Iterable[KeyValue], first_delta: int = 0) -> bytes:
    """Encodes records without headers, with consecutive offsets and the timestamp of their batch.
    `first_delta`: the first record's offset minus the batch's base offset."""
    parts: list[bytes] = []
    small, most = SMALL_ZIGZAGS, len(SMALL_ZIGZAGS) - _RECORD_FIELDS_BYTES
    for delta, (key, value) in enumerate(records, first_delta):
        if key is None or value is None or delta >= most or len(key) + len(value) >= most:
            parts.append(encode_record(delta, key, value))
            continue
        # The same as `encode_record`, without the calls: a commit has one record for each
        # partition.
        body = (
            _ATTRIBUTES_AND_TIME
            + small[delta]
            + small[len(key)]
            + key
            + small[len(value)]
            + value
            + NO_HEADERS
        )
        parts += (small[len(body)], body)
    return b"".join(parts)


def encode_batch(
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    records: Sequence[KeyValue],
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = 0,
    transactional: bool = False,
    *,
    control: bool = False,
) -> bytes:
    """Returns an uncompressed create-time batch with consecutive offsets, whose records are all at
    `timestamp_ms`."""
    if not records:
        raise ValueError("a batch needs a record")
    header = new_header(
        base_offset,
        base_offset + len(records) - 1,
        timestamp_ms,
        timestamp_ms,
        leader_epoch=leader_epoch,
        attributes=(TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0),
        producer=(producer_id, producer_epoch, base_sequence),
        record_count=len(records),
    )
    return pack_batch(header, encode_records(records))


def encode_marker(
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    *,
    commit: bool,
) -> bytes:
    """Returns the control batch that ends a transaction."""
    key = _MARKER_KEY.pack(0, COMMIT_MARKER if commit else ABORT_MARKER)
    return encode_batch(
        base_offset,
        leader_epoch,
        timestamp_ms,
        [(key, _MARKER_VALUE.pack(0, coordinator_epoch))],
        producer_id,
        producer_epoch,
        -1,
        transactional=True,
        control=True,
    )


def rebuild_batch(header: BatchHeader, records: Sequence[BatchRecord]) -> bytes:
    """Returns a batch like the one of `header`, but with these records only, uncompressed. It keeps
    base offset, last offset, times, producer and kind. There may be gaps between the offsets, as
    after compaction. Without records it is only a header."""
    base_ms = header.base_timestamp_ms
    body = b"".join(
        encode_record(
            record.offset - header.base_offset,
            record.key,
            record.value,
            # Under log append time the timestamp is in the header, and what a record stores does
            # not count.
            0 if header.is_log_append_time else record.timestamp_ms - base_ms,
            encode_headers(record.headers) if record.headers else NO_HEADERS,
        )
        for record in records
    )
    attributes = header.attributes & ~CODEC_MASK
    return pack_batch(header._replace(attributes=attributes, record_count=len(records)), body)


def plain_batch(records: Sequence[BatchRecord]) -> bytes:
    """Returns a create-time batch of these records (at least one, in the order of their offsets)
    without a producer. It ends with the last record."""
    times = [record.timestamp_ms for record in records]
    first, last = records[0].offset, records[-1].offset
    return rebuild_batch(new_header(first, last, times[0], max(times)), records)


def empty_batch(base_offset: int, last_offset: int) -> bytes:
    """Returns a header without records, as compaction leaves it if it has removed all records."""
    return pack_batch(new_header(base_offset, last_offset, -1, -1), b"")
