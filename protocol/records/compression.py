"""Compression of record batches, by codec id (attributes bits 0-2).

Batches are stored and served as they came, so only readers of single records and the cleaner come
here. gzip is in the standard library; snappy, lz4 and zstd need the optional package `cramjam`
or a function given to `register`. Without one: `UnsupportedCodec`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from importlib import import_module
from struct import Struct
from typing import Any

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

Decompress = Callable[[bytes], bytes]

# snappy-java's stream: this magic, two int32 versions, then blocks with an int32 length each.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_VERSIONS = b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = Struct(">i")


class UnsupportedCodec(Exception):
    """Nothing is installed that knows the codec."""

    def __init__(self, codec: int) -> None:
        name = CODEC_NAMES.get(codec, str(codec))
        super().__init__(f"cannot read {name}: install cramjam")
        self.codec = codec


class BadCompression(ValueError):
    """The bytes are not what their codec says."""


_registered: dict[int, Decompress] = {}


def register(codec: int, decompress: Decompress) -> None:
    """Use `decompress` for `codec` from now on; it raises ValueError on bad bytes."""
    _registered[codec] = decompress


def decompress(codec: int, data: bytes) -> bytes:
    """Raises UnsupportedCodec, BadCompression."""
    if codec == NONE:
        return data
    function = _registered.get(codec) or _built_in(codec)
    try:
        return function(data)
    except (ValueError, EOFError, OSError, zlib.error) as error:
        raise BadCompression(f"{CODEC_NAMES.get(codec, codec)}: {error}") from error


def compress(codec: int, data: bytes) -> bytes:
    """As Kafka's clients expect it: snappy in the blocks of snappy-java, lz4 in independent ones
    (KIP-57). Raises UnsupportedCodec."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    cramjam = _cramjam(codec)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    if codec == LZ4:
        compressor = cramjam.lz4.Compressor(content_checksum=False, block_linked=False)
        compressor.compress(data)
        return bytes(compressor.finish())
    parts = [_XERIAL_MAGIC, _XERIAL_VERSIONS]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _cramjam(codec: int) -> Any:
    if codec not in CODEC_NAMES:
        raise UnsupportedCodec(codec)
    try:
        return import_module("cramjam")
    except ImportError:
        raise UnsupportedCodec(codec) from None


def _built_in(codec: int) -> Decompress:
    if codec == GZIP:
        return gzip.decompress
    return _with_cramjam(_cramjam(codec), codec)


def _with_cramjam(cramjam: Any, codec: int) -> Decompress:
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
