"""Batches that cost more than they weigh: each is refused or taken within bounds."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.runtime.long_work import SLICE_NS, LongWork
from groupd.coordinator.topics.batch_checks import ITEMS_ALWAYS, TURN_RECORDS, survey_produced
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from groupd.protocol.records.batch import parse_header, records_data
from groupd.protocol.records.batch_builder import encode_record
from groupd.storage.memory import MemoryStore
from tests.attack import bombs
from tests.support.calls import most_calls_of_a_step
from tests.support.mappings import counted_memory

MB = 1 << 20
TOO_LARGE, INVALID = ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD
LIMIT = 4 * MB
"""Large enough to show it, and quicker than the default of 32 MB."""
CODECS = ["gzip", "snappy", "xerial", "lz4", "zstd"]


@pytest.fixture
async def small_cluster(make_cluster):
    cluster = await make_cluster(MemoryStore(), produce_unpacked_max_bytes=LIMIT).start()
    await cluster.create("t", 50, cleanup_policy="compact")
    yield cluster
    await cluster.stop()


def batch_with_key(cluster):
    return cluster.batch(key=b"k")


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", bombs.BOMBS)
async def test_a_bomb_of_any_codec(small_cluster, name, codec):
    """The next batch is taken as if nothing had been."""
    if name in ("two billion records claimed", "empty members, frames or blocks"):
        bomb, codes = bombs.BOMBS[name](codec), (INVALID,)
    elif name == "a gigabyte of zeros":
        bomb, codes = bombs.zeros(codec, 12 * MB), (TOO_LARGE,)
    else:
        bomb, codes = bombs.BOMBS[name](codec, LIMIT + MB), (TOO_LARGE,)
    with counted_memory() as memory:
        refused = await small_cluster.produce("t", bomb)
    assert refused.error in codes
    assert memory.most <= LIMIT
    assert memory.traced < 4 * MB
    taken = await small_cluster.produce("t", batch_with_key(small_cluster))
    assert (taken.error, taken.base_offset) == (ErrorCode.NONE, 0)


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
@pytest.mark.parametrize("build", [bombs.one_value, bombs.one_key])
async def test_a_large_batch_is_in_memory_once(small_cluster, build, codec):
    batch = build(codec, LIMIT - 100)
    with counted_memory() as memory:
        taken = await small_cluster.produce("t", batch)
    assert taken.error == ErrorCode.NONE
    assert 0 < memory.most <= LIMIT
    assert memory.traced < 3 * MB


async def test_one_large_batch_is_unpacked_at_a_time(small_cluster):
    """That holds whatever many clients send at once. Requests of a partition stay in their
    order."""
    large = bombs.one_value("gzip", LIMIT - 100)
    with counted_memory() as memory:
        sent = [small_cluster.produce("t", large, partition=at) for at in range(10)]
        sent += [
            small_cluster.produce("t", batch_with_key(small_cluster), partition=at)
            for at in range(50)
        ]
        answers = await asyncio.gather(*sent)
    assert {one.error for one in answers} == {ErrorCode.NONE}
    assert [one.base_offset for one in answers] == [*[0] * 10, *[1] * 10, *[0] * 40]
    assert memory.most <= LIMIT
    assert memory.traced < 4 * MB


async def test_small_batches_that_wait_hold_nothing_unpacked(small_cluster):
    """Thirty batches of nearly a megabyte each, with too many records to be checked at once."""
    count = TURN_RECORDS + 1
    records = (encode_record(at, b"k", bytes(400)) for at in range(count))
    batch = bombs.batch("zstd", b"".join(records), count)
    with counted_memory() as memory:
        answers = await asyncio.gather(
            *(small_cluster.produce("t", batch, partition=at) for at in range(30))
        )
    assert {one.error for one in answers} == {ErrorCode.NONE}
    assert memory.traced < 20 * MB  # 16 of them are under way


async def test_a_batch_may_unpack_to_a_thousand_times_its_size(make_cluster):
    cluster = await make_cluster(MemoryStore()).start()
    await cluster.create("t")
    equal = b"".join(encode_record(at, b"k", bytes(10_000)) for at in range(1000))
    honest = bombs.batch("gzip", equal, 1000)
    assert len(equal) > 600 * len(honest)
    assert (await cluster.produce("t", honest)).error == ErrorCode.NONE
    bomb = bombs.one_value("zstd", 30 * MB)
    assert len(bomb) < 2000
    refused = await cluster.produce("t", bomb)
    assert refused.error == TOO_LARGE
    assert refused.error_message == f"The record batch has more than {4 * MB} bytes when unpacked"
    await cluster.stop()


async def test_headers_in_proportion_to_what_was_sent(small_cluster):
    taken = await small_cluster.produce("t", bombs.many_headers("zstd", 2 * ITEMS_ALWAYS - 5000))
    assert taken.error == ErrorCode.NONE
    refused = await small_cluster.produce("t", bombs.many_headers("zstd", 2 * ITEMS_ALWAYS + 5000))
    assert refused.error == TOO_LARGE
    assert refused.error_message == "The record batch has too many headers for its size"
    plain = bombs.many_headers("none", 4 * ITEMS_ALWAYS)
    assert (await small_cluster.produce("t", plain)).error == ErrorCode.NONE


@pytest.mark.parametrize(
    "build",
    [bombs.many_headers, bombs.headers_each, bombs.small_records],
    ids=lambda one: one.__name__,
)
def test_a_step_of_the_check_is_short(build):
    batch = build("none", 300_000)
    header = parse_header(batch)
    assert most_calls_of_a_step(survey_produced(header, records_data(header, batch))) < (
        4 * TURN_RECORDS
    )


def test_the_count_of_a_header_is_not_believed():
    batch = bombs.claimed_records("none")
    header = parse_header(batch)
    steps = survey_produced(header, records_data(header, batch))
    with pytest.raises(Exception, match="2147483647 records in 9 bytes"):
        next(steps)


# ListOffsets ---------------------------------------------------------------------------------


async def listed(cluster, timestamp_ms, partition=0):
    asked = ListOffsetsTopic("t", (ListOffsetsPartition(partition, timestamp_ms),))
    reply = await cluster.ask(ListOffsetsRequest(topics=(asked,)), 7)
    return reply.topics[0].partitions[0]


async def test_a_record_is_searched_in_a_large_batch_in_turns(make_cluster):
    readings = iter(range(0, 2**62, SLICE_NS // 2))  # so that a slice is one step
    cluster = make_cluster(MemoryStore(), produce_unpacked_max_bytes=LIMIT)
    await cluster.start(work=LongWork(lambda: next(readings)))
    await cluster.create("t")
    records = [encode_record(at, b"k", bytes(50), at) for at in range(30_000)]
    batch = bombs.batch("zstd", b"".join(records), len(records))
    assert (await cluster.produce("t", batch)).error == ErrorCode.NONE
    turns, done = 0, False

    async def others():
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    with counted_memory() as memory:
        found = await listed(cluster, bombs.NOW_MS + 29_999)
    done = True
    await beside
    assert (found.error, found.offset) == (ErrorCode.NONE, 29_999)
    assert turns >= 30_000 // TURN_RECORDS
    assert memory.most <= LIMIT
    assert memory.traced < 3 * MB
    await cluster.stop()


async def test_a_batch_that_an_older_version_has_stored(make_cluster):
    """It is not looked into; the log is opened and read, and ListOffsets answers where it
    begins."""
    store = MemoryStore()
    before = await make_cluster(store, produce_unpacked_max_bytes=64 * MB).start()
    await before.create("t")
    await before.produce("t", before.batch(timestamp=bombs.NOW_MS - 5))
    stored = await before.produce("t", bombs.one_value("lz4", 20 * MB))
    assert (stored.error, stored.base_offset) == (ErrorCode.NONE, 1)
    await before.plane.close()
    after = await make_cluster(store, produce_unpacked_max_bytes=LIMIT).start()
    assert (await after.produce("t", after.batch())).base_offset == 2
    with counted_memory() as memory:
        found = await listed(after, bombs.NOW_MS)
    assert (found.error, found.offset) == (ErrorCode.NONE, 1)
    assert memory.most <= LIMIT
    assert len((await after.fetch("t", 1)).records) > 20_000
    await after.stop()
