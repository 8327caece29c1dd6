"""Compaction of batches that are much more than they weigh."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from groupd.protocol.records.batch import parse_header
from groupd.storage.memory import MemoryStore
from tests.attack import bombs
from tests.support.mappings import counted_memory
from tests.unit.cleaning.harness import Bench

MB = 1 << 20
LIMIT = 4 * MB
COMPACT = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0",
    "segment_ms": "1",
}


@pytest.fixture
async def bench():
    made = await Bench(MemoryStore(), produce_unpacked_max_bytes=LIMIT).start()
    yield made
    await made.stop()


async def compact(bench):
    bench.time.advance(10_000)
    await bench.compact()


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
@pytest.mark.parametrize("name", ["one value of 30 MB", "one key of 30 MB"])
async def test_a_large_batch_is_in_memory_once(bench, name, codec):
    await bench.create("t", 1, **COMPACT)
    bomb = bombs.BOMBS[name](codec, LIMIT - 1000)
    for _ in range(2):
        assert (await bench.produce("t", bomb)).error == 0
    await bench.put("t", (b"x", b"y"))
    with counted_memory() as memory:
        await compact(bench)
    assert bench.cleaner.failures == 0
    assert bench.cleaner.compaction.compacted.dropped == 1  # the older one of the same key
    assert memory.most <= LIMIT
    assert memory.traced < 3 * MB


@pytest.mark.slow
async def test_many_records_leave_a_byte_each(bench):
    """All but one go, so that the batch is written anew."""
    await bench.create("t", 1, **COMPACT)
    bomb = bombs.small_records("zstd", MB // 4)
    count = parse_header(bomb).record_count
    assert (await bench.produce("t", bomb)).error == 0
    await bench.put("t", (b"x", b"y"))
    with counted_memory() as memory:
        await compact(bench)
    assert bench.cleaner.compaction.compacted.dropped == count - 1
    assert memory.most + memory.traced < 2 * MB


async def test_a_batch_that_is_too_large_leaves_its_partition_as_it_is(bench):
    """It was stored when the limit was another. The other partitions are compacted."""
    await bench.create("t", 2, **COMPACT)
    await bench.stop()
    larger = await Bench(bench.store, produce_unpacked_max_bytes=32 * MB).start()
    assert (await larger.produce("t", bombs.one_value("lz4", 20 * MB))).error == 0
    await larger.stop()
    await bench.start()
    for partition in (0, 1):
        for value in (b"1", b"2", b"3"):
            answer = await bench.produce("t", bench.batch(value, key=b"k"), partition=partition)
            assert answer.error == 0
    with counted_memory() as memory, capture_logs() as logs:
        await compact(bench)
    assert bench.cleaner.failures == 1
    assert bench.cleaner.compaction.compacted.dropped == 2
    said = f"the batch at offset 0 has more than {LIMIT} bytes when unpacked"
    assert any(said in str(entry) for entry in logs)
    assert memory.most <= LIMIT
    assert (await bench.produce("t", bench.batch(key=b"k"))).base_offset == 4
