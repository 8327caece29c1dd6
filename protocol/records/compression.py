"""Compresses and decompresses record batches, by codec id (attributes bits 0-2).

Nothing is unpacked beyond the limit that the caller gives: 65 KB of zstd may unpack to gigabytes.
gzip is in the standard library. snappy, lz4 and zstd are in the package `cramjam`, which is loaded
when a batch first needs it: that takes 10 ms, and most daemons never need it.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from struct import Struct
from typing import Any

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

UNLIMITED = sys.maxsize

Decompress = Callable[[bytes, int], bytes]
"""Called with (data, limit); returns the unpacked bytes."""

_FIRST_ROOM_MIN = 4096
_ROOM_GROWTH = 8
"""Lz4 and zstd do not say how large the result is. The buffer has eight times their size at first,
then eight times that, and so on."""
_GZIP_WINDOW_BITS = 31
_FULL = "failed to write whole buffer"
"""The message of cramjam's error if the buffer is too small."""

# snappy-java's stream: this magic, two int32 versions, then blocks with an int32 length each.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_VERSIONS = b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = Struct(">i")


class UnsupportedCodec(Exception):
    """The codec id is not one of Kafka's."""

    def __init__(self, codec: int) -> None:
        super().__init__(f"unknown compression codec {codec}")
        self.codec = codec


class BadCompression(ValueError):
    """The bytes are not in the format of their codec."""


class UnpacksTooLarge(BadCompression):
    """The unpacked bytes exceed the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes when unpacked")


def decompress(codec: int, data: bytes, limit: int = UNLIMITED) -> bytes:
    """The unpacked bytes. Raises UnsupportedCodec, BadCompression, and UnpacksTooLarge if there
    would be more than `limit`."""
    if codec == NONE:
        return data
    function = _function(codec)
    try:
        return function(data, limit)
    except UnpacksTooLarge:
        raise
    except (ValueError, OSError, zlib.error) as error:
        raise BadCompression(f"{CODEC_NAMES[codec]}: {error}") from error


def compress(codec: int, data: bytes) -> bytes:
    """Compresses as Kafka's clients expect it: snappy in the blocks of snappy-java, lz4 in
    independent blocks (KIP-57). Raises UnsupportedCodec."""
    if codec == NONE:
        return data
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    if codec not in CODEC_NAMES:
        raise UnsupportedCodec(codec)
    cramjam = _cramjam()
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


def _gunzip(data: bytes, limit: int) -> bytes:
    """Unpacks all members of a gzip stream."""
    parts = []
    room = limit
    while True:
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        # One byte more than allowed is enough to show that there is too much.
        part = member.decompress(data, min(room, UNLIMITED - 1) + 1)
        if len(part) > room:
            raise UnpacksTooLarge(limit)
        if not member.eof:
            raise BadCompression("the stream is cut")
        parts.append(part)
        room -= len(part)
        data = member.unused_data.lstrip(b"\x00")
        if not data:
            return b"".join(parts)


def _function(codec: int) -> Decompress:
    try:
        return {GZIP: _gunzip, SNAPPY: _unsnappy, LZ4: _unframe_lz4, ZSTD: _unframe_zstd}[codec]
    except KeyError:
        raise UnsupportedCodec(codec) from None


def _unframe_lz4(data: bytes, limit: int) -> bytes:
    return _unframe(_cramjam().lz4.decompress_into, data, limit)


def _unframe_zstd(data: bytes, limit: int) -> bytes:
    return _unframe(_cramjam().zstd.decompress_into, data, limit)


def _unframe(decompress_into: Callable[..., Any], data: bytes, limit: int) -> bytes:
    room = min(limit, max(_FIRST_ROOM_MIN, _ROOM_GROWTH * len(data)))
    while True:
        unpacked = bytearray(room)
        try:
            size = _call(decompress_into, data, unpacked)
        except BadCompression as error:
            if _FULL not in str(error):
                raise
            if room >= limit:
                raise UnpacksTooLarge(limit) from None
            room = min(limit, _ROOM_GROWTH * room)
        else:
            return bytes(memoryview(unpacked)[:size])


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(data, limit, limit)
    parts = []
    room = limit
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        end = position + 4 + _block_length(data, position)
        parts.append(_unsnappy_block(data[position + 4 : end], room, limit))
        room -= len(parts[-1])
        position = end
    return b"".join(parts)


def _unsnappy_block(data: bytes, room: int, limit: int) -> bytes:
    """`room`: what is left of `limit`."""
    snappy = _cramjam().snappy
    size = _call(snappy.decompress_raw_len, data)
    if size > room:
        raise UnpacksTooLarge(limit)
    unpacked = bytearray(size)
    _call(snappy.decompress_raw_into, data, unpacked)
    return bytes(unpacked)


def _cramjam() -> Any:
    import cramjam

    return cramjam


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _cramjam().DecompressionError as error:
        raise BadCompression(str(error)) from error


def _block_length(data: bytes, position: int) -> int:
    if position + 4 > len(data):
        raise BadCompression("snappy block without a length")
    (length,) = _BLOCK_LENGTH.unpack_from(data, position)
    if not 0 < length <= len(data) - position - 4:
        raise BadCompression("snappy block of a wrong length")
    return int(length)
