"""Logs and their batches as bytes on the channel.

Everything is packed with fixed-width numbers, big-endian; names have a 2-byte length, payloads a
4-byte one. Payloads go through as they are: nothing here looks into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from groupd.storage.log import Append, LogState, Replacement, StoredBatch

_COUNT = Struct(">I")
_NAME = Struct(">H")
_BATCH = Struct(">qqqI")
"""base offset, last offset, max timestamp, length of the payload"""
_APPEND = Struct(">qqqqI")
"""owner epoch, and the same"""
_STATE = Struct(">qqqq")
_READ = Struct(">qq?")
_LONG = Struct(">q")
_REPLACE = Struct(">qqqqI")


class _Reader:
    """Raises struct.error or ValueError where bytes are missing."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return values

    def count(self) -> int:
        return self.take(_COUNT)[0]

    def raw(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise ValueError(f"{length} bytes announced, {len(self._data) - self._at} there")
        found = self._data[self._at : end]
        self._at = end
        return found

    def name(self) -> str:
        return self.raw(self.take(_NAME)[0]).decode()

    def batch(self) -> StoredBatch:
        base_offset, last_offset, max_timestamp_ms, length = self.take(_BATCH)
        return StoredBatch(base_offset, last_offset, max_timestamp_ms, self.raw(length))


def _name(name: str) -> bytes:
    raw = name.encode()
    return _NAME.pack(len(raw)) + raw


def _batch(row: StoredBatch) -> tuple[bytes, bytes]:
    head = _BATCH.pack(row.base_offset, row.last_offset, row.max_timestamp_ms, len(row.payload))
    return head, row.payload


def encode_names(names: Sequence[str]) -> bytes:
    return b"".join((_COUNT.pack(len(names)), *map(_name, names)))


def decode_names(body: bytes) -> list[str]:
    reader = _Reader(body)
    return [reader.name() for _ in range(reader.count())]


def encode_states(states: Mapping[str, LogState]) -> bytes:
    parts = [_COUNT.pack(len(states))]
    for state in states.values():
        numbers = state.owner_epoch, state.start_offset, state.next_offset, state.clean_offset
        parts += (_name(state.name), _STATE.pack(*numbers))
    return b"".join(parts)


def decode_states(body: bytes) -> dict[str, LogState]:
    reader = _Reader(body)
    found = [LogState(reader.name(), *reader.take(_STATE)) for _ in range(reader.count())]
    return {state.name: state for state in found}


def encode_appends(batches: Sequence[Append]) -> bytes:
    parts = [_COUNT.pack(len(batches))]
    for one in batches:
        head = _APPEND.pack(
            one.owner_epoch,
            one.base_offset,
            one.last_offset,
            one.max_timestamp_ms,
            len(one.payload),
        )
        parts += (_name(one.name), head, one.payload)
    return b"".join(parts)


def decode_appends(body: bytes) -> list[Append]:
    reader = _Reader(body)
    found = []
    for _ in range(reader.count()):
        name = reader.name()
        owner_epoch, base_offset, last_offset, max_timestamp_ms, length = reader.take(_APPEND)
        payload = reader.raw(length)
        found.append(Append(name, owner_epoch, base_offset, last_offset, max_timestamp_ms, payload))
    return found


def encode_read(name: str, from_offset: int, max_bytes: int, *, min_one: bool) -> bytes:
    return _name(name) + _READ.pack(from_offset, max_bytes, min_one)


def decode_read(body: bytes) -> tuple[str, int, int, bool]:
    reader = _Reader(body)
    name = reader.name()
    from_offset, max_bytes, min_one = reader.take(_READ)
    return name, from_offset, max_bytes, bool(min_one)


def encode_rows(rows: Sequence[StoredBatch]) -> bytes:
    parts = [_COUNT.pack(len(rows))]
    for row in rows:
        parts += _batch(row)
    return b"".join(parts)


def decode_rows(body: bytes) -> list[StoredBatch]:
    reader = _Reader(body)
    return [reader.batch() for _ in range(reader.count())]


def encode_place(name: str, number: int) -> bytes:
    """A log, and an offset or a timestamp."""
    return _name(name) + _LONG.pack(number)


def decode_place(body: bytes) -> tuple[str, int]:
    reader = _Reader(body)
    return reader.name(), reader.take(_LONG)[0]


def encode_replacement(change: Replacement) -> bytes:
    head = _REPLACE.pack(
        change.owner_epoch,
        change.from_offset,
        change.to_offset,
        change.clean_offset,
        len(change.rows),
    )
    parts = [_name(change.name), head]
    for row in change.rows:
        parts += _batch(row)
    return b"".join(parts)


def decode_replacement(body: bytes) -> Replacement:
    reader = _Reader(body)
    name = reader.name()
    owner_epoch, from_offset, to_offset, clean_offset, count = reader.take(_REPLACE)
    rows = tuple(reader.batch() for _ in range(count))
    return Replacement(name, owner_epoch, from_offset, to_offset, rows, clean_offset)
