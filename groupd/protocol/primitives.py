"""Constants and helpers that `reader` and `writer` share: both handle Kafka's primitive types.

There are two encodings. The older one has fixed-width lengths: int16 for strings, int32 for bytes
and arrays, -1 for null. The flexible one (KIP-482) has unsigned varints of length + 1, 0 for null,
and ends every struct with tagged fields. A `Reader` or `Writer` is made for one encoding, so one
function reads or writes all versions of a struct.
"""

from __future__ import annotations

from struct import Struct

INT16 = Struct(">h")
INT32 = Struct(">i")
INT64 = Struct(">q")
FLOAT64 = Struct(">d")
STRING_BYTES_MAX = 0x7FFF


def uvarint(value: int) -> bytes:
    """Returns `value` (>= 0) as an unsigned varint: 7 bits a byte, low bits first."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
