"""Writes Kafka's primitive types (`primitives`): replies, coordinator records, requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from struct import Struct, pack
from typing import TypeVar

from msgspec import Struct as Structure
from msgspec import field

from groupd.protocol.primitives import (
    FLOAT64,
    INT16,
    INT32,
    INT64,
    STRING_BYTES_MAX,
    uvarint,
)

_UINT16 = Struct(">H")

STEP = 100
"""After this many items of long arrays other work may run. It takes well below a millisecond to
write them."""

ROWS = 1000
"""The same for rows: structs whose fields all have a fixed width."""

_ONE_BYTE = 0x7F
"""In the flexible encoding a length below this takes one byte. Most lengths do, so they are written
without a call."""

T = TypeVar("T")


class Writer(Structure, eq=False):
    """Appends primitives to `buffer`. `version`: the version of the API or of the record value.
    `throttle_ms`: the throttle time that a reply contains."""

    flexible: bool
    version: int = 0
    throttle_ms: int = 0
    buffer: bytearray = field(default_factory=bytearray)
    _tagged: dict[int, bytes] = {}
    """The payloads of the tagged fields of the struct that ends next, by tag."""
    _left: int = STEP
    """How many more items may be written before other work has to run."""

    def int8(self, value: int) -> None:
        self.buffer.append(value & 0xFF)

    def boolean(self, value: bool) -> None:
        self.buffer.append(1 if value else 0)

    def int16(self, value: int) -> None:
        self.buffer += INT16.pack(value)

    def uint16(self, value: int) -> None:
        self.buffer += _UINT16.pack(value)

    def int32(self, value: int) -> None:
        self.buffer += INT32.pack(value)

    def int64(self, value: int) -> None:
        self.buffer += INT64.pack(value)

    def float64(self, value: float) -> None:
        self.buffer += FLOAT64.pack(value)

    def throttle_time(self) -> None:
        """Writes the field of a reply that says how long the client has to wait."""
        self.buffer += INT32.pack(self.throttle_ms)

    def uuid(self, value: bytes) -> None:
        self.buffer += value

    def string(self, value: str) -> None:
        """Raises ValueError for more than 32767 bytes, the limit of the older encoding."""
        raw = value.encode()
        size, buffer = len(raw), self.buffer
        if self.flexible:
            if size < _ONE_BYTE:
                buffer.append(size + 1)
            else:
                buffer += uvarint(size + 1)
        elif size <= STRING_BYTES_MAX:
            buffer += INT16.pack(size)
        else:
            raise ValueError(f"a string of {size} bytes (at most {STRING_BYTES_MAX})")
        buffer += raw

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

    def records(self, value: bytes | memoryview) -> None:
        """Writes record batches. For `due`, every 4 KiB count as an item."""
        self.array_length(len(value))
        self.buffer += value
        self._left -= len(value) >> 12

    def array_length(self, length: int) -> None:
        if not self.flexible:
            self.buffer += INT32.pack(length)
        elif length < _ONE_BYTE:
            self.buffer.append(length + 1)
        else:
            self.buffer += uvarint(length + 1)

    def null_array(self) -> None:
        self.buffer += b"\x00" if self.flexible else b"\xff\xff\xff\xff"

    def array(self, items: Collection[T], write: Callable[[Writer, T], None]) -> None:
        """Writes an array of primitives: its length, then `write(writer, item)` for each item."""
        self.array_length(len(items))
        for item in items:
            write(self, item)

    def structs(self, items: Collection[T]) -> Iterator[T]:
        """Writes an array of structs. It yields the items, and the caller's loop writes their
        fields. The length of the array and the end of each struct are written here."""
        self.array_length(len(items))
        for item in items:
            yield item
            self.end()

    def long_structs_in_steps(
        self, items: Collection[T], write: Callable[[Writer, T], Generator[None, None, None]]
    ) -> Generator[None, None, None]:
        """Writes an array of structs with long arrays of their own. `write(writer, item)` writes
        the fields of each, and yields now and then so that other work can run.

        It yields after every `STEP` items. All arrays of a message are counted together, so there
        are stops between many short arrays, too.
        """
        for item in self.structs(items):
            if self.due():
                yield
            yield from write(self, item)

    def due(self) -> bool:
        """Counts an item. Returns true if `STEP` items were written since other work could run."""
        self._left -= 1
        if self._left >= 0:
            return False
        self._left = STEP
        return True

    def int32_array(self, values: Iterable[int]) -> None:
        items = tuple(values)
        self.array_length(len(items))
        self.buffer += pack(f">{len(items)}i", *items)

    def end(self) -> None:
        """Ends a struct: writes the tagged fields in the flexible encoding, else nothing."""
        if not self.flexible:
            return
        if not self._tagged:
            self.buffer.append(0)
            return
        self.buffer += uvarint(len(self._tagged))
        for tag, payload in self._tagged.items():
            self.buffer += uvarint(tag) + uvarint(len(payload)) + payload
        self._tagged = {}

    def body(self) -> bytearray:
        """Ends the body of a message, and returns it."""
        if self._tagged:
            self.end()
        elif self.flexible:
            self.buffer.append(0)
        return self.buffer

    def tagged_field(self, tag: int, payload: bytes) -> None:
        """Adds a tagged field to the struct that ends next. Tags must be added in ascending
        order."""
        self._tagged[tag] = payload
