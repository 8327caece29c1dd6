"""The generator: exact, repeatable, valid down to the bytes, and with everything in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from groupd.coordinator.logtools.findings import Finding
from groupd.coordinator.logtools.segments import partition_files, read_segment
from groupd.coordinator.logtools.topic_ids import described_topics
from groupd.coordinator.logtools.verify import verify_segments, verify_store
from groupd.pipeline.generator.command import Generated, Options, generate, plan_world
from groupd.pipeline.generator.sinks import GeneratorError, SegmentSink, StoreSink
from groupd.protocol.records.batch import check, decode_marker, iter_records
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.codec import decode_record, encode_key, encode_value, record_type
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from groupd.storage.open import create_reader, create_store

SMALL = Options(records=12_000, groups=40, seed=5, days=2)


def to_segments(options: Options, directory: Path) -> Generated:
    world, plans = plan_world(options)
    return asyncio.run(generate(world, plans, SegmentSink(directory)))


def payloads(directory: Path) -> dict[int, list[bytes]]:
    """The batches of every partition."""
    return {
        partition: [raw.payload for path in paths for raw in read_segment(path)]
        for partition, paths in partition_files(directory).items()
    }


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with enough groups for every kind of them."""
    directory = tmp_path_factory.mktemp("generated") / "segments"
    to_segments(Options(records=24_000, groups=80, seed=12, days=3), directory)
    return directory


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("generated") / "segments"
    to_segments(SMALL, directory)
    return directory


def test_equal_options_give_equal_bytes_and_another_seed_others(
    small: Path, tmp_path: Path
) -> None:
    to_segments(SMALL, tmp_path / "again")
    to_segments(Options(SMALL.records, SMALL.groups, seed=6, days=2), tmp_path / "other")
    first, again, other = (payloads(at) for at in (small, tmp_path / "again", tmp_path / "other"))
    assert first == again
    assert first != other
    for name in ("topics.json", "end-offsets.jsonl"):
        assert (small / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize(
    ("records", "groups"), [(100, 1), (100, 50), (1_000, 300), (5_000, 1), (20_000, 7)]
)
def test_as_many_records_and_groups_as_were_asked_for(
    tmp_path: Path, records: int, groups: int
) -> None:
    done = to_segments(Options(records, groups, seed=1), tmp_path / "log")
    assert (done.records, done.groups) == (records, groups)
    read = [
        r
        for batches in payloads(tmp_path / "log").values()
        for b in batches
        for r in iter_records(b)
    ]
    assert len(read) == records
    names = {decode_record(r.key, None).key.group for r in read if r.key and len(r.key) > 4}
    assert len(names) == groups


def test_a_generated_log_verifies_as_segments_and_in_a_store(small: Path, tmp_path: Path) -> None:
    found: list[Finding] = []
    counts = verify_segments(small, SMALL.partitions, found.append)
    assert found == []
    assert counts.records == SMALL.records
    assert SMALL.groups * 0.85 <= counts.groups <= SMALL.groups  # some were deleted
    assert counts.open_transactions == 0

    async def in_a_store() -> None:
        world, plans = plan_world(SMALL)
        store = create_store(None, tmp_path)
        await store.start()
        await generate(world, plans, StoreSink(store))
        await store.close()
        reader = create_reader(None, tmp_path)
        await reader.start()
        stored = await verify_store(reader, found.append)
        assert stored.records == SMALL.records
        topics = {topic.name: (topic.topic_id, topic.partitions) for topic in await reader.topics()}
        beside = described_topics(small)
        assert topics == {name: (t.topic_id, t.partitions) for name, t in beside.items()}
        written = payloads(small)
        for partition in sorted(written)[:3]:
            rows = await reader.read(f"__consumer_offsets-{partition}", 0, 10_000_000)
            assert [row.payload for row in rows] == written[partition]
        await reader.close()

    asyncio.run(in_a_store())
    assert found == []


def test_records_are_what_the_codec_would_have_written(small: Path) -> None:
    seen: Counter[int] = Counter()
    for batches in payloads(small).values():
        for payload in batches:
            header = check(payload)
            if header.is_control:
                continue
            pairs = []
            for raw in iter_records(payload):
                record = decode_record(raw.key or b"", raw.value)
                assert (encode_key(record.key), encode_value(record)) == (raw.key, raw.value)
                pairs.append((raw.key, raw.value))
                seen[record_type(raw.key or b"")] += 1
            again = encode_batch(
                header.base_offset,
                0,
                header.base_timestamp_ms,
                pairs,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                header.is_transactional,
            )
            assert again == payload
    assert set(seen) - {4} == {1, 2, 3, 5, 6, 7, 8, 16}  # 4: in deletions only


def test_time_never_goes_back_and_covers_the_days(small: Path) -> None:
    times = []
    for batches in payloads(small).values():
        mine = [check(payload).max_timestamp_ms for payload in batches]
        assert mine == sorted(mine)
        times += mine
    assert SMALL.until_ms - min(times) > 1.99 * 86_400_000
    assert max(times) <= SMALL.until_ms


def test_there_are_tombstones_both_outcomes_and_offsets_that_go_back(varied: Path) -> None:
    outcomes: Counter[bool] = Counter()
    tombstones: Counter[int] = Counter()
    back = same = 0
    last: dict[OffsetCommitKey, int] = {}
    for batches in payloads(varied).values():
        for payload in batches:
            header = check(payload)
            for raw in iter_records(payload):
                if header.is_control:
                    marker = decode_marker(raw)
                    assert marker is not None
                    outcomes[marker.committed] += 1
                    continue
                record = decode_record(raw.key or b"", raw.value)
                if record.value is None:
                    tombstones[record_type(raw.key or b"")] += 1
                if isinstance(record.value, OffsetCommitValue):
                    assert isinstance(record.key, OffsetCommitKey)
                    moved = record.value.offset - last.get(record.key, record.value.offset)
                    back += moved < 0 and not header.is_transactional
                    same += moved == 0
                    last[record.key] = record.value.offset
    assert outcomes[True] > outcomes[False] > 0
    assert {1, 3, 5, 6, 7, 8} <= set(tombstones)
    assert back > 3
    assert same > 100


def test_an_abort_leaves_the_offsets_where_they_were(varied: Path) -> None:
    """What was aborted is committed again by the producer's next transaction or a later one."""
    checked = 0
    for batches in payloads(varied).values():
        committed: dict[OffsetCommitKey, int] = {}
        pending: dict[int, dict[OffsetCommitKey, int]] = {}
        for payload in batches:
            header = check(payload)
            for raw in iter_records(payload):
                if header.is_control:
                    ended = pending.pop(header.producer_id)
                    marker = decode_marker(raw)
                    if marker is not None and marker.committed:
                        committed |= ended
                elif header.is_transactional:
                    record = decode_record(raw.key or b"", raw.value)
                    assert isinstance(record.key, OffsetCommitKey)
                    assert isinstance(record.value, OffsetCommitValue)
                    assert record.value.offset >= committed.get(record.key, 0)
                    pending.setdefault(header.producer_id, {})[record.key] = record.value.offset
                    checked += 1
        assert pending == {}
    assert checked > 200


def test_a_log_is_only_generated_into_an_empty_place(small: Path, tmp_path: Path) -> None:
    world, plans = plan_world(Options(200, 2))
    with pytest.raises(GeneratorError, match="not empty"):
        asyncio.run(generate(world, plans, SegmentSink(small)))

    async def twice() -> None:
        store = create_store(None, tmp_path)
        await store.start()
        try:
            await generate(world, plans, StoreSink(store))
            await generate(world, plans, StoreSink(store))
        finally:
            await store.close()

    with pytest.raises(GeneratorError, match="in use"):
        asyncio.run(twice())


def test_ends_of_topics_are_ahead_of_every_commit_at_its_time(small: Path) -> None:
    world, _ = plan_world(SMALL)
    topics = {topic.name: topic for topic in world.topics}
    for batches in payloads(small).values():
        for payload in batches:
            for raw in iter_records(payload):
                if raw.key is None or raw.key[:2] != b"\x00\x01" or raw.value is None:
                    continue
                record: Record = decode_record(raw.key, raw.value)
                assert isinstance(record.key, OffsetCommitKey)
                assert isinstance(record.value, OffsetCommitValue)
                elapsed_s = (raw.timestamp_ms - world.start_ms) / 1000
                end = topics[record.key.topic].end(record.key.partition, elapsed_s)
                assert 0 <= record.value.offset <= end
