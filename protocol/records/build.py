"""Record batches from single records, as a producer makes them: headers, and a time each.

`encode_batch` is the log's own, faster and plainer; the format is described in `batch.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from groupd.protocol.crc import crc32c
from groupd.protocol.records.batch import MAGIC
from groupd.protocol.records.primitives import uvarint

_BEFORE_CRC = Struct(">qiibI")
_AFTER_CRC = Struct(">hiqqqhii")
_LENGTH_FROM_EPOCH_TO_CRC = 9
_NULL = b"\x01"


class NewRecord(NamedTuple):
    """One record of a new batch."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()


def build_batch(records: Sequence[NewRecord]) -> bytes:
    """An uncompressed create-time batch at offset 0 without a producer id."""
    if not records:
        raise ValueError("a batch needs a record")
    base_ms = records[0].timestamp_ms
    body = b"".join(_record(delta, base_ms, record) for delta, record in enumerate(records))
    tail = _AFTER_CRC.pack(
        0,
        len(records) - 1,
        base_ms,
        max(record.timestamp_ms for record in records),
        -1,
        -1,
        -1,
        len(records),
    )
    tail += body
    length = _LENGTH_FROM_EPOCH_TO_CRC + len(tail)
    return _BEFORE_CRC.pack(0, length, -1, MAGIC, crc32c(tail)) + tail


def _record(offset_delta: int, base_ms: int, record: NewRecord) -> bytes:
    parts = [
        b"\x00",
        _varint(record.timestamp_ms - base_ms),
        _varint(offset_delta),
        _bytes(record.key),
        _bytes(record.value),
        _varint(len(record.headers)),
    ]
    for name, value in record.headers:
        parts += [_bytes(name.encode()), _bytes(value)]
    body = b"".join(parts)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    """Zigzag."""
    return uvarint(2 * value if value >= 0 else -2 * value - 1)


def _bytes(data: bytes | None) -> bytes:
    return _NULL if data is None else _varint(len(data)) + data
