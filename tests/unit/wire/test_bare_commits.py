"""OffsetCommit partitions that are read all at once are what they are one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.messages.offsets import CommitPartition
from groupd.protocol.reader import READ_ERRORS, Reader
from groupd.protocol.schema import struct
from groupd.protocol.wire.api import offset_commit
from groupd.protocol.writer import Writer

Entry = tuple[CommitPartition, tuple[tuple[int, bytes], ...]]

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
METADATA = st.sampled_from((None, None, None, "", "", "m", "x" * 200))
TAGGED = st.sampled_from(((), (), (), (), ((5, b"later"),)))
ENTRIES = st.lists(st.tuples(st.builds(CommitPartition, INT32, INT64, INT32, METADATA), TAGGED))


def body(entries: list[Entry]) -> bytes:
    """The body of an OffsetCommit v9 of one topic."""
    writer = Writer(flexible=True)
    writer.string("g")
    writer.int32(3)
    writer.string("m")
    writer.nullable_string(None)
    writer.array_length(1)
    writer.string("t")
    writer.array_length(len(entries))
    for entry, tagged in entries:
        writer.int32(entry.partition)
        writer.int64(entry.offset)
        writer.int32(entry.leader_epoch)
        writer.nullable_string(entry.metadata)
        for tag, payload in tagged:
            writer.tagged_field(tag, payload)
        writer.end()
    writer.end()
    writer.end()
    return bytes(writer.buffer)


PARTITION = struct(
    CommitPartition, "partition:int32 offset:int64 leader_epoch:int32 metadata:string?"
)
ONE_BY_ONE = struct(None, "partitions:[]partition", partition=PARTITION).reading(9, True)
BEFORE_PARTITIONS = 12
"""The size of what stands before the partitions in `body`."""


@given(ENTRIES, st.data())
def test_all_at_once_is_one_by_one(entries: list[Entry], data: st.DataObject) -> None:
    """It is so too where the request is cut, or a byte of it is another."""
    whole = body(entries)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes((data.draw(st.integers(0, 255)),)) + whole[at + 1 :]
    for request in (whole, whole[:at], changed):
        at_once = Reader(request, BEFORE_PARTITIONS, 9, flexible=True)
        one_by_one = Reader(request, BEFORE_PARTITIONS, 9, flexible=True)
        try:
            expected = ONE_BY_ONE(one_by_one)
        except READ_ERRORS:
            with pytest.raises(READ_ERRORS):
                offset_commit._read_partitions(at_once, ONE_BY_ONE)
            continue
        assert offset_commit._read_partitions(at_once, ONE_BY_ONE) == expected
        assert (at_once.at, at_once.items) == (one_by_one.at, one_by_one.items)
    first = offset_commit.OFFSET_COMMIT.decode(whole, 0, 9)
    assert list(first.topics[0].partitions) == [entry for entry, _ in entries]


def test_partitions_without_metadata_are_read_at_once() -> None:
    entries = [(CommitPartition(p, 7 * p, -1, "" if p % 2 else None), ()) for p in range(200)]
    reader = Reader(body(entries), BEFORE_PARTITIONS, 9, flexible=True)
    found = offset_commit._read_partitions(reader, _never)
    assert found == tuple(entry for entry, _ in entries)
    assert found[3] == CommitPartition(3, 21, -1, "")
    assert found[10:12] == (entries[10][0], entries[11][0])


def _never(reader: Reader) -> tuple[CommitPartition, ...]:
    raise AssertionError("read one by one")


def test_partitions_with_metadata_are_read_one_by_one() -> None:
    reader = Reader(body([(CommitPartition(0, 7, -1, "m"), ())]), BEFORE_PARTITIONS, 9, True)
    with pytest.raises(AssertionError):
        offset_commit._read_partitions(reader, _never)
    assert (reader.at, reader.items) == (BEFORE_PARTITIONS, 0)
