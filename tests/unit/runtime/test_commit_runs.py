"""Runs of offset commits are read as the ordinary way reads them one by one, or not at all."""

from __future__ import annotations

from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.runtime.commit_runs import CommitRun, take_run
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.batch import (
    HEADER_BYTES,
    Batch,
    CorruptBatch,
    iter_batches,
    iter_records,
    read_records,
    records_data,
)
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.codec import (
    CorruptRecord,
    RecordDecoder,
    UnknownRecordType,
    encode_key,
    encode_value,
)
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record

T_ID = bytes(range(16))
Commit = tuple[OffsetCommitKey, OffsetCommitValue | None]
Offsets = dict[OffsetCommitKey, StoredOffset | None]

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
    st.sampled_from(["", "", "", "metadata", "as long as an id "]),
    st.sampled_from([1, 2, 2**40]),
    st.sampled_from([-1, -1, -1, 7]),
    st.sampled_from([NO_TOPIC_ID, T_ID, T_ID, T_ID]),
)
COMMITS = st.tuples(KEYS, VALUES | st.none())


def one_batch(commits: list[Commit], base_offset: int = 40) -> Batch:
    pairs = [(encode_key(key), encode_value(Record(key, value))) for key, value in commits]
    (batch,) = iter_batches(encode_batch(base_offset, 0, 0, pairs))
    return batch


def offsets_of(run: CommitRun) -> Offsets:
    return {
        OffsetCommitKey(group, topic, partition): stored
        for group, topic, offsets in run.topics
        for partition, stored in offsets.items()
    }


def one_by_one(batch: Batch, index: int = 0) -> Offsets:
    found, decoder = Offsets(), RecordDecoder()
    for log_offset, _, key, value, _ in islice(iter_records(batch), index, None):
        assert key is not None
        record = decoder.decode(key, value)
        assert isinstance(record.key, OffsetCommitKey)
        committed = record.value
        assert committed is None or isinstance(committed, OffsetCommitValue)
        stored = None if committed is None else StoredOffset.of(committed, log_offset)
        found[record.key] = stored
    return found


def in_runs(batch: Batch, most: int = 500) -> tuple[Offsets, int]:
    """What is read with runs wherever there is one, and how many records runs have read."""
    header, found, decoder = batch.header, Offsets(), RecordDecoder()
    records = records_data(header, batch.payload)
    at, index, taken = records.start, 0, 0
    alone = list(iter_records(batch))
    while index < header.record_count:
        run = take_run(decoder, header, records, at, index, min(most, header.record_count - index))
        if run is None:
            *_, at = next(read_records(header, records, at, index))
            _, _, key, value, _ = alone[index]
            assert key is not None
            record = decoder.decode(key, value)
            assert isinstance(record.key, OffsetCommitKey)
            assert record.value is None or isinstance(record.value, OffsetCommitValue)
            log_offset = header.base_offset + index
            value_of = record.value
            found[record.key] = None if value_of is None else StoredOffset.of(value_of, log_offset)
            index += 1
            continue
        found.update(offsets_of(run))
        at, index, taken = run.position, index + run.records, taken + run.records
    assert at == records.end
    return found, taken


@given(st.lists(COMMITS, min_size=1, max_size=40), st.integers(1, 10))
def test_a_batch_of_any_commits_leads_to_the_same(commits: list[Commit], most: int) -> None:
    batch = one_batch(commits)
    found, _ = in_runs(batch, most)
    assert found == one_by_one(batch)


@given(st.integers(1, 300), st.sampled_from([NO_TOPIC_ID, T_ID]))
def test_a_commit_of_many_partitions_is_one_run(partitions: int, topic_id: bytes) -> None:
    value = OffsetCommitValue(9, 3, "", 1000, -1, topic_id)
    batch = one_batch([(OffsetCommitKey("group", "topic", p), value) for p in range(partitions)])
    if topic_id == NO_TOPIC_ID:
        assert len(encode_value(Record(OffsetCommitKey("", "", 0), value)) or b"") == 24
    found, taken = in_runs(batch)
    assert taken == partitions
    assert found == one_by_one(batch)
    assert {type(stored) for stored in found.values()} == {StoredOffset}


def test_a_run_goes_over_groups_and_topics_of_the_same_length() -> None:
    value = OffsetCommitValue(9, 3, "", 1000, -1, T_ID)
    names = [("g1", "t1"), ("g1", "t2"), ("g2", "t2"), ("g1", "t1")]
    keys = [OffsetCommitKey(*name, p) for name in names for p in range(3)]
    batch = one_batch([(key, value._replace(offset=at)) for at, key in enumerate(keys)])
    found, taken = in_runs(batch)
    assert taken == len(keys)
    assert found == one_by_one(batch)


@given(st.integers(0, 2000), st.integers(0, 255))
def test_a_changed_byte_is_never_read_in_another_way(at: int, byte: int) -> None:
    """What a run takes of damaged records (whose checksum nobody has looked at here) is what the
    ordinary way takes, too, or that one refuses."""
    value = OffsetCommitValue(9, 3, "", 1000, -1, T_ID)
    batch = one_batch([(OffsetCommitKey("group", "topic", p), value) for p in range(20)])
    data = bytearray(batch.payload[HEADER_BYTES:])
    data[at % len(data)] = byte
    damaged = Batch(batch.header, batch.payload[:HEADER_BYTES] + bytes(data))
    try:
        expected = one_by_one(damaged)
    except (CorruptBatch, CorruptRecord, UnknownRecordType, AssertionError):
        return
    found, decoder, header = Offsets(), RecordDecoder(), damaged.header
    records, index = records_data(header, damaged.payload), 0
    position = records.start
    while index < header.record_count:
        run = take_run(decoder, header, records, position, index, header.record_count - index)
        if run is None:
            break
        found.update(offsets_of(run))
        position, index = run.position, index + run.records
    found.update(one_by_one(damaged, index))
    assert found == expected


def test_an_overlong_length_of_no_metadata_is_no_run() -> None:
    """A value of the same size, with one byte more there and an unknown tagged field."""
    key = OffsetCommitKey("g", "t", 0)
    value = encode_value(Record(key, OffsetCommitValue(5, 0, "", 1_700_000_000_000, -1, T_ID)))
    assert value is not None
    assert value[14] == 1
    overlong = value[:14] + b"\x81\x00" + value[15:23] + b"\x01\x05\x0f" + bytes(15)
    assert len(overlong) == len(value)
    (batch,) = iter_batches(encode_batch(0, 0, 0, [(encode_key(key), overlong)] * 2))
    records = records_data(batch.header, batch.payload)
    assert take_run(RecordDecoder(), batch.header, records, records.start, 0, 2) is None
