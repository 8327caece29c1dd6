"""The records of a batch that a producer sent, looked at before it is appended.

What a record is, and what is wrong with one, is said by `batch.read_record`. Here the common form
(short varints, no headers, the expected offset) is looked at in place, without making an object of
each, because every record that is produced goes through here; all others are left to it.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct

from groupd.protocol.records.batch import LOG_APPEND_TIME, BatchHeader, CorruptBatch, read_record
from groupd.protocol.records.scan import check_end
from groupd.protocol.records.varints import BadVarint

TURN_RECORDS = 4000
"""Records between two turns for others: some three milliseconds."""

_NULL = 1  # length -1 as a varint
_TWO_BYTES_MAX = 0x3FFF


class ProducedRecords(Struct, frozen=True):
    """Of all records of a batch: least and largest timestamp, relative to the base timestamp, and
    whether one has no key."""

    least_delta_ms: int
    largest_delta_ms: int
    keyless: bool


def survey_produced(header: BatchHeader, data: bytes) -> Generator[None, None, ProducedRecords]:
    """Check that the uncompressed `data` holds as many whole records as the header says (one at
    least), at the offsets 0, 1, 2 ... from the first one, and nothing else. A generator that
    yields now and then so that others can have a turn, but not for short batches. Raises
    CorruptBatch."""
    if header.record_count <= 0:
        raise CorruptBatch(f"{header.record_count} records")
    if header.is_log_append_time:
        # For the timestamps of the records themselves.
        header = header._replace(attributes=header.attributes & ~LOG_APPEND_TIME)
    position, deltas, keyless = 0, set[int](), False
    for first in range(0, header.record_count, TURN_RECORDS):
        if first:
            yield
            # Only the extremes of what came before matter.
            deltas = {min(deltas), max(deltas)}
        stop = min(first + TURN_RECORDS, header.record_count)
        position, some_keyless = _survey(header, data, position, range(first, stop), deltas)
        keyless = keyless or some_keyless
    check_end(header, data, position)
    return ProducedRecords(min(deltas), max(deltas), keyless)


def _survey(
    header: BatchHeader, data: bytes, position: int, indexes: range, deltas: set[int]
) -> tuple[int, bool]:
    """The records with these indexes, from `position` on. Timestamps go into `deltas`; the result
    is the position behind them and whether one has no key."""
    keys, last_time = 0, -1
    for index in indexes:
        start = position
        try:
            length = data[position]
            position += 1
            if length >= 0x80:
                length += (data[position] << 7) - 0x80
                position += 1
            end = position + (length >> 1)
            time = data[position + 1]
            position += 2
            if time >= 0x80:
                time += (data[position] << 7) - 0x80
                position += 1
            offset = data[position]
            position += 1
            if offset >= 0x80:
                offset += (data[position] << 7) - 0x80
                position += 1
            key = data[position]
            position += 1
            if key >= 0x80:
                key += (data[position] << 7) - 0x80
                position += 1
            position += key >> 1
            value = data[position]
            position += 1
            if value >= 0x80:
                value += (data[position] << 7) - 0x80
                position += 1
            position += value >> 1
            if (
                # The last byte is the number of headers. A third byte of a varint would have set
                # the bit above 0x3FFF; only -1 may be odd.
                position + 1 == end
                and data[position] == 0
                and offset == index << 1
                and (length | time | key | value) <= _TWO_BYTES_MAX
                and (not key & 1 or key == _NULL)
                and (not value & 1 or value == _NULL)
                and not length & 1
            ):
                keys |= key
                if time != last_time:
                    last_time = time
                    deltas.add((time >> 1) ^ -(time & 1))
                position = end
                continue
        except IndexError:
            pass  # of a look too far ahead, unless the long way says so too
        position, delta_ms, has_key = _one(header, data, start, index)
        deltas.add(delta_ms)
        keys |= not has_key
    return position, bool(keys & 1)


def _one(header: BatchHeader, data: bytes, position: int, index: int) -> tuple[int, int, bool]:
    """A record that is not of the common form: the position behind it, its timestamp relative to
    the base timestamp, whether it has a key."""
    try:
        record, position = read_record(header, data, position)
    except (BadVarint, IndexError) as error:
        raise CorruptBatch(f"record {index} of {header.record_count} is cut: {error}") from error
    if record.offset - header.base_offset != index:
        raise CorruptBatch(
            f"record {index} has the offset delta {record.offset - header.base_offset}"
        )
    return position, record.timestamp_ms - header.base_timestamp_ms, record.key is not None
