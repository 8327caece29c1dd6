"""Reads and writes Kafka's primitive types, for requests, replies and coordinator records.

There are two encodings. The older one has fixed-width lengths: int16 for strings, int32 for bytes
and arrays, -1 for null. The flexible one (KIP-482) has unsigned varints of length + 1, 0 for null,
and ends every struct with tagged fields. A `Reader` or `Writer` is made for one of them, so one
function reads or writes all versions of a struct.

The limits are Kafka's: an array announces at most as many items as bytes are left, a string has at
most 32767 bytes, a varint at most five. Text must be valid UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from functools import cache
from struct import Struct, pack, unpack_from
from struct import error as StructError
from typing import Any, TypeVar

_INT16 = Struct(">h")
_UINT16 = Struct(">H")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_STRING_BYTES_MAX = 0x7FFF
_VARINT_SHIFT_MAX = 28

STEP = 100
"""Items of a long array to write before other work may run: takes well below a millisecond."""

T = TypeVar("T")


class BadBytes(ValueError):
    """The bytes are not in the expected format."""


READ_ERRORS = (StructError, IndexError, ValueError, OverflowError)
"""What a Reader raises on bytes that are cut off or wrong."""


def uvarint(value: int) -> bytes:
    """`value` >= 0 as an unsigned varint: 7 bits a byte, low bits first."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Reader:
    """Takes primitives off `data` from `at` on; raises READ_ERRORS. `version`: of API or record."""

    __slots__ = ("_end", "at", "data", "flexible", "version")

    def __init__(self, data: bytes, at: int, version: int, flexible: bool) -> None:
        self.data = data
        self.at = at
        self.version = version
        self.flexible = flexible
        self._end = 0  # end of the struct whose tagged fields were asked for last

    def unpack(self, layout: Struct) -> tuple[int, ...]:
        """Reads several fixed-width fields at once."""
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
        return self.take(16)

    def uvarint(self) -> int:
        """Unsigned varint of at most five bytes."""
        at = self.at + 1
        value = self.data[at - 1]
        if value >= 0x80:
            value &= 0x7F
            shift = 7
            while True:
                byte = self.data[at]
                value |= (byte & 0x7F) << shift
                at += 1
                if byte < 0x80:
                    break
                if shift == _VARINT_SHIFT_MAX:
                    raise BadBytes("varint longer than five bytes")
                shift += 7
        self.at = at
        return value

    def nullable_string(self) -> str | None:
        data = self.data
        if not self.flexible:
            length: int = _INT16.unpack_from(data, self.at)[0]
            at = self.at + 2
        elif data[self.at] < 0x80:
            # The usual case: one length byte, no further call.
            length = data[self.at] - 1
            at = self.at + 1
        else:
            length = self.uvarint() - 1
            at = self.at
        end = at + length
        if length < 0:
            if length != -1:
                raise BadBytes(f"string of {length} bytes")
            self.at = at
            return None
        if length > _STRING_BYTES_MAX or end > len(data):
            raise BadBytes(f"string of {length} bytes, {len(data) - at} left")
        self.at = end
        return data[at:end].decode()

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise BadBytes("null string")
        return value

    def nullable_bytes(self) -> bytes | None:
        """Copies the bytes once."""
        length = self.length()
        return None if length < 0 else self.take(length)

    def bytes_(self) -> bytes:
        value = self.nullable_bytes()
        if value is None:
            raise BadBytes("null bytes")
        return value

    def take(self, length: int) -> bytes:
        """The next `length` bytes."""
        at = self.at
        end = at + length
        if end > len(self.data):
            raise BadBytes(f"{length} bytes announced, {len(self.data) - at} left")
        self.at = end
        return self.data[at:end]

    def length(self) -> int:
        """The length of an array or of bytes; -1 for null."""
        if self.flexible:
            return self.uvarint() - 1
        length: int = _INT32.unpack_from(self.data, self.at)[0]
        self.at += 4
        if length < -1:
            raise BadBytes(f"length {length}")
        return length

    def nullable_array(self, item: Callable[[Reader], T]) -> tuple[T, ...] | None:
        """Calls `item(reader)` for each item; None for null. For primitives."""
        length = self._array_length()
        return None if length < 0 else tuple([item(self) for _ in range(length)])

    def array(self, item: Callable[[Reader], T]) -> tuple[T, ...]:
        return _present(self.nullable_array(item))

    def nullable_structs(self, item: Callable[[Reader], T]) -> tuple[T, ...] | None:
        """Reads an array of structs: `item(reader)` reads the fields of one, this its end."""
        length = self._array_length()
        if length < 0:
            return None
        found = []
        for _ in range(length):
            found.append(item(self))
            self.end()
        return tuple(found)

    def structs(self, item: Callable[[Reader], T]) -> tuple[T, ...]:
        return _present(self.nullable_structs(item))

    def _array_length(self) -> int:
        """Every item takes at least one byte, so a larger count is a lie."""
        length = self.length()
        if length > len(self.data) - self.at:
            raise BadBytes(f"array of {length}, {len(self.data) - self.at} bytes left")
        return length

    def rows(self, fields: str) -> list[tuple[Any, ...]]:
        """Reads an array of structs whose fields all have a fixed width, at once: a tuple for each.
        `fields`: as for `struct`, such as "iqi"."""
        length = self.length()
        if length < 0:
            raise BadBytes("null array")
        at, data = self.at, self.data
        layout = _layout(fields, self.flexible)
        end = at + length * layout.size
        if end > len(data):
            raise BadBytes(f"array of {length} structs, {len(data) - at} bytes left")
        rows = list(layout.iter_unpack(data[at:end]))
        self.at = end
        if not self.flexible:
            return rows
        # The last byte of each is the number of its tagged fields, nearly always 0.
        if not any(row[-1] for row in rows):
            return [row[:-1] for row in rows]
        self.at = at
        layout, rows = _layout(fields, False), []
        for _ in range(length):
            rows.append(self.unpack(layout))
            self.end()
        return rows

    def nullable_int32_array(self) -> tuple[int, ...] | None:
        length = self.length()
        if length < 0:
            return None
        at = self.at
        if length > (len(self.data) - at) // 4:
            raise BadBytes(f"array of {length} int32, {len(self.data) - at} bytes left")
        self.at = at + 4 * length
        return unpack_from(f">{length}i", self.data, at)

    def int32_array(self) -> tuple[int, ...]:
        return _present(self.nullable_int32_array())

    def end(self) -> None:
        """Ends a struct: skips its tagged fields in the flexible encoding."""
        if not self.flexible:
            return
        if self.data[self.at] == 0:
            self.at += 1
        elif self._end > self.at:
            self.at = self._end
        else:
            self._tagged_fields()

    def tagged_fields(self) -> dict[int, bytes]:
        """The tagged fields of a struct that ends next: payload by tag. `end` skips them; a reader
        ignores unknown tags (KIP-482)."""
        at = self.at
        if not self.flexible or self.data[at] == 0:
            return {}
        fields = self._tagged_fields()
        self.at, self._end = at, self.at
        return fields

    def _tagged_fields(self) -> dict[int, bytes]:
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(self.uvarint())}

    def finish(self) -> None:
        """Raises if bytes are left over."""
        if self.at != len(self.data):
            raise BadBytes(f"{len(self.data) - self.at} bytes too many")


def _present(value: tuple[T, ...] | None) -> tuple[T, ...]:
    if value is None:
        raise BadBytes("null array")
    return value


@cache
def _layout(fields: str, flexible: bool) -> Struct:
    """The fields; in the flexible encoding also a byte for the number of tagged fields."""
    return Struct(f">{fields}B" if flexible else f">{fields}")


class Writer:
    """Appends primitives to `buffer`. `version`: of the API or the record value."""

    __slots__ = ("_tagged", "buffer", "flexible", "version")

    def __init__(self, flexible: bool, version: int = 0) -> None:
        self.buffer = bytearray()
        self.flexible = flexible
        self.version = version
        self._tagged: dict[int, bytes] = {}

    def int8(self, value: int) -> None:
        self.buffer.append(value & 0xFF)

    def boolean(self, value: bool) -> None:
        self.buffer.append(1 if value else 0)

    def int16(self, value: int) -> None:
        self.buffer += _INT16.pack(value)

    def uint16(self, value: int) -> None:
        self.buffer += _UINT16.pack(value)

    def int32(self, value: int) -> None:
        self.buffer += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self.buffer += _INT64.pack(value)

    def uuid(self, value: bytes) -> None:
        self.buffer += value

    def string(self, value: str) -> None:
        """Raises ValueError beyond 32767 bytes in the older encoding, which cannot hold more."""
        raw = value.encode()
        if self.flexible:
            self.buffer += uvarint(len(raw) + 1)
        elif len(raw) <= _STRING_BYTES_MAX:
            self.buffer += _INT16.pack(len(raw))
        else:
            raise ValueError(f"a string of {len(raw)} bytes (at most {_STRING_BYTES_MAX})")
        self.buffer += raw

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.buffer += b"\x00" if self.flexible else b"\xff\xff"
        else:
            self.string(value)

    def bytes_(self, value: bytes | memoryview) -> None:
        self.array_length(len(value))
        self.buffer += value

    def nullable_bytes(self, value: bytes | memoryview | None) -> None:
        if value is None:
            self.null_array()
        else:
            self.bytes_(value)

    def array_length(self, length: int) -> None:
        self.buffer += uvarint(length + 1) if self.flexible else _INT32.pack(length)

    def null_array(self) -> None:
        self.buffer += b"\x00" if self.flexible else b"\xff\xff\xff\xff"

    def array(self, items: Collection[T], write: Callable[[Writer, T], None]) -> None:
        """Writes the length, then calls `write(writer, item)` for each item. For primitives."""
        self.array_length(len(items))
        for item in items:
            write(self, item)

    def structs(self, items: Collection[T]) -> Iterator[T]:
        """Writes an array of structs: yields the items one by one, and the loop writes their
        fields. The length and the end of each struct are written here."""
        self.array_length(len(items))
        for item in items:
            yield item
            self.end()

    def structs_in_steps(
        self, items: Collection[T], write: Callable[[Writer, T], None]
    ) -> Generator[None, None, None]:
        """Writes an array of structs; `write(writer, item)` writes the fields of each. Yields after
        every `STEP` items so that other work can run."""
        for index, item in enumerate(self.structs(items), 1):
            if index % STEP == 1 and index > 1:
                yield
            write(self, item)

    def packer(self, fields: str) -> Callable[..., bytes]:
        """A function that packs one struct whose fields all have a fixed width, with its end;
        `fields` as for `struct`. For long arrays, behind `array_length`."""
        return _layout(f"{fields}x" if self.flexible else fields, False).pack

    def int32_array(self, values: Iterable[int]) -> None:
        items = tuple(values)
        self.array_length(len(items))
        self.buffer += pack(f">{len(items)}i", *items)

    def end(self) -> None:
        """Ends a struct: with tagged fields in the flexible encoding, nothing in the older one."""
        if not self.flexible:
            return
        if not self._tagged:
            self.buffer.append(0)
            return
        self.buffer += uvarint(len(self._tagged))
        for tag, payload in self._tagged.items():
            self.buffer += uvarint(tag) + uvarint(len(payload)) + payload
        self._tagged = {}

    def tagged_field(self, tag: int, payload: bytes) -> None:
        """Adds a tagged field to the struct that ends next; call it in ascending order of tags."""
        self._tagged[tag] = payload
