"""Unpacking within bounds: of memory, and of work that brings no bytes."""

from __future__ import annotations

import os

import pytest

from groupd.protocol.records.batch import HEADER_BYTES
from groupd.protocol.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    SNAPPY,
    ZSTD,
    BadCompression,
    Compressor,
    UnpacksTooLarge,
    UnsupportedCodec,
    compress,
    decompress,
)
from tests.attack import bombs
from tests.support.mappings import counted_memory

MB = 1 << 20
CODECS = ["gzip", "snappy", "xerial", "lz4", "zstd"]


def body(batch: bytes) -> bytes:
    return batch[HEADER_BYTES:]


@pytest.mark.parametrize("codec", CODECS)
def test_se_89_more_than_the_limit_takes_no_more_memory_than_the_limit(codec: str) -> None:
    number, limit = bombs.CODECS[codec][0], 8 * MB
    bomb = body(bombs.zeros(codec, 40 * MB))
    said = f"more than {limit} bytes"
    with counted_memory() as memory, pytest.raises(UnpacksTooLarge, match=said):
        decompress(number, bomb, limit)
    assert memory.now == 0
    assert memory.most <= limit
    assert memory.traced < 3 * MB


@pytest.mark.parametrize("codec", CODECS)
def test_what_unpacks_to_much_is_in_memory_once(codec: str) -> None:
    number, size = bombs.CODECS[codec][0], 8 * MB
    data = os.urandom(1000) * (size // 1000)
    packed = bombs.CODECS[codec][1](data)
    with counted_memory() as memory:
        plain = decompress(number, packed, 16 * MB)
        assert (plain.start, plain.end) == (0, len(data))
    assert memory.most <= 16 * MB  # of which only what is written becomes memory
    assert memory.traced < 3 * MB
    assert plain.data[: plain.end] == data


@pytest.mark.parametrize("codec", ["gzip", "xerial"])
def test_parts_without_content_are_refused(codec: str) -> None:
    """The parts in the first kilobytes are enough to refuse it: the others are not looked at."""
    number = bombs.CODECS[codec][0]
    for size in (20_000, MB):
        with pytest.raises(BadCompression, match="257 parts of 0 bytes"):
            decompress(number, body(bombs.empty_parts(codec, size)), 32 * MB)


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_frames_without_content_unpack_to_nothing(codec: str) -> None:
    plain = decompress(bombs.CODECS[codec][0], body(bombs.empty_parts(codec)), 32 * MB)
    assert plain.end == 0


@pytest.mark.parametrize("codec", CODEC_NAMES)
@pytest.mark.parametrize("size", [0, 1, 32 * 1024, 100_000, 3 * MB])
def test_pieces_are_packed_as_the_whole(codec: int, size: int) -> None:
    data = (os.urandom(500) * (size // 500 + 1))[:size]
    compressor = Compressor(codec)
    for at in range(0, size, 10_000):
        compressor.add(data[at : at + 10_000])
    for packed in (compressor.finish(), compress(codec, data)):
        plain = decompress(codec, packed)
        assert plain.data[plain.start : plain.end] == data


def test_an_unknown_codec() -> None:
    for use in (lambda: decompress(6, b""), lambda: Compressor(6)):
        with pytest.raises(UnsupportedCodec):
            use()


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_a_size_that_is_not_there(codec: int) -> None:
    """A beginning that promises gigabytes, and nothing behind it."""
    promise = {
        GZIP: b"\x1f\x8b\x08\x00" + bytes(6),
        SNAPPY: b"\xff\xff\xff\xff\x0f",
        LZ4: bytes.fromhex("04224d184c40ffffffffff00000000"),
        ZSTD: bytes.fromhex("28b52ffda0ffffff7f"),
    }[codec]
    with counted_memory() as memory, pytest.raises(BadCompression):
        decompress(codec, promise, 32 * MB)
    assert memory.most <= 32 * MB
    assert memory.traced < 3 * MB
