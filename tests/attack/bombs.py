"""Record batches that cost much more than they weigh, as bytes to be sent in a Produce.

Each function builds one batch, with one of Kafka's codecs. `size`: what its records unpack to.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import cramjam

from groupd.protocol.records.batch_builder import encode_record, new_header, pack_batch
from groupd.protocol.records.varints import zigzag

NOW_MS = 1_700_000_000_000
MB = 1 << 20
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CODECS: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "none": (0, bytes),
    "gzip": (GZIP, lambda data: gzip.compress(data, mtime=0)),
    "snappy": (SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "xerial": (SNAPPY, lambda data: _xerial([bytes(cramjam.snappy.compress_raw(data))])),
    "lz4": (LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
}
"""Name -> (Kafka's number, function that packs)."""


def packed(number: int, data: bytes, count: int) -> bytes:
    """The batch whose header claims `count` records. `data`: the compressed records."""
    header = new_header(
        0, count - 1, NOW_MS, NOW_MS, leader_epoch=-1, attributes=number, record_count=count
    )
    return pack_batch(header._replace(base_sequence=-1), data)


def batch(codec: str, records: bytes, count: int) -> bytes:
    number, pack = CODECS[codec]
    return packed(number, pack(records), count)


def _xerial(blocks: list[bytes]) -> bytes:
    """snappy-java's stream."""
    framed = (struct.pack(">i", len(block)) + block for block in blocks)
    return b"\x82SNAPPY\x00" + bytes.fromhex("0000000100000001") + b"".join(framed)


def _with_headers(delta: int, count: int) -> bytes:
    """A record with headers whose names have no length and whose values are null."""
    body = b"\x00\x00" + zigzag(delta) + b"\x02k\x01" + zigzag(count) + b"\x00\x01" * count
    return zigzag(len(body)) + body


def zeros(codec: str, size: int = 1024 * MB) -> bytes:
    """Claims one record. In zstd a gigabyte weighs 33 KB."""
    if codec != "zstd":
        return batch(codec, bytes(size), 1)
    frame = bytes(cramjam.zstd.compress(bytes(MB)))
    return packed(ZSTD, frame * (size // MB), 1)


def one_value(codec: str, size: int = 30 * MB) -> bytes:
    """One sound record whose value is that long."""
    return batch(codec, encode_record(0, b"k", bytes(size)), 1)


def one_key(codec: str, size: int = 30 * MB) -> bytes:
    """One sound record whose key is that long."""
    return batch(codec, encode_record(0, bytes(size), b"v"), 1)


def many_headers(codec: str, size: int = 30 * MB) -> bytes:
    """One sound record with millions of headers."""
    return batch(codec, _with_headers(0, size // 2), 1)


def headers_each(codec: str, size: int = 30 * MB) -> bytes:
    """Sound records with 10,000 headers each."""
    count = size // 20_000
    return batch(codec, b"".join(_with_headers(delta, 10_000) for delta in range(count)), count)


def small_records(codec: str, size: int = 30 * MB) -> bytes:
    """Sound records as small as they can be in a compacted topic: with a key of no length."""
    parts, left, count = [], size, 0
    while left > 0:
        parts.append(encode_record(count, b"", None))
        left -= len(parts[-1])
        count += 1
    return batch(codec, b"".join(parts), count)


def equal_records(codec: str, size: int = 30 * MB) -> bytes:
    """Millions of the same record of 8 bytes: all claim the first offset."""
    record = encode_record(0, b"k", None)
    count = size // len(record)
    return batch(codec, record * count, count)


def claimed_records(codec: str) -> bytes:
    """One small record in a batch that claims two billions."""
    return batch(codec, encode_record(0, b"k", b"v"), 2**31 - 1)


def empty_parts(codec: str, size: int = MB - 1000) -> bytes:
    """`size` bytes made of empty parts: gzip members, zstd or lz4 frames, or snappy blocks."""
    number, pack = CODECS[codec]
    part = bytes(cramjam.snappy.compress_raw(b"")) if codec == "xerial" else pack(b"")
    count = size // (len(part) + (4 if codec == "xerial" else 0))
    data = _xerial([part] * count) if codec == "xerial" else part * count
    return packed(number, data, 1)


BOMBS: dict[str, Callable[[str], bytes]] = {
    "a gigabyte of zeros": zeros,
    "one value of 30 MB": one_value,
    "one key of 30 MB": one_key,
    "a record with 15 million headers": many_headers,
    "records with 10,000 headers each": headers_each,
    "millions of small records": small_records,
    "millions of records at one offset": equal_records,
    "two billion records claimed": claimed_records,
    "empty members, frames or blocks": empty_parts,
}
"""What it is -> builder, which takes the codec's name."""
