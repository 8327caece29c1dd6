"""A bounds-checked cursor over a request body; the counterpart of `encode.Writer`.

Why it exists beside kio: a frame comes from anyone who can reach the port, and kio 0.6.5
- reserves memory for an array before it looks at the bytes, so that one small frame with a
  huge compact array length aborts the whole process (no exception can be caught),
- refuses tagged fields that it does not know, which KIP-482 wants skipped,
- turns milliseconds into timedelta/datetime and parses record batches.
Tests use kio as the oracle instead.

Rules: every read checks the limit first and raises `MalformedRequest`; an array may not
announce more items than bytes are left, so memory is bounded by the frame; a boolean is
any byte but 0, as in Kafka; null is length -1 (0 in the flexible encoding) and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any, TypeVar

from protocol.wire.decode import MalformedRequest

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")

_UVARINT_BYTES_MAX = 5

T = TypeVar("T")


def _null(length: int) -> None:
    if length != -1:
        raise MalformedRequest(f"negative length {length}")


class Reader:
    """Reads primitives at `at`, never beyond `limit`, in the flexible or the older encoding."""

    __slots__ = ("at", "data", "flexible", "limit")

    def __init__(self, data: bytes, at: int, flexible: bool, limit: int | None = None) -> None:
        self.data = data
        self.at = at
        self.flexible = flexible
        self.limit = len(data) if limit is None else limit

    def _advance(self, size: int) -> int:
        """Where the next `size` bytes start; moves past them."""
        start = self.at
        self.at = start + size
        if self.at > self.limit:
            raise MalformedRequest(f"{size} bytes at {start} exceed the end at {self.limit}")
        return start

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Several fixed-width fields at once: what hot decoders use."""
        return layout.unpack_from(self.data, self._advance(layout.size))

    def int8(self) -> int:
        value = self.data[self._advance(1)]
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        return self.data[self._advance(1)] != 0

    def int16(self) -> int:
        value: int = _INT16.unpack_from(self.data, self._advance(2))[0]
        return value

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self.data, self._advance(4))[0]
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self.data, self._advance(8))[0]
        return value

    def uuid(self) -> bytes:
        start = self._advance(16)
        return self.data[start : start + 16]

    def uvarint(self) -> int:
        byte = self.data[self._advance(1)]
        if byte < 0x80:
            return byte
        value = byte & 0x7F
        for shift in range(7, 7 * _UVARINT_BYTES_MAX, 7):
            byte = self.data[self._advance(1)]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedRequest("varint longer than 5 bytes")

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise MalformedRequest("null where a string is required")
        return value

    def nullable_string(self) -> str | None:
        length = self.uvarint() - 1 if self.flexible else self.int16()
        if length < 0:
            _null(length)
            return None
        start = self._advance(length)
        try:
            return self.data[start : start + length].decode()
        except UnicodeDecodeError as error:
            raise MalformedRequest("a string is no UTF-8") from error

    def nullable_bytes(self) -> bytes | None:
        """The bytes as they stand, in one copy."""
        length = self.uvarint() - 1 if self.flexible else self.int32()
        if length < 0:
            _null(length)
            return None
        start = self._advance(length)
        return self.data[start : start + length]

    def _array_length(self) -> int:
        length = self.uvarint() - 1 if self.flexible else self.int32()
        if length > self.limit - self.at:
            raise MalformedRequest(f"an array of {length} items in {self.limit - self.at} bytes")
        return length

    def array(self, item: Callable[[], T]) -> tuple[T, ...]:
        """Calls `item` for each element; `item` reads at least one byte with this reader."""
        values = self.nullable_array(item)
        if values is None:
            raise MalformedRequest("null where an array is required")
        return values

    def nullable_array(self, item: Callable[[], T]) -> tuple[T, ...] | None:
        length = self._array_length()
        if length < 0:
            _null(length)
            return None
        return tuple([item() for _ in range(length)])

    def int32_array(self) -> tuple[int, ...]:
        length = self._array_length()
        if length < 0:
            raise MalformedRequest("null where an array is required")
        return self.unpack(Struct(f">{length}i"))

    def present(self) -> bool:
        """The marker before a nullable struct (KIP-893): negative = null."""
        return self.int8() >= 0

    def end(self) -> None:
        """Ends a struct: skips its tagged fields in the flexible encoding."""
        if self.flexible:
            for _ in range(self.uvarint()):
                self.uvarint()
                self._advance(self.uvarint())

    def tagged(self) -> Iterator[tuple[int, Reader]]:
        """Ends a flexible struct: (tag, reader of that field's payload), skipped if not read."""
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            size = self.uvarint()
            start = self._advance(size)
            yield tag, Reader(self.data, start, self.flexible, start + size)
