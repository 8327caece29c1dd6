"""OffsetCommit partitions that are read all at once are what they are one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.messages.offsets import CommitPartition, OffsetCommitRequest
from groupd.protocol.wire.api import offset_commit
from groupd.protocol.wire.registry import MalformedRequest
from groupd.protocol.writer import Writer

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
METADATA = st.sampled_from((None, None, None, "", "", "m", "x" * 200))
TAGGED = st.sampled_from(((), (), (), (), ((5, b"later"),)))
ENTRIES = st.lists(st.tuples(st.builds(CommitPartition, INT32, INT64, INT32, METADATA), TAGGED))


def body(entries: list[tuple[CommitPartition, tuple[tuple[int, bytes], ...]]]) -> bytes:
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


def decoded(data: bytes) -> OffsetCommitRequest | str:
    try:
        return offset_commit.OFFSET_COMMIT.decode(data, 0, 9)
    except MalformedRequest as error:
        return str(error)


@given(ENTRIES, st.data())
def test_all_at_once_is_one_by_one(
    entries: list[tuple[CommitPartition, tuple[tuple[int, bytes], ...]]], data: st.DataObject
) -> None:
    """It is so too where the request is cut, or a byte of it is another."""
    whole = body(entries)
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes((data.draw(st.integers(0, 255)),)) + whole[at + 1 :]
    requests = (whole, whole[:at], changed)
    at_once = [decoded(request) for request in requests]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_commit, "_read_bare_partitions", lambda reader: ())
        assert [decoded(request) for request in requests] == at_once
    first = at_once[0]
    assert isinstance(first, OffsetCommitRequest)
    assert list(first.topics[0].partitions) == [entry for entry, _ in entries]


def test_partitions_without_metadata_are_read_at_once() -> None:
    entries = [(CommitPartition(p, 7 * p, -1, "" if p % 2 else None), ()) for p in range(200)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_commit, "_read_partition", None)
        request = offset_commit.OFFSET_COMMIT.decode(body(entries), 0, 9)
    assert list(request.topics[0].partitions) == [entry for entry, _ in entries]
