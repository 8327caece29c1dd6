"""Signed (zigzag) varints, as records have them."""

from __future__ import annotations

_VARINT_BYTES_MAX = 5


class BadVarint(ValueError):
    """More bytes than such a number has."""


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A signed varint of up to 32 bits and the position behind it. Raises IndexError,
    BadVarint."""
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, end = read_varlong(data, position)
    if end - position > _VARINT_BYTES_MAX or not -(2**31) <= value < 2**31:
        raise BadVarint("varint too long")
    return value, end


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """A signed varint of up to 64 bits and the position behind it. Raises IndexError,
    BadVarint."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    value = byte & 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise BadVarint("varint too long")
    if value >= 2**64:
        raise BadVarint("varint too long")
    return (value >> 1) ^ -(value & 1), position
