"""Reads runs of offset commits, many records at a time: they are nearly all of a log
(docs/adr/0033).

Neighbouring records differ in few places: their values have the layout that is written today (v4),
no metadata, the same topic id and the same size, and mostly the same group and topic. The first
record of a run is read and decoded in the ordinary way. The records behind it whose bytes are the
same except for offset delta, group, topic, partition, offset, leader epoch and commit time are
unpacked together, without a line of Python for each field. Any other record ends the run and is
read in the ordinary way. So only the ordinary way decides what is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from struct import Struct
from typing import Any, NamedTuple

from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.protocol.messages import TopicId
from groupd.protocol.records.batch import BatchHeader, read_records
from groupd.protocol.records.codec import CorruptRecord, RecordDecoder
from groupd.protocol.records.compression import Plain
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue
from groupd.protocol.records.varints import zigzag

_COMMIT_KEY = b"\x00\x01"
_VERSION = b"\x00\x04"
_VALUE_SIZES = 24, 42
"""The sizes of a value without metadata: without a topic id, and with one."""
_METADATA_AT = 14
_TAGS_AT = 23
_PARTITION_BYTES = 4
_WIDE = 64
"""Offset deltas from this one on are varints of two bytes."""
_TWO_BYTES = 0x8000, 0x8080
"""(bits, mask): a number of two bytes is a varint of two bytes if of the bits in `mask` exactly
those in `bits` are set."""


class CommitRun(NamedTuple):
    """Commits that were read together. `topics`: (group, topic, its offsets by partition), as they
    are after all `records` records were applied in order. `position`: where the next record
    begins."""

    topics: list[tuple[str, str, dict[int, StoredOffset]]]
    records: int
    position: int


@lru_cache(maxsize=1024)
def _layout(front: int, wide: bool, opening: int, ending: int) -> Struct:
    """Returns the layout of a record: length, attributes and timestamp delta; the offset delta; the
    key up to the partition; the partition; size and version of the value; offset; leader epoch;
    length of the metadata; commit time; the rest."""
    return Struct(f">{front}s{'H' if wide else 'B'}{opening}si3sqiBq{ending}s")


def take_run(
    decoder: RecordDecoder,
    header: BatchHeader,
    records: Plain,
    position: int,
    index: int,
    most: int,
) -> CommitRun | None:
    """Returns the run that begins with record `index` at `position`, with at most `most` records;
    None if that record is no commit as described above. Raises CorruptBatch, CorruptRecord."""
    data, _, stop = records
    delta, _, key_at, key_size, value_size, start, value_end, end = next(
        read_records(header, records, position, index)
    )
    if key_size < 0 or value_size not in _VALUE_SIZES or not 0 <= delta < _WIDE**2:
        return None
    value_at = value_end - value_size
    key, value = data[key_at : key_at + key_size], data[value_at:value_end]
    if key[:2] != _COMMIT_KEY or value[:2] != _VERSION:
        return None
    record = decoder.decode(key, value)
    assert isinstance(record.value, OffsetCommitValue)
    if record.value.metadata or value[_METADATA_AT] != 1:
        return None  # the layout below has one byte for the length of the metadata
    # Where the fields are, if every number takes as few bytes as it can.
    key_length, place = zigzag(key_size), zigzag(delta)
    opening_at = value_at - 1 - key_size - len(key_length)
    delta_at = opening_at - len(place)
    if data[delta_at:value_at] != place + key_length + key + zigzag(value_size):
        return None
    layout = _layout(
        delta_at - start,
        len(place) == 2,
        value_at - 1 - _PARTITION_BYTES - opening_at,
        end - value_at - _TAGS_AT,
    )
    count = min(most, (stop - start) // layout.size)
    rows = layout.iter_unpack(memoryview(data)[start : start + count * layout.size])
    topics, taken = _alike(
        rows, decoder, record.value.topic_id, key_length, header.base_offset, len(place) == 2
    )
    return CommitRun(topics, taken, start + taken * layout.size)


def _alike(
    rows: Iterator[tuple[Any, ...]],
    decoder: RecordDecoder,
    topic_id: TopicId,
    key_size: bytes,
    base_offset: int,
    wide: bool,
) -> tuple[list[tuple[str, str, dict[int, StoredOffset]]], int]:
    """Returns the commits of the first rows, up to one that differs from the first, and how many
    they are."""
    new = tuple.__new__  # makes a tuple without a call of Python
    topics: list[tuple[str, str, dict[int, StoredOffset]]] = []
    offsets: dict[int, StoredOffset] = {}
    same: tuple[Any, ...] | None = None
    before, taken, before_ms = b"", 0, 0
    for front, delta, opening, partition, head, offset, epoch, length, at_ms, rest in rows:
        if same is None:
            same = front, head, length, rest
        elif same != (front, head, length, rest):
            break
        if wide:
            if delta & _TWO_BYTES[1] != _TWO_BYTES[0]:
                break
            delta = delta >> 8 & 0x7F | (delta & 0x7F) << 7
        if delta & 1 or (delta >= 0x80 and not wide):
            break
        if opening != before:
            names = _names(decoder, key_size, opening)
            if names is None:
                break
            before, offsets = opening, {}
            topics.append((*names, offsets))
        if at_ms == before_ms:
            at_ms = before_ms  # one object for all partitions of a commit
        before_ms = at_ms
        log_offset = base_offset + (delta >> 1)
        offsets[partition] = new(StoredOffset, (offset, epoch, "", at_ms, -1, topic_id, log_offset))
        taken += 1
    return topics, taken


def _names(decoder: RecordDecoder, key_size: bytes, opening: bytes) -> tuple[str, str] | None:
    """Returns the group and the topic of a key. `opening` is its size and the key without the
    partition. None: it is another kind of key, or damaged."""
    if not opening.startswith(key_size + _COMMIT_KEY):
        return None
    try:
        key = decoder.decode(opening[len(key_size) :] + bytes(_PARTITION_BYTES), None).key
    except CorruptRecord:
        return None
    assert isinstance(key, OffsetCommitKey)
    return key.group, key.topic
