"""The signed varints of record batches.

A number n >= 0 becomes the zigzag number 2n, and -n < 0 becomes 2n - 1. The zigzag number is
written in groups of seven bits, one group in each byte, low bits first.
"""

from __future__ import annotations

from mmap import mmap

from groupd.protocol.primitives import uvarint

SMALL = 2048


class BadVarint(ValueError):
    """The varint has more bytes than a number of this size can have."""


def read_varint(data: bytes | mmap, position: int, bits: int = 32) -> tuple[int, int]:
    """Returns a signed number of up to `bits` bits, and its end. Raises IndexError, BadVarint."""
    number, position = read_zigzag(data, position, bits)
    return (number >> 1) ^ -(number & 1), position


def read_zigzag(data: bytes | mmap, position: int, bits: int = 32) -> tuple[int, int]:
    """As `read_varint`, but returns the zigzag number: if it is odd, the number is negative."""
    number, shift = data[position], 7
    position += 1
    if number < 0x80:
        return number, position
    number &= 0x7F
    while True:
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise BadVarint("varint too long")
    if number >> bits:
        raise BadVarint("varint too long")
    return number, position


SMALL_ZIGZAGS = [uvarint(2 * value) for value in range(SMALL)]
"""The encodings of small numbers. Most lengths and deltas are small."""


def zigzags(first: int, count: int) -> list[bytes]:
    """The encodings of `count` consecutive numbers from `first` >= 0 on."""
    if first + count <= SMALL:
        return SMALL_ZIGZAGS[first : first + count]
    return [zigzag(value) for value in range(first, first + count)]


def zigzag(value: int) -> bytes:
    """Encodes a signed number of up to 64 bits."""
    if 0 <= value < SMALL:
        return SMALL_ZIGZAGS[value]
    return uvarint(2 * value if value >= 0 else -2 * value - 1)
