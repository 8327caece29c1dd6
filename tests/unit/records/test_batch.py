"""Record batches: the worked bytes of the format, damage, and round trips."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
from struct import Struct
from typing import Any

import cramjam
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records import batch, compression
from groupd.protocol.records.batch_builder import KeyValue, encode_batch, encode_marker

NOW_MS = 1700000000000
KEY = bytes.fromhex("0001 0002 6731 0006 6f7264657273 00000003")
VALUE = bytes.fromhex(
    "0004 000000000000002a 00000005 026d 0000018bcfe56800 01 00 10 00112233445566778899aabbccddeeff"
)
PLAIN = bytes.fromhex(
    "0000000000000007 00000076 00000000 02 fe4ac408 0000 00000000"
    "0000018bcfe56800 0000018bcfe56800 ffffffffffffffff ffff 00000000 00000001"
    "8601 00 00 00 24" + KEY.hex() + "56" + VALUE.hex() + "00"
)
MARKER = bytes.fromhex(
    "0000000000000009 00000042 00000000 02 954be106 0030 00000000"
    "0000018bcfe56800 0000018bcfe56800 00000000000003e8 0000 ffffffff 00000001"
    "20 00 00 00 08 00000001 0c 000000000003 00"
)


def test_lg_01_plain_batch() -> None:
    assert encode_batch(7, 0, NOW_MS, [(KEY, VALUE)]) == PLAIN
    assert len(PLAIN) == 130


def test_lg_01_tombstone() -> None:
    encoded = encode_batch(8, 0, NOW_MS, [(KEY, None)])
    assert encoded[8:12].hex() == "0000004a"
    assert encoded[17:21].hex() == "00f74a05"
    assert encoded[61:] == bytes.fromhex("30 00 00 00 24") + KEY + bytes.fromhex("01 00")


def test_lg_01_commit_marker() -> None:
    encoded = encode_marker(9, 0, NOW_MS, 1000, 0, 3, commit=True)
    assert encoded == MARKER
    (record,) = batch.iter_records(encoded)
    assert batch.decode_marker(record) == batch.MarkerRecord(committed=True, coordinator_epoch=3)


def test_abort_marker_and_other_control_records() -> None:
    abort = encode_marker(0, 0, 0, 5, 2, 9, commit=False)
    header = batch.check(abort)
    assert header.is_control
    assert header.is_transactional
    (record,) = batch.iter_records(abort)
    assert batch.decode_marker(record) == batch.MarkerRecord(committed=False, coordinator_epoch=9)
    leader_change = batch.BatchRecord(0, 0, bytes.fromhex("00000002"), b"")
    assert batch.decode_marker(leader_change) is None
    for key, value in ((b"\x00", b""), (bytes.fromhex("00000001"), b"\x00\x00"), (None, None)):
        with pytest.raises(batch.CorruptBatch):
            batch.decode_marker(batch.BatchRecord(0, 0, key, value))


def test_header_fields() -> None:
    header = batch.parse_header(b"??" + MARKER, 2)
    assert header.base_offset == 9
    assert (header.size, header.magic, header.leader_epoch) == (78, 2, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1000, 0, -1)
    assert (header.last_offset, header.next_offset, header.codec) == (9, 10, 0)
    assert not header.is_log_append_time


@pytest.mark.parametrize("position", range(17, len(PLAIN)))
def test_lg_02_any_flipped_byte_from_the_crc_on(position: int) -> None:
    damaged = bytearray(PLAIN)
    damaged[position] ^= 0x40
    assert not batch.verify_crc(damaged)
    with pytest.raises(batch.CorruptBatch):
        batch.check(bytes(damaged))


def test_crc_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("size", range(len(PLAIN)))
def test_cut_batches_are_corrupt(size: int) -> None:
    with pytest.raises(batch.CorruptBatch):
        batch.check(PLAIN[:size])
    if size:
        with pytest.raises(batch.CorruptBatch):
            list(batch.iter_batches(MARKER + PLAIN[:size]))


def test_trailing_bytes_are_corrupt() -> None:
    with pytest.raises(batch.CorruptBatch):
        batch.check(PLAIN + b"\x00")


def test_old_message_sets_are_refused() -> None:
    message_set = bytearray(PLAIN)
    message_set[16] = 1
    with pytest.raises(batch.UnsupportedMagic):
        batch.parse_header(bytes(message_set[:40]))


def _resealed(payload: bytes, position: int, new: bytes) -> bytes:
    """`payload` with bytes replaced and the right checksum and length."""
    out = bytearray(payload)
    out[position : position + len(new)] = new
    out[8:12] = (len(out) - 12).to_bytes(4, "big")
    out[17:21] = crc32c(bytes(out[21:])).to_bytes(4, "big")
    return bytes(out)


@pytest.mark.parametrize(
    ("position", "new"),
    [
        pytest.param(23, bytes.fromhex("ffffffff"), id="last-offset-delta-negative"),
        pytest.param(57, bytes.fromhex("00000002"), id="more-records-than-offsets"),
        pytest.param(57, bytes.fromhex("ffffffff"), id="record-count-negative"),
    ],
)
def test_senseless_counts(position: int, new: bytes) -> None:
    with pytest.raises(batch.CorruptBatch):
        batch.check(_resealed(PLAIN, position, new))


@pytest.mark.parametrize(
    ("position", "new"),
    [
        pytest.param(61, bytes.fromhex("8801"), id="record-too-long"),
        pytest.param(66, bytes.fromhex("7e"), id="key-length"),
        pytest.param(61, b"\xff" * 12, id="endless-varint"),
        pytest.param(57, bytes.fromhex("00000002"), id="missing-record"),
        pytest.param(57, bytes.fromhex("00000000"), id="bytes-left"),
        pytest.param(len(PLAIN) - 1, b"\x02", id="header-missing"),
    ],
)
def test_records_that_do_not_parse(position: int, new: bytes) -> None:
    with pytest.raises(batch.CorruptBatch):
        list(batch.iter_records(_resealed(PLAIN, position, new)))


def test_no_batch_without_records() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        encode_batch(0, 0, 0, [])


def test_emptied_batch_is_a_bare_header() -> None:
    bare = _resealed(PLAIN[:61], 57, bytes(4))
    assert batch.check(bare).next_offset == 8
    assert list(batch.iter_records(bare)) == []


def test_moving_a_batch_keeps_its_checksum() -> None:
    moved = batch.with_base_offset(PLAIN, 1 << 40, 12)
    header = batch.check(moved)
    assert (header.base_offset, header.leader_epoch) == (1 << 40, 12)
    assert moved[8:12] == PLAIN[8:12]
    assert moved[16:] == PLAIN[16:]
    assert batch.with_base_offset(memoryview(moved), 7, 0) == PLAIN


def test_log_append_time_counts_for_every_record() -> None:
    payload = encode_batch(0, 0, 1000, [(b"a", None), (b"b", None)])
    stamped = batch.with_log_append_time(payload, 5000)
    header = batch.check(stamped)
    assert (header.is_log_append_time, header.max_timestamp_ms) == (True, 5000)
    assert header.base_timestamp_ms == 1000
    assert [record.timestamp_ms for record in batch.iter_records(stamped)] == [5000, 5000]


def test_timestamp_deltas_and_headers() -> None:
    # One record: delta -3 ms, key null, value "v", headers k=null and l="x".
    record = bytes.fromhex("18 00 05 00 01 02 76 04 02 6b 01 02 6c 02 78".replace(" ", ""))
    record = bytes([2 * (len(record) - 1)]) + record[1:]
    payload = _resealed(PLAIN[:61] + record, 0, b"")
    assert list(batch.iter_records(payload)) == [
        batch.BatchRecord(7, NOW_MS - 3, None, b"v", (("k", None), ("l", b"x")))
    ]


_BYTES = st.none() | st.binary(max_size=300)


@given(
    base_offset=st.integers(0, 2**62),
    leader_epoch=st.integers(0, 2**31 - 1),
    timestamp_ms=st.integers(-1, 2**60),
    records=st.lists(st.tuples(_BYTES, _BYTES), min_size=1, max_size=5),
    producer=st.tuples(st.integers(-1, 2**62), st.integers(-1, 2**15 - 1)),
    transactional=st.booleans(),
)
def test_round_trip(
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    records: list[KeyValue],
    producer: tuple[int, int],
    transactional: bool,
) -> None:
    payload = encode_batch(
        base_offset, leader_epoch, timestamp_ms, records, *producer, transactional=transactional
    )
    header = batch.check(payload)
    assert header.base_offset == base_offset
    assert header.next_offset == base_offset + len(records)
    assert (header.producer_id, header.producer_epoch) == producer
    assert header.is_transactional == transactional
    assert [*batch.iter_records(batch.Batch(header, payload))] == [
        batch.BatchRecord(base_offset + delta, timestamp_ms, key, value)
        for delta, (key, value) in enumerate(records)
    ]


@given(st.binary(max_size=200))
def test_garbage_raises_only_our_errors(data: bytes) -> None:
    payload = _resealed(PLAIN[:61] + data, 0, b"")
    with contextlib.suppress(batch.CorruptBatch):
        list(batch.iter_records(payload))


def test_many_batches_and_records() -> None:
    first = encode_batch(0, 0, 1, [(b"k", bytes(i)) for i in range(3000)])
    second = encode_batch(3000, 0, 2, [(None, b"")])
    batches = list(batch.iter_batches(memoryview(first + second)))
    assert [item.payload for item in batches] == [first, second]
    records = [record for item in batches for record in batch.iter_records(item)]
    assert [record.offset for record in records] == list(range(3001))
    assert [len(record.value or b"") for record in records[:3000]] == list(range(3000))


def _compressed(codec: int, data: bytes) -> bytes:
    return _resealed(PLAIN[:61] + data, 21, codec.to_bytes(2, "big"))


def _xerial(data: bytes) -> bytes:
    length, step = Struct(">i"), max(40, len(data) // 200)
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[i : i + step])) for i in range(0, len(data), step)
    ]
    return (
        b"\x82SNAPPY\x00"
        + bytes.fromhex("0000000100000001")
        + b"".join(length.pack(len(block)) + block for block in blocks)
    )


@pytest.mark.parametrize("codec", ["gzip", "snappy-raw", "snappy-xerial", "lz4", "zstd"])
def test_compressed_records(codec: str) -> None:
    plain = PLAIN[61:]
    if codec == "gzip":
        payload = _compressed(compression.GZIP, gzip.compress(plain))
    else:
        payload = {
            "snappy-raw": lambda: _compressed(2, bytes(cramjam.snappy.compress_raw(plain))),
            "snappy-xerial": lambda: _compressed(2, _xerial(plain)),
            "lz4": lambda: _compressed(3, bytes(cramjam.lz4.compress(plain))),
            "zstd": lambda: _compressed(4, bytes(cramjam.zstd.compress(plain))),
        }[codec]()
    assert list(batch.iter_records(payload)) == [batch.BatchRecord(7, NOW_MS, KEY, VALUE)]


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("data", [b"\x82SNAPPY\x00" + bytes(10), b"not compressed at all"])
def test_bad_compression(codec: int, data: bytes) -> None:
    with pytest.raises(batch.CorruptBatch):
        list(batch.iter_records(_compressed(codec, data)))


def test_unknown_codec() -> None:
    with pytest.raises(compression.UnsupportedCodec, match="unknown compression codec 6"):
        list(batch.iter_records(_compressed(6, b"x")))


def _packed(codec: str, plain: bytes) -> tuple[int, bytes]:
    return {
        "gzip": lambda: (1, gzip.compress(plain)),
        "gzip-members": lambda: (1, gzip.compress(plain[:9]) + gzip.compress(plain[9:])),
        "snappy-raw": lambda: (2, bytes(cramjam.snappy.compress_raw(plain))),
        "snappy-xerial": lambda: (2, _xerial(plain)),
        "lz4": lambda: (3, bytes(cramjam.lz4.compress(plain))),
        "zstd": lambda: (4, bytes(cramjam.zstd.compress(plain))),
    }[codec]()


def _unpacked(*how: Any) -> bytes:
    data, start, end = compression.decompress(*how)
    return data[start:end]


CODECS = ["gzip", "gzip-members", "snappy-raw", "snappy-xerial", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [10, 5_000, 1_000_000])
def test_nothing_is_unpacked_beyond_the_limit(codec: str, size: int) -> None:
    number, data = _packed(codec, b"a" * size)
    assert _unpacked(number, data) == b"a" * size
    assert _unpacked(number, data, size) == b"a" * size
    with pytest.raises(compression.UnpacksTooLarge, match=f"more than {size - 1} bytes"):
        compression.decompress(number, data, size - 1)


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_data_that_is_cut(codec: str) -> None:
    number, data = _packed(codec, bytes(range(256)) * 4)
    for end in (0, 1, len(data) // 2, len(data) - 1):
        if end == 0 and codec == "snappy-xerial":
            continue
        with pytest.raises(compression.BadCompression):
            compression.decompress(number, data[:end])


def test_a_bomb_takes_no_memory_beyond_the_limit() -> None:
    """64 KB of zstd that stand for 2 GB."""
    bomb = bytes(cramjam.zstd.compress(bytes(2**26))) * 32
    assert len(bomb) < 70_000
    tracemalloc.start()
    try:
        with pytest.raises(compression.UnpacksTooLarge):
            compression.decompress(4, bomb, 2**20)
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()
