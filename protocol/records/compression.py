"""Decompression of record batches, by codec id (attributes bits 0-2).

Batches are stored and served as they came, so only tools and readers of single records come
here. gzip is in the standard library; snappy, lz4 and zstd are in the package `cramjam`, which
is loaded when a batch first needs it: that takes 10 ms, and most daemons never do.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from struct import Struct
from typing import Any

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

Decompress = Callable[[bytes], bytes]

# snappy-java's stream: this magic, two int32 versions, then blocks with an int32 length each.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_BLOCK_LENGTH = Struct(">i")


class UnsupportedCodec(Exception):
    """The codec id is none of Kafka's."""

    def __init__(self, codec: int) -> None:
        super().__init__(f"unknown compression codec {codec}")
        self.codec = codec


class BadCompression(ValueError):
    """The bytes are not what their codec says."""


def decompress(codec: int, data: bytes) -> bytes:
    """Raises UnsupportedCodec, BadCompression."""
    if codec == NONE:
        return data
    function = _function(codec)
    try:
        return function(data)
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise BadCompression(f"{CODEC_NAMES[codec]}: {error}") from error


def _function(codec: int) -> Decompress:
    if codec == GZIP:
        return gzip.decompress
    if codec not in CODEC_NAMES:
        raise UnsupportedCodec(codec)
    import cramjam

    library = {SNAPPY: cramjam.snappy, LZ4: cramjam.lz4, ZSTD: cramjam.zstd}[codec]

    def call(function: Callable[[bytes], Any], data: bytes) -> bytes:
        try:
            return bytes(function(data))
        except cramjam.DecompressionError as error:
            raise BadCompression(str(error)) from error

    def snappy(data: bytes) -> bytes:
        if not data.startswith(_XERIAL_MAGIC):
            return call(library.decompress_raw, data)
        out = []
        position = _XERIAL_HEADER_BYTES
        while position < len(data):
            block = data[position + 4 : position + 4 + _block_length(data, position)]
            out.append(call(library.decompress_raw, block))
            position += 4 + len(block)
        return b"".join(out)

    return snappy if codec == SNAPPY else lambda data: call(library.decompress, data)


def _block_length(data: bytes, position: int) -> int:
    if position + 4 > len(data):
        raise BadCompression("snappy block without a length")
    (length,) = _BLOCK_LENGTH.unpack_from(data, position)
    if not 0 < length <= len(data) - position - 4:
        raise BadCompression("snappy block of a wrong length")
    return int(length)
