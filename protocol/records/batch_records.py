"""The records of a batch as bytes (see `protocol.records.batch` for their layout)."""

from __future__ import annotations

from collections.abc import Sequence

from groupd.protocol.records.primitives import uvarint

KeyValue = tuple[bytes | None, bytes | None]

# zigzag(n) = 2n for n >= 0; most lengths and deltas are small.
_SMALL = 2048
_ZIGZAG = [uvarint(2 * value) for value in range(_SMALL)]
_NULL = b"\x01"
ATTRIBUTES_AND_TIME = b"\x00\x00"
_ATTRIBUTES_AND_TIME_BYTES = len(ATTRIBUTES_AND_TIME)


def zigzag(value: int) -> bytes:
    """A signed varint of up to 64 bits."""
    if 0 <= value < _SMALL:
        return _ZIGZAG[value]
    return uvarint(2 * value if value >= 0 else -2 * value - 1)


def encode_body(records: Sequence[KeyValue], first_delta: int = 0) -> bytes:
    """Records at consecutive offsets, all at the timestamp of their batch and without headers;
    `first_delta`: of the first one's offset to that of the batch."""
    return join_contents([encode_content(key, value) for key, value in records], first_delta)


def encode_content(key: bytes | None, value: bytes | None) -> bytes:
    """A record from its key on, without headers: what does not depend on its place."""
    return (
        (_NULL if key is None else _sized(key))
        + (_NULL if value is None else _sized(value))
        + b"\x00"
    )


def join_contents(contents: Sequence[bytes], first_delta: int = 0) -> bytes:
    """`encode_body` of records as `encode_content` gives them."""
    parts: list[bytes] = []
    for delta, content in enumerate(contents, first_delta):
        place = _ZIGZAG[delta] if delta < _SMALL else zigzag(delta)
        size = _ATTRIBUTES_AND_TIME_BYTES + len(place) + len(content)
        parts += (
            _ZIGZAG[size] if size < _SMALL else zigzag(size),
            ATTRIBUTES_AND_TIME,
            place,
            content,
        )
    return b"".join(parts)


def _sized(data: bytes) -> bytes:
    size = len(data)
    return (_ZIGZAG[size] if size < _SMALL else zigzag(size)) + data
