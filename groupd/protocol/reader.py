"""Reads Kafka's primitive types (`primitives`): requests, coordinator records, replies of brokers.

The limits are Kafka's: a string has at most 32767 bytes, a varint at most five. Text must be valid
UTF-8. An array may announce at most as many items as fit into the bytes that are left if all their
strings and arrays are empty. (Kafka allows as many items as there are bytes.) So the memory is in
proportion to the size of the request.
"""

from __future__ import annotations

from struct import error as StructError
from struct import unpack_from
from typing import TypeVar

from msgspec import Struct, field

from groupd.protocol.messages.secret import Secret
from groupd.protocol.primitives import FLOAT64, INT16, INT32, INT64, STRING_BYTES_MAX

_VARINT_SHIFT_MAX = 28

T = TypeVar("T")


class BadBytes(ValueError):
    """The bytes are not in the expected format."""


class TooManyItems(BadBytes):
    """The arrays have more items than the reader was told to take."""


_SEARCHED_ITEMS = 250_000

NO_LIMIT = 1 << 62
"""The limit of a reader that takes any number of items."""

READ_ERRORS = (StructError, IndexError, ValueError, OverflowError)
"""The errors that a Reader raises for bytes that are cut off or wrong."""


def what_is_wrong(error: Exception) -> str:
    """Describes one of READ_ERRORS for people: Python's own texts are about its buffers."""
    if isinstance(error, (StructError, IndexError)):
        return "it ends too early"
    if isinstance(error, UnicodeDecodeError):
        return "a text is not UTF-8"
    return str(error)


class Reader(Struct, eq=False, gc=False):
    """Reads primitives from `data`, beginning at `at`. Raises READ_ERRORS. `version`: the version
    of the API or of the record. `max_items`: how many items all arrays together may have; `items`:
    how many they have had so far. A tagged field counts as one item; a fixed-width number, which is
    cheap to read, as an eighth. `tags_end`: the end of the struct whose tagged fields were read
    last."""

    data: bytes
    at: int
    version: int
    flexible: bool
    max_items: int = NO_LIMIT
    items: int = 0
    tags_end: int = 0

    def int8(self) -> int:
        value = self.data[self.at]
        self.at += 1
        return value - 256 if value > 127 else value

    def boolean(self) -> bool:
        """Reads a boolean. Any byte but 0 is true, as in Kafka."""
        value = self.data[self.at]
        self.at += 1
        return value != 0

    def int16(self) -> int:
        value: int = INT16.unpack_from(self.data, self.at)[0]
        self.at += 2
        return value

    def int32(self) -> int:
        value: int = INT32.unpack_from(self.data, self.at)[0]
        self.at += 4
        return value

    def int64(self) -> int:
        value: int = INT64.unpack_from(self.data, self.at)[0]
        self.at += 8
        return value

    def float64(self) -> float:
        value: float = FLOAT64.unpack_from(self.data, self.at)[0]
        self.at += 8
        return value

    def uuid(self) -> bytes:
        return self.take(16)

    def uvarint(self) -> int:
        """Reads an unsigned varint of at most five bytes."""
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
            length: int = INT16.unpack_from(data, self.at)[0]
            at = self.at + 2
        elif data[self.at] < 0x80:
            # One length byte is the usual case. It is read here to save a call.
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
        if length > STRING_BYTES_MAX or end > len(data):
            raise BadBytes(f"string of {length} bytes, {len(data) - at} left")
        self.at = end
        return data[at:end].decode()

    def string(self) -> str:
        value = self.nullable_string()
        if value is None:
            raise BadBytes("null string")
        return value

    def nullable_bytes(self) -> bytes | None:
        """Reads bytes, which are copied; None for null."""
        length = self.length()
        return None if length < 0 else self.take(length)

    def bytes_(self) -> bytes:
        value = self.nullable_bytes()
        if value is None:
            raise BadBytes("null bytes")
        return value

    def secret(self) -> Secret:
        """Reads bytes that must not be shown anywhere. All secrets in requests are read by this
        method, so that recordings know where they are (`SecretFinder`)."""
        return Secret(self.bytes_())

    def take(self, length: int) -> bytes:
        """Reads the next `length` bytes."""
        at = self.at
        end = at + length
        if end > len(self.data):
            raise BadBytes(f"{length} bytes announced, {len(self.data) - at} left")
        self.at = end
        return self.data[at:end]

    def length(self) -> int:
        """Reads the length of an array or of bytes; -1 for null."""
        if self.flexible:
            length: int = self.data[self.at]
            if length < 0x80:
                self.at += 1
                return length - 1
            return self.uvarint() - 1
        length = INT32.unpack_from(self.data, self.at)[0]
        self.at += 4
        if length < -1:
            raise BadBytes(f"length {length}")
        return length

    def array_length(self, least: int) -> int:
        """Reads the length of an array whose items take `least` bytes or more; -1 for null."""
        length = self.data[self.at] - 1 if self.flexible else 0x7F
        if length < 0x7F:
            self.at += 1
        else:
            length = self.length()
        if length > 0:
            if length * least > len(self.data) - self.at:
                raise BadBytes(f"array of {length}, {len(self.data) - self.at} bytes left")
            self.items += length
            if self.items > self.max_items:
                raise self._too_many_items()
        return length

    def count(self, items: int) -> None:
        """Counts `items` more items of an array, or tagged fields. Raises TooManyItems."""
        self.items += items
        if self.items > self.max_items:
            raise self._too_many_items()

    def _too_many_items(self) -> TooManyItems:
        return TooManyItems(f"more than {self.max_items} items in its arrays")

    def nullable_int32_array(self) -> tuple[int, ...] | None:
        length = self.data[self.at] - 1 if self.flexible else 0x7F
        if length < 0x7F:
            self.at += 1
        else:
            length = self.length()
        if length < 0:
            return None
        at = self.at
        if length > (len(self.data) - at) // 4:
            raise BadBytes(f"array of {length} int32, {len(self.data) - at} bytes left")
        self.items += length >> 3
        if self.items > self.max_items:
            raise self._too_many_items()
        self.at = at + 4 * length
        return unpack_from(f">{length}i", self.data, at)

    def int32_array(self) -> tuple[int, ...]:
        value = self.nullable_int32_array()
        if value is None:
            raise BadBytes("null array")
        return value

    def end(self) -> None:
        """Reads the end of a struct: in the flexible encoding it skips the tagged fields."""
        if not self.flexible:
            return
        if self.data[self.at] == 0:
            self.at += 1
        elif self.tags_end > self.at:
            self.at = self.tags_end
        else:
            self._tagged_fields()

    def tagged_fields(self) -> dict[int, bytes]:
        """Returns the tagged fields of the struct that ends next, as payload by tag. Call `end`
        afterwards: it skips them. Unknown tags are to be ignored (KIP-482)."""
        at = self.at
        if not self.flexible or self.data[at] == 0:
            return {}
        fields = self._tagged_fields()
        self.at, self.tags_end = at, self.at
        return fields

    def _tagged_fields(self) -> dict[int, bytes]:
        length = self.uvarint()
        if 2 * length > len(self.data) - self.at:
            raise BadBytes(f"{length} tagged fields, {len(self.data) - self.at} bytes left")
        self.count(length)
        return {self.uvarint(): self.take(self.uvarint()) for _ in range(length)}

    def present(self) -> bool:
        """Reads whether there is a struct, in a tagged field that may be null."""
        number = self.uvarint()
        if number > 1:
            raise BadBytes("nullable struct that is neither present nor null")
        return number == 1

    def finish(self) -> None:
        """Raises BadBytes if bytes are left over."""
        if self.at != len(self.data):
            raise BadBytes(f"{len(self.data) - self.at} bytes too many")


class SecretFinder(Reader):
    """Finds the secrets in a request. `spans`: (first byte, end) of each secret; the end is
    exclusive. It accepts as many items as a broker accepts by default."""

    max_items: int = _SEARCHED_ITEMS
    spans: list[tuple[int, int]] = field(default_factory=list)

    def secret(self) -> Secret:
        found = super().secret()
        self.spans.append((self.at - len(found), self.at))
        return found
