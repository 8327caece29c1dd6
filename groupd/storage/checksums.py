"""Checksums of the rows of every table, because a database does not always return what was written.

SQLite checks the frames of its write-ahead log but not the pages of its file, so it would return a
row in which a bit has flipped.

A row of `log_batch` never changes and has a plain checksum. A row of `log` changes with every
append, which only knows the columns that it changes. So its checksum is a *sum* of one checksum for
each column, and a change adds the difference.
"""

from __future__ import annotations

import zlib
from struct import Struct
from struct import error as StructError

from groupd.storage.log import LogCorrupt

_NUMBERS = Struct(">qqqq")
_FIELD = Struct(">Bqq")
_SIZE = Struct(">q")

_WRONG_TYPES = (AttributeError, TypeError, ValueError, StructError)
"""The errors of a value of the wrong type. In SQLite any value may have any type, and a flipped bit
may change the type."""

_NAME, _OWNER_EPOCH, _START_OFFSET, _NEXT_OFFSET, _CLEAN_OFFSET = range(5)


def batch_crc(
    log_id: int, base_offset: int, last_offset: int, max_timestamp_ms: int, payload: bytes
) -> int:
    """The checksum of all columns of a row of `log_batch`. It covers the log id, so that a row in
    the wrong log is found, too."""
    numbers = _NUMBERS.pack(log_id, base_offset, last_offset, max_timestamp_ms)
    return zlib.crc32(payload, zlib.crc32(numbers))


def _field(field: int, log_id: int, value: int) -> int:
    return zlib.crc32(_FIELD.pack(field, log_id, value))


def _name(log_id: int, name: str | None) -> int:
    return _field(_NAME, log_id, -1 if name is None else zlib.crc32(name.encode()))


def _clean(log_id: int, clean_offset: int) -> int:
    """The part of the sum for the clean offset. It is 0 for a log that was never cleaned, so rows
    from before groupd had a cleaner stay right."""
    return 0 if clean_offset == 0 else _field(_CLEAN_OFFSET, log_id, clean_offset)


def log_sum(
    log_id: int,
    name: str | None,
    owner_epoch: int,
    start_offset: int,
    next_offset: int,
    clean_offset: int = 0,
) -> int:
    """The checksum of a row of `log`."""
    return (
        _name(log_id, name)
        + _field(_OWNER_EPOCH, log_id, owner_epoch)
        + _field(_START_OFFSET, log_id, start_offset)
        + _field(_NEXT_OFFSET, log_id, next_offset)
        + _clean(log_id, clean_offset)
    )


def end_moved(log_id: int, before: int, after: int) -> int:
    """The change of a row's sum when `next_offset` changes."""
    return _field(_NEXT_OFFSET, log_id, after) - _field(_NEXT_OFFSET, log_id, before)


def cleaned(log_id: int, before: int, after: int) -> int:
    return _clean(log_id, after) - _clean(log_id, before)


def start_moved(log_id: int, before: int, after: int) -> int:
    return _field(_START_OFFSET, log_id, after) - _field(_START_OFFSET, log_id, before)


def owner_changed(log_id: int, before: int, after: int) -> int:
    return _field(_OWNER_EPOCH, log_id, after) - _field(_OWNER_EPOCH, log_id, before)


def name_dropped(log_id: int, name: str) -> int:
    return _name(log_id, None) - _name(log_id, name)


def check_log(
    row_sum: int,
    log_id: int,
    name: str | None,
    owner_epoch: int,
    start_offset: int,
    next_offset: int,
    clean_offset: int,
) -> None:
    """Raises LogCorrupt if a row of `log` is not what was written."""
    try:
        found = log_sum(log_id, name, owner_epoch, start_offset, next_offset, clean_offset)
        right = found == row_sum
    except _WRONG_TYPES:
        right = False
    if not right:
        raise LogCorrupt(
            f"log {name or log_id}: its row, with log end {next_offset}, has a wrong checksum"
        )


def row_crc(*values: str | bytes | int) -> int:
    """The checksum of all other columns of a row of the catalogue."""
    crc = 0
    for value in values:
        data = value if isinstance(value, bytes) else str(value).encode()
        crc = zlib.crc32(data, zlib.crc32(_SIZE.pack(len(data)), crc))
    return crc


def check_row(table: str, crc: int, *values: str | bytes | int) -> None:
    """Raises LogCorrupt if a row of the catalogue is not what was written."""
    try:
        right = row_crc(*values) == crc
    except _WRONG_TYPES:
        right = False
    if not right:
        shown = next((value for value in values if isinstance(value, str) and value), "")
        raise LogCorrupt(f"table {table}: the row of {shown!r} has a wrong checksum")
