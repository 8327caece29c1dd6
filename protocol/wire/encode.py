"""Primitive writers for reply bodies.

Kafka has two encodings: the older one with fixed-width lengths, and the flexible one (KIP-482)
with unsigned varints of length + 1 and tagged fields. A `Writer` is made for one of them and
appends to one bytearray; an encoder of an API is one function for all its versions.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from struct import Struct, pack
from typing import TypeVar

_INT16 = Struct(">h")
_UINT16 = Struct(">H")
_INT32 = Struct(">i")
_INT64 = Struct(">q")

T = TypeVar("T")

Steps = Generator[None, None, bytearray]
"""Makes the body of a reply, with stops where it is long."""

STEP = 100
"""Items of a long array from one stop to the next: well below a millisecond."""


def without_stops(steps: Steps) -> bytearray:
    """The body that `steps` makes."""
    while True:
        try:
            next(steps)
        except StopIteration as ended:
            body: bytearray = ended.value
            return body


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


class Writer:
    """Appends primitives in the flexible or the older encoding."""

    __slots__ = ("buffer", "flexible")

    def __init__(self, flexible: bool) -> None:
        self.buffer = bytearray()
        self.flexible = flexible

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
        raw = value.encode()
        self.buffer += uvarint(len(raw) + 1) if self.flexible else _INT16.pack(len(raw))
        self.buffer += raw

    def nullable_string(self, value: str | None) -> None:
        if value is None:
            self.buffer += b"\x00" if self.flexible else b"\xff\xff"
        else:
            self.string(value)

    def bytes_(self, value: bytes | memoryview) -> None:
        self.buffer += uvarint(len(value) + 1) if self.flexible else _INT32.pack(len(value))
        self.buffer += value

    def nullable_bytes(self, value: bytes | memoryview | None) -> None:
        if value is None:
            self.buffer += b"\x00" if self.flexible else b"\xff\xff\xff\xff"
        else:
            self.bytes_(value)

    def array(self, items: Sequence[T], item: Callable[[T], None]) -> None:
        """Length, then `item(x)` for each; `item` writes with this writer."""
        self.array_length(len(items))
        for value in items:
            item(value)

    def array_steps(
        self, items: Sequence[T], item: Callable[[T], None]
    ) -> Generator[None, None, None]:
        """`array`, with stops."""
        self.array_length(len(items))
        for index, value in enumerate(items, 1):
            item(value)
            if index % STEP == 0:
                yield

    def array_length(self, length: int) -> None:
        self.buffer += uvarint(length + 1) if self.flexible else _INT32.pack(length)

    def null_array(self) -> None:
        self.buffer += b"\x00" if self.flexible else b"\xff\xff\xff\xff"

    def int32_array(self, values: Iterable[int]) -> None:
        items = tuple(values)
        self.array_length(len(items))
        # The function keeps compiled formats; a Struct of its own costs 0.5 us a call.
        self.buffer += pack(f">{len(items)}i", *items)

    def end(self) -> None:
        """Ends a struct: no tagged fields in the flexible encoding, nothing in the older one."""
        if self.flexible:
            self.buffer.append(0)

    def tagged(self, fields: Sequence[tuple[int, bytes]]) -> None:
        """Ends a struct with tagged fields (tag, payload), ascending by tag."""
        self.buffer += uvarint(len(fields))
        for tag, payload in fields:
            self.buffer += uvarint(tag) + uvarint(len(payload)) + payload
