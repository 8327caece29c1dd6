"""Runs of offset commits in a batch: what nearly all of a log is, read many at a time.

A commit of several partitions leaves records that differ in few places: the same group and topic,
values as they are written today (v4) without metadata and with one topic id. `learn` is told of the
first one; `take` reads the records behind it for as long as they have that very form, each with one
`unpack`. Whatever looks different ends the run and is read in the ordinary way, which therefore is
also the one that knows what is damaged.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from coordinator.core.offsets.store import StoredOffset
from protocol.messages import NO_TOPIC_ID
from protocol.records.primitives import uvarint
from protocol.records.schema import OffsetCommitValue

_NO_METADATA = 1  # length + 1
_V4_VALUE_BYTES = 24
_ID_BYTES = 18


class CommitRun(NamedTuple):
    """`offsets` by partition, as they are once all `records` are applied in their order;
    `position`: behind the last one."""

    group: str
    topic: str
    offsets: dict[int, StoredOffset]
    records: int
    position: int


class CommitRuns:
    """For the records of one log; knows the form of one commit at a time."""

    __slots__ = ("_ending", "_form", "_group", "_opening", "_topic", "_topic_id", "_value_head")

    def __init__(self) -> None:
        self._form: Struct | None = None
        self._group = self._topic = ""
        self._topic_id = NO_TOPIC_ID
        self._opening = self._value_head = self._ending = b""

    def learn(self, key: bytes, place: tuple[str, str, int], value: OffsetCommitValue) -> None:
        """`key` and `value` of a commit in the form of `CommitReader`."""
        if value.metadata:
            self._form = None
            return
        size = _V4_VALUE_BYTES
        self._ending = b"\x00\x00"  # no tagged field, no header
        self._topic_id = value.topic_id
        if value.topic_id != NO_TOPIC_ID:
            size += _ID_BYTES
            self._ending = b"\x01\x00\x10" + value.topic_id + b"\x00"
        self._group, self._topic, _ = place
        self._opening = uvarint(2 * len(key)) + key[:-4]
        self._value_head = uvarint(2 * size) + b"\x00\x04"
        sizes = len(self._opening), len(self._value_head), len(self._ending)
        self._form = Struct(">{}si{}sqiBq{}s".format(*sizes))

    def take(self, data: bytes, position: int, base_offset: int, count: int) -> CommitRun | None:
        """Of the `count` records that begin at `position`, those at the front in the form that
        was learnt last; None if the first one has another."""
        form = self._form
        if form is None:
            return None
        unpack, size = form.unpack_from, form.size
        opening, head, ending = self._opening, self._value_head, self._ending
        topic_id, data_end = self._topic_id, len(data)
        # A tuple made as such is made without a call of Python.
        new = tuple.__new__
        found: dict[int, StoredOffset] = {}
        taken, before_ms = 0, 0
        while taken < count and position + 1 < data_end:
            length, at = data[position], position + 1
            if length >= 0x80:
                length, at = length & 0x7F | data[at] << 7, at + 1
            end = at + (length >> 1)
            key_at = end - size
            # A negative length, one of three bytes, a record that is cut or too short.
            if length & 1 or length >= 0x4000 or end > data_end or key_at < at + 3:
                break
            at += 1  # attributes
            while data[at] >= 0x80:  # timestamp
                at += 1
            delta, at = data[at + 1], at + 2
            if delta >= 0x80:
                delta, at = delta & 0x7F | data[at] << 7, at + 1
            if at != key_at or delta & 1 or delta >= 0x4000:
                break
            start, partition, middle, offset, epoch, metadata, at_ms, rest = unpack(data, key_at)
            if start != opening or middle != head or metadata != _NO_METADATA or rest != ending:
                break
            if at_ms == before_ms:
                at_ms = before_ms  # one object for all of a commit
            before_ms = at_ms
            value = new(OffsetCommitValue, (offset, epoch, "", at_ms, -1, topic_id))
            found[partition] = new(StoredOffset, (value, base_offset + (delta >> 1)))
            taken += 1
            position = end
        if not taken:
            return None
        return CommitRun(self._group, self._topic, found, taken, position)
