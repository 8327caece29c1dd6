"""Retention: the oldest batches go by age and by size, as Kafka's segments would."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import DeleteRecordsRequest, DeleteRecordsTopic
from groupd.protocol.messages.topics import DeleteTopicsRequest
from groupd.protocol.records.batch import parse_header
from groupd.storage.log import LogUnavailable
from groupd.storage.memory import MemoryStore
from tests.unit.cleaning.harness import DAY_MS, Bench


async def days(bench, count, name="t"):
    """A record a day, each in a batch of its own."""
    for day in range(count):
        await bench.put(name, (b"k", b"%d" % day))
        bench.time.advance(DAY_MS)


async def test_batches_go_once_their_newest_record_is_older_than_retention_ms(bench):
    await bench.create("t")
    await days(bench, 10)
    await bench.retain()
    # The first is ten days old now; the one of exactly seven days stays, as in Kafka.
    assert bench.log("t").start_offset == 3
    assert [value for *_, value in await bench.everything("t")] == [b"%d" % n for n in range(3, 10)]
    bench.time.advance(1)
    await bench.retain()
    assert bench.log("t").start_offset == 4
    assert bench.cleaner.retention.deleted.rows == 4
    bench.time.advance(30 * DAY_MS)
    await bench.retain()
    log = bench.log("t")
    assert log.start_offset == log.high_watermark == 10, "the newest batch goes too"
    assert await bench.put("t", (b"k", b"next")) == 10


async def test_what_is_left_is_the_same_after_a_restart(bench):
    await bench.create("t")
    await days(bench, 10)
    await bench.retain()
    await bench.restart()
    assert [offset for offset, *_ in await bench.everything("t")] == list(range(3, 10))
    assert bench.log("t").start_offset == 3


async def test_an_old_batch_behind_a_young_one_stays(bench):
    await bench.create("t")
    await bench.put("t", (b"k", b"young"))
    await bench.put("t", (b"k", b"old"), timestamp=bench.now_ms - 30 * DAY_MS)
    await bench.retain()
    assert bench.log("t").start_offset == 0


async def test_a_batch_without_a_time_goes_by_size_only(bench):
    await bench.create("t", retention_bytes="0")
    await bench.create("u")
    for name in ("t", "u"):
        await bench.put(name, (b"k", b"v"), timestamp=-1)
    bench.time.advance(30 * DAY_MS)
    await bench.retain()
    assert (bench.log("t").start_offset, bench.log("u").start_offset) == (1, 0)


async def test_as_long_as_the_size_is_kept_the_oldest_batch_goes(bench):
    await bench.create("t", retention_ms="-1")
    for number in range(10):
        await bench.put("t", (b"k", b"%d" % number))
    size = (await bench.rows("t"))[0].size
    for limit, start in ((10 * size, 0), (7 * size + 1, 2), (7 * size, 3), (0, 10)):
        await bench.stop()
        bench.config = bench.config.__class__(log_retention_bytes=limit)
        await bench.start()
        await bench.retain()
        found = await bench.everything("t")
        assert [offset for offset, *_ in found] == list(range(start, 10)), limit


@pytest.mark.parametrize(
    ("settings", "configs", "kept_days"),
    [
        ({}, {}, 7),
        ({"log_retention_hours": 24}, {}, 1),
        ({"log_retention_hours": 24, "log_retention_minutes": 2 * 24 * 60}, {}, 2),
        ({"log_retention_minutes": 24 * 60, "log_retention_ms": 3 * DAY_MS}, {}, 3),
        ({"log_retention_ms": 3 * DAY_MS}, {"retention_ms": str(4 * DAY_MS)}, 4),
        ({"log_retention_hours": -1}, {}, 10),
        ({"log_retention_ms": -1}, {}, 10),
        ({}, {"retention_ms": "-1"}, 10),
        ({}, {"cleanup_policy": "compact"}, 10),
        ({"log_cleanup_policy": ("compact",)}, {}, 10),
        ({"log_cleanup_policy": ("compact",)}, {"cleanup_policy": "compact,delete"}, 7),
    ],
)
async def test_the_topic_wins_over_the_daemon_and_the_finer_unit_over_the_coarser(
    settings, configs, kept_days
):
    bench = await Bench(MemoryStore(), **settings).start()
    await bench.create("t", **configs)
    await days(bench, 10)
    await bench.retain()
    assert bench.log("t").start_offset == 10 - kept_days
    await bench.stop()


async def test_waiting_readers_hear_of_it_and_old_offsets_are_out_of_range(bench):
    await bench.create("t")
    await days(bench, 1)
    log = bench.log("t")
    moved = asyncio.Event()
    log.add_waiter(moved)
    bench.time.advance(30 * DAY_MS)
    await bench.retain()
    assert moved.is_set()
    log.remove_waiter(moved)
    assert (await bench.fetch("t", 0)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    answer = await bench.fetch("t", 1)
    assert (answer.error, answer.log_start_offset) == (0, 1)


async def test_aborted_transactions_are_forgotten_with_their_records(bench):
    await bench.create("t")
    for sequence in range(3):
        await bench.transact("t", (b"k", b"no"), sequence=sequence)
        await bench.end("t", commit=False)
        bench.time.advance(DAY_MS)
    index = bench.log("t").producers.transactions
    assert len(index.aborted(0, 99)) == 3
    bench.time.advance(5 * DAY_MS)
    await bench.retain()
    assert (bench.log("t").start_offset, len(index.aborted(0, 99))) == (2, 2)


async def test_the_beginning_of_an_open_transaction_may_go(bench):
    await bench.create("t")
    await bench.transact("t", (b"k", b"1"))
    bench.time.advance(30 * DAY_MS)
    await bench.transact("t", (b"k", b"2"), sequence=1)
    await bench.retain()
    log = bench.log("t")
    assert (log.start_offset, log.last_stable_offset) == (1, 1)
    await bench.end("t", commit=True)
    assert log.last_stable_offset == 3
    assert [value for *_, value in await bench.everything("t", committed=True)] == [b"2"]


async def test_partitions_that_nobody_has_used_since_the_start_are_looked_at_but_not_opened(bench):
    await bench.create("t", 3)
    await days(bench, 1)
    await bench.restart()
    await bench.retain()
    assert bench.log("t") is None
    bench.time.advance(30 * DAY_MS)
    await bench.retain()
    assert bench.log("t").start_offset == 1
    assert bench.log("t", 1) is None


async def test_many_batches_go_some_at_a_time(bench):
    await bench.create("t")
    await bench.put("t", (b"k", b"v"))
    log = bench.log("t")
    payload = bench.batch(b"v")
    appends = [log.stage(parse_header(payload), payload) for _ in range(1500)]
    await bench.store.append(appends)
    for append in appends:
        log.durable(append)
    bench.time.advance(30 * DAY_MS)
    cuts = []
    truncate = bench.store.truncate_before

    async def noted(name, offset, owner_epoch):
        cuts.append(offset)
        await truncate(name, offset, owner_epoch)

    bench.store.truncate_before = noted
    await bench.retain()
    assert cuts == [512, 1024, 1501]
    assert log.start_offset == 1501


async def test_a_topic_that_is_deleted_meanwhile_is_gone(bench):
    await bench.create("t")
    await days(bench, 3)
    bench.time.advance(30 * DAY_MS)
    truncate = bench.store.truncate_before

    async def deleted_first(name, offset, owner_epoch):
        await bench.ask(DeleteTopicsRequest((("t", bytes(16)),)))
        await truncate(name, offset, owner_epoch)

    name = bench.log("t").name
    bench.store.truncate_before = deleted_first
    with capture_logs() as logs:
        await bench.retain()
    assert not [entry for entry in logs if entry["log_level"] in ("warning", "error")]
    assert bench.plane.catalogue.topic("t") is None
    assert await bench.store.extents(name, 0) == []
    assert bench.cleaner.failures == 0


async def test_a_store_that_fails_ends_the_round_and_the_next_one_goes_on():
    bench = await Bench(MemoryStore()).start()
    for name in ("t", "u"):
        await bench.create(name)
        await days(bench, 1, name)
    bench.time.advance(30 * DAY_MS)
    bench.store.fail_next_read()
    with pytest.raises(LogUnavailable):
        await bench.retain()
    await bench.retain()
    assert (bench.log("t").start_offset, bench.log("u").start_offset) == (1, 1)
    await bench.stop()


async def test_it_runs_by_itself_every_check_interval(bench):
    await bench.create("t")
    await days(bench, 1)
    bench.cleaner.start()
    bench.time.advance(30 * DAY_MS)
    for _ in range(10_000):
        if not bench.cleaner.busy:
            break
        await asyncio.sleep(0.001)
    assert bench.log("t").start_offset == 1
    await bench.cleaner.close()
    bench.time.advance(DAY_MS)
    assert not bench.cleaner.busy


async def test_deleting_records_and_retention_know_of_each_other(bench):
    await bench.create("t")
    await days(bench, 10)
    request = DeleteRecordsRequest((DeleteRecordsTopic("t", ((0, 5),)),))
    assert (await bench.ask(request)).topics[0].partitions[0].low_watermark == 5
    await bench.retain()
    assert bench.log("t").start_offset == 5
