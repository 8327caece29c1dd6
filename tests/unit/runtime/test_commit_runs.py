"""Runs of offset commits are read as the ordinary way reads them one by one, or not at all."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.runtime.commit_runs import CommitRuns
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.batch import Batch, CorruptBatch, encode_batch, iter_batches
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.offset_records import CommitReader
from groupd.protocol.records.scan import key_value, records_data
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record

T_ID = bytes(range(16))
Commit = tuple[OffsetCommitKey, OffsetCommitValue | None]
Places = dict[tuple[str, str, int], StoredOffset | None]

KEYS = st.builds(
    OffsetCommitKey,
    st.sampled_from(["g", "h", "a-longer-group" * 12, "g" * 9000]),
    st.sampled_from(["t", "u", "topic"]),
    st.integers(0, 2**31 - 1) | st.integers(0, 3),
)
VALUES = st.builds(
    OffsetCommitValue,
    st.integers(0, 2**63 - 1),
    st.integers(-1, 5),
    st.sampled_from(["", "", "", "metadata"]),
    st.sampled_from([1, 2, 2**40]),
    st.sampled_from([-1, -1, -1, 7]),
    st.sampled_from([NO_TOPIC_ID, T_ID, T_ID, T_ID]),
)
COMMITS = st.tuples(KEYS, VALUES | st.none())


def one_batch(commits: list[Commit], base_offset: int = 40) -> Batch:
    pairs = [(encode_key(key), encode_value(Record(key, value))) for key, value in commits]
    (batch,) = iter_batches(bytes(encode_batch(base_offset, 0, 0, pairs)))
    return batch


def slowly(batch: Batch) -> Places:
    reader, places, at = CommitReader(), Places(), 0
    for _ in range(batch.header.record_count):
        offset, key, value, at = key_value(batch.header, records_data(batch), at)
        assert key is not None
        place = reader.place(key)
        assert place is not None
        if value is None:
            places[place] = None
            continue
        committed = reader.value(value)
        if committed is not None:
            places[place] = StoredOffset.of(committed, offset)
        else:
            places.pop(place, None)
    return places


def quickly(batch: Batch, most: int = 500) -> tuple[Places, int]:
    """And how many records runs have read."""
    header, data = batch.header, records_data(batch)
    reader, runs, places = CommitReader(), CommitRuns(), Places()
    at, left, in_runs = 0, header.record_count, 0
    while left:
        run = runs.take(data, at, header.base_offset, min(left, most))
        if run is not None:
            places.update({(run.group, run.topic, p): run.offsets[p] for p in run.offsets})
            at, left, in_runs = run.position, left - run.records, in_runs + run.records
            continue
        offset, key, value, at = key_value(header, data, at)
        left -= 1
        assert key is not None
        place = reader.place(key)
        assert place is not None
        committed = None if value is None else reader.value(value)
        if committed is not None and value is not None:
            places[place] = StoredOffset.of(committed, offset)
        elif value is None:
            places[place] = None
        else:
            places.pop(place, None)
    assert at == len(data)
    return places, in_runs


@given(st.lists(COMMITS, min_size=1, max_size=40), st.integers(1, 10))
def test_a_batch_of_any_commits_leads_to_the_same(commits: list[Commit], most: int) -> None:
    batch = one_batch(commits)
    found, _ = quickly(batch, most)
    assert found == slowly(batch)


@given(st.integers(1, 300), st.sampled_from([NO_TOPIC_ID, T_ID]))
def test_a_commit_of_many_partitions_is_one_run(partitions: int, topic_id: bytes) -> None:
    value = OffsetCommitValue(9, 3, "", 1000, -1, topic_id)
    batch = one_batch([(OffsetCommitKey("group", "topic", p), value) for p in range(partitions)])
    found, in_runs = quickly(batch)
    assert in_runs == partitions
    assert found == slowly(batch)
    assert {type(stored) for stored in found.values()} == {StoredOffset}


@given(st.integers(0, 2000), st.integers(0, 255))
def test_a_changed_byte_is_never_read_in_another_way(at: int, byte: int) -> None:
    """What the run takes of damaged records (whose checksum nobody has looked at here) is what the
    ordinary way takes, too, or that one refuses."""
    value = OffsetCommitValue(9, 3, "", 1000, -1, T_ID)
    batch = one_batch([(OffsetCommitKey("group", "topic", p), value) for p in range(20)])
    data = bytearray(records_data(batch))
    data[at % len(data)] = byte
    damaged = Batch(batch.header, batch.payload[:61] + bytes(data))
    try:
        expected = slowly(damaged)
    except (CorruptBatch, IndexError, ValueError, struct.error, AssertionError):
        return
    found, _ = quickly(damaged)
    assert found == expected
