"""Runs of offset commits in a batch: what nearly all of a log is, read many at a time.

A commit of several partitions leaves records that differ in few places: the same group and topic,
values as they are written today (v4) without metadata and with one topic id, all of one size.
`take` looks at the first one for its form and unpacks those behind it that have the very same,
without a line of Python for each field. Whatever looks different ends the run; what has another
form at its front is read in the ordinary way, which therefore is also the one that knows what is
damaged.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct
from sys import intern
from typing import NamedTuple

from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.offset_records import COMMIT_KEY

_NO_METADATA = 1  # length + 1
_BARE = 48
"""24 as a varint: the size of a value without a topic id."""
_WITH_ID = 84
_HEADS = {_BARE: b"\x30\x00\x04", _WITH_ID: b"\x54\x00\x04"}
"""What a value begins with: its size, its version."""
_BARE_ENDING = b"\x00\x00"  # no tagged field, no header
_ID_FIELD = b"\x01\x00\x10"
_STAMP_MAX = 5
_TWO_BYTES = 0x8000, 0x8080
"""A varint of two bytes as one number: these bits, of those."""


class CommitRun(NamedTuple):
    """`offsets` by partition, as they are once all `records` are applied in their order;
    `position`: behind the last one."""

    group: str
    topic: str
    offsets: dict[int, StoredOffset]
    records: int
    position: int


class _Form(NamedTuple):
    """Of one record: its fields (see `_layout`), and the bytes of those that do not change.
    `wide`: the offset delta takes two bytes."""

    layout: Struct
    front: bytes
    stamp: bytes
    wide: bool
    opening: bytes
    head: bytes
    ending: bytes


@lru_cache(maxsize=1024)
def _layout(front: int, stamp: int, wide: bool, opening: int, ending: int) -> Struct:
    """Length and attributes, timestamp delta, offset delta; the key's length and the key up to the
    partition; the partition; the value's length and version, offset, epoch, length of the metadata,
    time, the rest."""
    return Struct(f">{front}s{stamp}s{'H' if wide else 'B'}{opening}si3sqiBq{ending}s")


class CommitRuns:
    """For the records of one log; what repeats is decoded once and stands in memory once."""

    __slots__ = ("_group", "_prefix", "_topic", "_topic_id")

    def __init__(self) -> None:
        self._prefix: bytes | None = None
        self._group = self._topic = ""
        self._topic_id = NO_TOPIC_ID

    def take(self, data: bytes, position: int, base_offset: int, count: int) -> CommitRun | None:
        """Of the `count` records that begin at `position`, those at the front that have the form of
        the first one; None if that is no commit in the form of `CommitReader`."""
        try:
            form = self._form(data, position)
        except (IndexError, UnicodeDecodeError):
            return None
        if form is None:
            return None
        layout, front, known_stamp, wide, opening, head, ending = form
        topic_id, size = self._topic_id if len(ending) > 2 else NO_TOPIC_ID, layout.size
        most = min(count, (len(data) - position) // size)
        # A tuple made as such is made without a call of Python.
        new = tuple.__new__
        found: dict[int, StoredOffset] = {}
        taken, before_ms = 0, 0
        view = memoryview(data)[position : position + most * size]
        for (
            first,
            stamp,
            delta,
            start,
            partition,
            middle,
            offset,
            epoch,
            metadata,
            at_ms,
            rest,
        ) in layout.iter_unpack(view):
            if (
                start != opening
                or first != front
                or rest != ending
                or middle != head
                or metadata != _NO_METADATA
            ):
                break
            if stamp != known_stamp:
                if not _is_varint(stamp):
                    break
                known_stamp = stamp
            if wide:
                if delta & _TWO_BYTES[1] != _TWO_BYTES[0]:
                    break
                delta = delta >> 8 & 0x7F | (delta & 0x7F) << 7
            if delta & 1 or (delta >= 0x80 and not wide):
                break
            if at_ms == before_ms:
                at_ms = before_ms  # one object for all of a commit
            before_ms = at_ms
            place = base_offset + (delta >> 1)
            found[partition] = new(StoredOffset, (offset, epoch, "", at_ms, -1, topic_id, place))
            taken += 1
        if not taken:
            return None
        return CommitRun(self._group, self._topic, found, taken, position + taken * size)

    def _form(self, data: bytes, position: int) -> _Form | None:
        """Of the record at `position`, whose group, topic and topic id are then known. Raises
        IndexError, UnicodeDecodeError."""
        length, at = _number(data, position)
        end = at + length
        stamp_at = at = at + 1
        if length < 0 or end > len(data):
            return None
        front = data[position:stamp_at]
        while data[at] >= 0x80:
            at += 1
        delta_at = at = at + 1
        delta, opening_at = _number(data, delta_at)
        key_bytes, key_at = _number(data, opening_at)
        key_end = key_at + key_bytes
        if delta < 0 or key_bytes < 4 or delta_at - stamp_at > _STAMP_MAX:
            return None
        kind = data[key_end]
        head = _HEADS.get(kind)
        # Behind the value: the number of headers.
        if head is None or key_end + 1 + (kind >> 1) + 1 != end:
            return None
        ending = _BARE_ENDING
        if kind == _WITH_ID:
            ending = data[end - 20 : end]
            if ending[:3] != _ID_FIELD or ending[19]:
                return None
            if ending[3:19] != self._topic_id:
                self._topic_id = ending[3:19]
        prefix = data[key_at : key_end - 4]
        if prefix != self._prefix and not self._learn(prefix):
            return None
        opening, wide = data[opening_at : key_end - 4], opening_at - delta_at == 2
        layout = _layout(len(front), delta_at - stamp_at, wide, len(opening), len(ending))
        return _Form(layout, front, data[stamp_at:delta_at], wide, opening, head, ending)

    def _learn(self, prefix: bytes) -> bool:
        """A key without its partition: of type 1, then group and topic."""
        topic_at = 4 + (prefix[2] << 8 | prefix[3])
        name_at = topic_at + 2
        if prefix[:2] != COMMIT_KEY:
            return False
        if name_at + (prefix[topic_at] << 8 | prefix[topic_at + 1]) != len(prefix):
            return False
        group, topic = prefix[4:topic_at].decode(), intern(prefix[name_at:].decode())
        self._group, self._topic, self._prefix = group, topic, prefix
        return True


def _number(data: bytes, position: int) -> tuple[int, int]:
    """A varint of one or two bytes, and what is behind it; -1 for longer and negative ones."""
    number, position = data[position], position + 1
    if number >= 0x80:
        number, position = number & 0x7F | data[position] << 7, position + 1
    return -1 if number & 1 or number >= 0x4000 else number >> 1, position


def _is_varint(stamp: bytes) -> bool:
    return stamp[-1] < 0x80 and all(byte >= 0x80 for byte in stamp[:-1])
