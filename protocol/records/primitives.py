"""Primitive types of record keys and values, in both of Kafka's encodings.

The older encoding has fixed-width lengths (int16 for strings, int32 for bytes and arrays, -1 for
null); the flexible one (KIP-482) has unsigned varints of length + 1 (0 for null) and ends every
struct with tagged fields. Writers are functions that return bytes, so that an encoder is one
`b"".join`; a `Reader` walks over one key or value. What a reader raises on bad bytes is an
implementation detail: `codec` turns it into `CorruptRecord`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TypeVar

INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")

_INT16_MAX = 0x7FFF
_UVARINT_BYTES_MAX = 5

T = TypeVar("T")

NULL_STRING = b"\xff\xff"
COMPACT_NULL = b"\x00"
NO_TAGS = b"\x00"


class BadBytes(ValueError):
    """The bytes do not hold what the format says."""


def uvarint(value: int) -> bytes:
    """Unsigned varint, 7 bits a byte, low bits first. `value` >= 0."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(value: str) -> bytes:
    """Older encoding. Raises ValueError beyond 32767 bytes, which the format cannot hold."""
    raw = value.encode()
    if len(raw) > _INT16_MAX:
        raise ValueError(f"a string of {len(raw)} bytes does not fit a record (at most 32767)")
    return INT16.pack(len(raw)) + raw


def nullable_string(value: str | None) -> bytes:
    return NULL_STRING if value is None else string(value)


def blob(value: bytes) -> bytes:
    return INT32.pack(len(value)) + value


def compact_string(value: str) -> bytes:
    raw = value.encode()
    return uvarint(len(raw) + 1) + raw


def compact_nullable_string(value: str | None) -> bytes:
    return COMPACT_NULL if value is None else compact_string(value)


def compact_blob(value: bytes) -> bytes:
    return uvarint(len(value) + 1) + value


def compact_array(items: Sequence[T], item: Callable[[T], bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join([item(value) for value in items])


def compact_int32_array(values: Sequence[int]) -> bytes:
    return uvarint(len(values) + 1) + Struct(f">{len(values)}i").pack(*values)


def tagged(tag: int, payload: bytes) -> bytes:
    """One tagged field as the only one of its struct: count, tag, size, payload."""
    return b"\x01" + uvarint(tag) + uvarint(len(payload)) + payload


class Reader:
    """Reads primitives off `data` from `position` on."""

    __slots__ = ("data", "flexible", "position")

    def __init__(self, data: bytes, position: int = 0, flexible: bool = False) -> None:
        self.data = data
        self.position = position
        self.flexible = flexible

    def int8(self) -> int:
        value = self.data[self.position]
        self.position += 1
        return value - 256 if value > 127 else value

    def int16(self) -> int:
        (value,) = INT16.unpack_from(self.data, self.position)
        self.position += 2
        return int(value)

    def int32(self) -> int:
        (value,) = INT32.unpack_from(self.data, self.position)
        self.position += 4
        return int(value)

    def int64(self) -> int:
        (value,) = INT64.unpack_from(self.data, self.position)
        self.position += 8
        return int(value)

    def uvarint(self) -> int:
        value = 0
        for index in range(_UVARINT_BYTES_MAX):
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise BadBytes("varint too long")

    def take(self, length: int) -> bytes:
        end = self.position + length
        if length < 0 or end > len(self.data):
            raise BadBytes(f"{length} bytes wanted at {self.position} of {len(self.data)}")
        value = self.data[self.position : end]
        self.position = end
        return value

    def uuid(self) -> bytes:
        return self.take(16)

    def string(self) -> str:
        return self.take(self.uvarint() - 1 if self.flexible else self.int16()).decode()

    def nullable_string(self) -> str | None:
        length = self.uvarint() - 1 if self.flexible else self.int16()
        return None if length == -1 else self.take(length).decode()

    def blob(self) -> bytes:
        return self.take(self.uvarint() - 1 if self.flexible else self.int32())

    def _length(self) -> int:
        length = self.uvarint() - 1 if self.flexible else self.int32()
        if length < 0:
            raise BadBytes("null array")
        return length

    def array(self, item: Callable[[], T]) -> tuple[T, ...]:
        """`item()` reads one element with this reader."""
        return tuple([item() for _ in range(self._length())])

    def int32_array(self) -> tuple[int, ...]:
        return self._int32s(self._length())

    def nullable_int32_array(self) -> tuple[int, ...] | None:
        length = self.uvarint() - 1
        return None if length < 0 else self._int32s(length)

    def _int32s(self, length: int) -> tuple[int, ...]:
        return Struct(f">{length}i").unpack(self.take(4 * length))

    def tags(self) -> Iterator[tuple[int, Reader]]:
        """The tagged fields that end a struct, each with a reader of its payload; unknown tags
        are for the caller to pass over (KIP-915). Nothing in the older encoding."""
        if not self.flexible:
            return
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            yield tag, Reader(self.take(self.uvarint()), 0, flexible=True)

    def end_struct(self) -> None:
        """Passes over the tagged fields of a struct that defines none."""
        for _ in self.tags():
            pass

    def end(self) -> None:
        """Refuses bytes after the end."""
        if self.position != len(self.data):
            raise BadBytes(f"{len(self.data) - self.position} bytes too many")
