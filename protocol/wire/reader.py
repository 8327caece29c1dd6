"""Primitive readers for request bodies, the mirror of `encode.Writer`.

Requests are read by hand, not with kio, because kio 0.6 does not survive hostile bytes: it
reserves memory for an announced array length before looking at what is left of the frame (a
30-byte frame aborts the process), rejects unknown tagged fields, which KIP-482 says to skip,
turns a null array into None where the schema forbids null, rejects booleans other than 0 and 1
and 64-bit durations beyond a timedelta. kio stays the oracle of the tests.

Limits are Kafka's: an array announces at most as many items as bytes are left, a string has at
most 32767 bytes, a varint at most five bytes. Text must be valid UTF-8. Bytes after the body
are tolerated, as Kafka does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from struct import Struct, unpack_from
from struct import error as StructError
from typing import TypeVar

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_STRING_BYTES_MAX = 0x7FFF
_VARINT_SHIFT_MAX = 28

T = TypeVar("T")


class MalformedRequest(Exception):
    """The bytes are no valid request of the version that their header names."""


class Reader:
    """Takes primitives off `data` from `at` on, in the flexible or the older encoding.

    `version` is the API version, for the fields that depend on it. Short data surfaces as
    IndexError or struct.error, bad text as UnicodeDecodeError; `decoder` turns them into
    MalformedRequest.
    """

    __slots__ = ("at", "data", "flexible", "version")

    def __init__(self, data: bytes, at: int, version: int, flexible: bool) -> None:
        self.data = data
        self.at = at
        self.version = version
        self.flexible = flexible

    def unpack(self, layout: Struct) -> tuple[int, ...]:
        """Several fixed-width fields at once."""
        values = layout.unpack_from(self.data, self.at)
        self.at += layout.size
        return values

    def int8(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        """Any byte but 0 is true, as in Kafka."""
        value = self.data[self.at]
        self.at += 1
        return value != 0

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self.data, self.at)[0]
        self.at += 2
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self.data, self.at)[0]
        self.at += 4
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self.data, self.at)[0]
        self.at += 8
        return value

    def uuid(self) -> bytes:
        return self._take(16)

    def uvarint(self) -> int:
        """Unsigned varint of at most five bytes."""
        at = self.at
        value = self.data[at]
        at += 1
        if value >= 0x80:
            value &= 0x7F
            shift = 7
            while True:
                byte = self.data[at]
                at += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                if shift == _VARINT_SHIFT_MAX:
                    raise MalformedRequest("varint longer than five bytes")
                shift += 7
        self.at = at
        return value

    def nullable_string(self) -> str | None:
        data = self.data
        if not self.flexible:
            length: int = _INT16.unpack_from(data, self.at)[0]
            at = self.at + 2
        elif data[self.at] < 0x80:
            # Nearly every string: one length byte, no further call.
            length = data[self.at] - 1
            at = self.at + 1
        else:
            length = self.uvarint() - 1
            at = self.at
        end = at + length
        if length < 0:
            if length != -1:
                raise MalformedRequest(f"string of {length} bytes")
            self.at = at
            return None
        if length > _STRING_BYTES_MAX or end > len(data):
            raise MalformedRequest(f"string of {length} bytes, {len(data) - at} left")
        self.at = end
        return data[at:end].decode()

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise MalformedRequest("null string")
        return value

    def bytes_(self) -> bytes:
        length = self._length32()
        if length < 0:
            raise MalformedRequest("null bytes")
        return self._take(length)

    def nullable_bytes(self) -> bytes | None:
        """The bytes as they stand, in one copy."""
        length = self._length32()
        return None if length < 0 else self._take(length)

    def nullable_array(self, item: Callable[[Reader], T]) -> tuple[T, ...] | None:
        """`item(reader)` as often as the array says; None for null."""
        length = self._length32()
        if length < 0:
            return None
        # Every item takes at least one byte, so a larger count is a lie.
        if length > len(self.data) - self.at:
            raise MalformedRequest(f"array of {length}, {len(self.data) - self.at} bytes left")
        return tuple([item(self) for _ in range(length)])

    def array(self, item: Callable[[Reader], T]) -> tuple[T, ...]:
        value = self.nullable_array(item)
        if value is None:
            raise MalformedRequest("null array")
        return value

    def int32_array(self) -> tuple[int, ...]:
        length = self._length32()
        at = self.at
        if not 0 <= length <= (len(self.data) - at) // 4:
            raise MalformedRequest(f"array of {length} int32, {len(self.data) - at} bytes left")
        self.at = at + 4 * length
        return unpack_from(f">{length}i", self.data, at)

    def end(self) -> None:
        """Ends a struct: skips tagged fields in the flexible encoding, nothing in the older."""
        if not self.flexible:
            return
        if self.data[self.at] == 0:
            self.at += 1
        else:
            self._skip_tagged_fields()

    def _skip_tagged_fields(self) -> None:
        for _ in range(self.uvarint()):
            self.uvarint()
            self._take(self.uvarint())

    def tagged_fields(self) -> dict[int, bytes]:
        """Ends a flexible struct whose tagged fields matter: payload by tag."""
        return {self.uvarint(): self._take(self.uvarint()) for _ in range(self.uvarint())}

    def _length32(self) -> int:
        """The length of bytes or an array; -1 for null."""
        if self.flexible:
            return self.uvarint() - 1
        length: int = _INT32.unpack_from(self.data, self.at)[0]
        self.at += 4
        if length < -1:
            raise MalformedRequest(f"length {length}")
        return length

    def _take(self, length: int) -> bytes:
        at = self.at
        end = at + length
        if end > len(self.data):
            raise MalformedRequest(f"{length} bytes announced, {len(self.data) - at} left")
        self.at = end
        return self.data[at:end]


def decoder(
    flexible_from: int,
) -> Callable[[Callable[[Reader], T]], Callable[[bytes, int, int], T]]:
    """Makes `decode(frame, offset, version)` of a function that reads a body."""

    def decorate(read: Callable[[Reader], T]) -> Callable[[bytes, int, int], T]:
        @wraps(read)
        def decode(frame: bytes, offset: int, version: int) -> T:
            try:
                return read(Reader(frame, offset, version, version >= flexible_from))
            except (IndexError, StructError, UnicodeDecodeError) as error:
                raise MalformedRequest(f"{type(error).__name__}: {error}") from error

        return decode

    return decorate
