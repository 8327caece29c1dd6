"""Compresses and decompresses record batches, by codec id (attributes bits 0-2).

Nothing is unpacked beyond the limit that the caller gives: 65 KB of zstd may unpack to gigabytes. A
large result is written to a memory mapping of its own: its pages take memory only once they are
written, and the system gets them back at once.

gzip is in the standard library. snappy, lz4 and zstd are in the package `cramjam`, which is loaded
when a batch first needs it: that takes 10 ms, and most daemons never need it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from mmap import ACCESS_COPY, mmap
from struct import Struct
from typing import Any, NamedTuple

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = {NONE: "none", GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}

UNPACKED_MAX_BYTES = 1 << 30
"""The limit for callers that know no better one: more than any client puts into one batch."""

_SMALL_BYTES = 1 << 20
"""Up to this size the unpacked bytes are an ordinary object, beyond it a memory mapping."""
_FIRST_ROOM_MIN = 4096
_ROOM_GROWTH = 8
"""lz4 and zstd do not say how large the result is. The buffer first has eight times the compressed
size. If that is too small, it grows eightfold up to `_SMALL_BYTES`, and then to the limit."""
_FULL = "failed to write whole buffer"
"""The text of cramjam's error when the buffer is too small."""

_PARTS_MIN = 256
_PART_BYTES_MIN = 1024
"""Data may have `_PARTS_MIN` gzip members or snappy blocks, and one more for each 1024 bytes that
it unpacks to. Clients write one gzip member, and snappy blocks of 32 KB. Many empty ones would only
cost time."""

_GZIP_WINDOW_BITS = 31
_GZIP_LEVEL = 9
_GZIP_READ_BYTES = 16 * 1024
_GZIP_PIECE_BYTES = 128 * 1024

# The stream of snappy-java: this magic, two int32 versions, then blocks with an int32 length each.
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_VERSIONS = b"\x00\x00\x00\x01" * 2
_XERIAL_BLOCK_BYTES = 32 * 1024
_BLOCK_LENGTH = Struct(">i")
_SIZE_BYTES_MAX = 5
"""A snappy block begins with its unpacked size, a varint of at most this many bytes."""


class Plain(NamedTuple):
    """Bytes that are not compressed: those of `data` from `start` up to `end`."""

    data: bytes | mmap
    start: int
    end: int


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
        self.limit = limit


def decompress(codec: int, data: bytes, limit: int = UNPACKED_MAX_BYTES) -> Plain:
    """Returns the unpacked bytes. Raises UnsupportedCodec, BadCompression, and UnpacksTooLarge if
    there are more than `limit` bytes."""
    if codec == NONE:
        return Plain(data, 0, len(data))
    function = _function(codec)
    try:
        return function(data, limit)
    except UnpacksTooLarge:
        raise
    except (ValueError, OSError, zlib.error) as error:
        raise BadCompression(f"{CODEC_NAMES[codec]}: {error}") from error


def _function(codec: int) -> Callable[[bytes, int], Plain]:
    try:
        return {GZIP: _gunzip, SNAPPY: _unsnappy, LZ4: _unframe_lz4, ZSTD: _unframe_zstd}[codec]
    except KeyError:
        raise UnsupportedCodec(codec) from None


def _mapping(size: int) -> mmap:
    try:
        return mmap(-1, size, access=ACCESS_COPY)
    except OSError as error:
        raise MemoryError(f"no {size} bytes to unpack a batch") from error


def _check_parts(count: int, size: int) -> None:
    """Raises BadCompression if there are too many parts for `size` unpacked bytes."""
    if count > _PARTS_MIN + size // _PART_BYTES_MIN:
        raise BadCompression(f"{count} parts of {size} bytes")


def _gunzip(data: bytes, limit: int) -> Plain:
    small: list[bytes] = []
    large: mmap | None = None
    size = 0
    for count, piece in enumerate(_gunzipped(data), 1):
        start, size = size, size + len(piece)
        if size > limit:
            raise UnpacksTooLarge(limit)
        _check_parts(count, size)
        if large is None and size > _SMALL_BYTES:
            large = _mapping(limit)
            large[:start] = b"".join(small)
            small = []
        if large is None:
            small.append(piece)
        else:
            large[start:size] = piece
    return Plain(b"".join(small) if large is None else large, 0, size)


def _gunzipped(data: bytes) -> Iterator[bytes]:
    """Yields all members of a gzip stream in pieces, of which some are empty; one or more per
    member."""
    member = zlib.decompressobj(_GZIP_WINDOW_BITS)
    rest, at = b"", 0
    while True:
        if not rest:
            rest, at = data[at : at + _GZIP_READ_BYTES], at + _GZIP_READ_BYTES
        piece = member.decompress(rest, _GZIP_PIECE_BYTES)
        rest = member.unconsumed_tail
        yield piece
        if member.eof:
            rest = member.unused_data.lstrip(b"\x00")
            while not rest and at < len(data):
                rest = data[at : at + _GZIP_READ_BYTES].lstrip(b"\x00")
                at += _GZIP_READ_BYTES
            if not rest:
                return
            member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        elif not piece and not rest and at >= len(data):
            raise BadCompression("the stream is cut")


def _unframe_lz4(data: bytes, limit: int) -> Plain:
    return _unframe(_cramjam().lz4.decompress_into, data, limit)


def _unframe_zstd(data: bytes, limit: int) -> Plain:
    return _unframe(_cramjam().zstd.decompress_into, data, limit)


def _unframe(decompress_into: Callable[..., Any], data: bytes, limit: int) -> Plain:
    room = min(limit, max(_FIRST_ROOM_MIN, _ROOM_GROWTH * len(data)))
    while True:
        try:
            return _filled(room, lambda into: _call(decompress_into, data, into))
        except BadCompression as error:
            if _FULL not in str(error):
                raise
            if room >= limit:
                raise UnpacksTooLarge(limit) from None
            larger = _ROOM_GROWTH * room
            room = min(larger if larger <= _SMALL_BYTES else limit, limit)


def _filled(room: int, fill: Callable[[bytearray | mmap], int]) -> Plain:
    """Returns the bytes that `fill`, which returns their number, writes into a buffer of `room`
    bytes."""
    if room > _SMALL_BYTES:
        large = _mapping(room)
        return Plain(large, 0, fill(large))
    small = bytearray(room)
    size = fill(small)
    return Plain(bytes(memoryview(small)[:size]), 0, size)


def _unsnappy(data: bytes, limit: int) -> Plain:
    snappy = _cramjam().snappy
    if data.startswith(_XERIAL_MAGIC):
        return _unxerial(snappy, data, limit)
    size = _call(snappy.decompress_raw_len, data)
    if size > limit:
        raise UnpacksTooLarge(limit)
    return _filled(size, lambda into: int(_call(snappy.decompress_raw_into, data, into)))


def _unxerial(snappy: Any, data: bytes, limit: int) -> Plain:
    """Returns the unpacked bytes of all blocks, each of which says how large it is."""
    places: list[tuple[int, int, int]] = []
    total = 0
    for count, (start, end) in enumerate(_xerial_blocks(data), 1):
        size = _call(snappy.decompress_raw_len, data[start : min(end, start + _SIZE_BYTES_MAX)])
        total += size
        if total > limit:
            raise UnpacksTooLarge(limit)
        _check_parts(count, total)
        places.append((start, end, size))

    def fill(into: bytearray | mmap) -> int:
        at = 0
        with memoryview(into) as room:
            for start, end, size in places:
                block = room[at : at + size]
                at += _call(snappy.decompress_raw_into, data[start:end], block)
        return at

    return _filled(total, fill)


def _xerial_blocks(data: bytes) -> Iterator[tuple[int, int]]:
    """Yields (start, end) of each block."""
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        end = position + 4 + _block_length(data, position)
        yield position + 4, end
        position = end


def _block_length(data: bytes, position: int) -> int:
    if position + 4 > len(data):
        raise BadCompression("snappy block without a length")
    (length,) = _BLOCK_LENGTH.unpack_from(data, position)
    if not 0 < length <= len(data) - position - 4:
        raise BadCompression("snappy block of a wrong length")
    return int(length)


def compress(codec: int, data: bytes) -> bytes:
    """Compresses all of the data at once, see `Compressor`."""
    compressor = Compressor(codec)
    compressor.add(data)
    return compressor.finish()


class Compressor:
    """Compresses piece by piece, in the forms that Kafka's clients expect: snappy in the blocks of
    snappy-java, lz4 in independent blocks (KIP-57). Raises UnsupportedCodec."""

    def __init__(self, codec: int) -> None:
        if codec not in CODEC_NAMES:
            raise UnsupportedCodec(codec)
        self._parts: list[bytes] = []
        self._block = b""
        """Bytes that do not yet fill a snappy block."""
        self._codec = codec
        if codec == GZIP:
            self._gzip = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
        elif codec == SNAPPY:
            self._parts += (_XERIAL_MAGIC, _XERIAL_VERSIONS)
        elif codec == LZ4:
            lz4 = _cramjam().lz4
            self._frame = lz4.Compressor(content_checksum=False, block_linked=False)
        elif codec == ZSTD:
            self._frame = _cramjam().zstd.Compressor()

    def add(self, data: bytes) -> None:
        if self._codec == NONE:
            self._parts.append(data)
        elif self._codec == GZIP:
            self._parts.append(self._gzip.compress(data))
        elif self._codec == SNAPPY:
            data = self._block + data
            whole = len(data) - len(data) % _XERIAL_BLOCK_BYTES
            for start in range(0, whole, _XERIAL_BLOCK_BYTES):
                self._add_block(data[start : start + _XERIAL_BLOCK_BYTES])
            self._block = data[whole:]
        else:
            self._frame.compress(data)

    def finish(self) -> bytes:
        """Returns the compressed bytes of all pieces."""
        if self._codec == GZIP:
            self._parts.append(self._gzip.flush())
        elif self._codec == SNAPPY and self._block:
            self._add_block(self._block)
        elif self._codec in (LZ4, ZSTD):
            return bytes(self._frame.finish())
        return b"".join(self._parts)

    def _add_block(self, data: bytes) -> None:
        block = bytes(_cramjam().snappy.compress_raw(data))
        self._parts += (_BLOCK_LENGTH.pack(len(block)), block)


def _cramjam() -> Any:
    import cramjam

    return cramjam


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except _cramjam().DecompressionError as error:
        raise BadCompression(str(error)) from error
