"""Compaction of topics: the newest record of a key stays, for every reader, whatever happens."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.cleaning.topic_cleaner import REST_S
from groupd.coordinator.runtime import log_cleaning
from groupd.protocol.messages.data import DeleteRecordsRequest, DeleteRecordsTopic
from groupd.protocol.records.batch import DELETE_HORIZON, HEADER_BYTES, iter_batches, parse_header
from groupd.protocol.records.batch_builder import encode_batch, pack_batch
from groupd.protocol.records.compression import GZIP, LZ4, SNAPPY, ZSTD, compress
from groupd.storage.log import LogUnavailable
from groupd.storage.memory import MemoryStore
from tests.unit.cleaning.harness import DAY_MS, Bench

COMPACT = {"cleanup_policy": "compact", "segment_ms": "1", "min_cleanable_dirty_ratio": "0"}
"""Everything that is older than a millisecond is compacted at once."""


async def settled(bench):
    bench.time.advance(10)
    await bench.compact()


async def values(bench, **how):
    return {key: value for _, key, value in await bench.everything("t", **how)}


async def batches(bench):
    log = bench.log("t")
    rows = await bench.store.read(log.name, 0, 1 << 30)
    return [batch.header for row in rows for batch in iter_batches(row.payload)]


async def test_the_newest_record_of_a_key_stays_at_its_offset(bench):
    await bench.create("t", **COMPACT)
    await bench.put("t", (b"a", b"1"), (b"b", b"1"), (b"c", b"1"))
    await bench.put("t", (b"a", b"2"))
    await bench.put("t", (b"b", b"2"), (b"\x00\x00x", b"1"), (b"\x00\x01x", b"1"))
    await settled(bench)
    left = [
        (2, b"c", b"1"),
        (3, b"a", b"2"),
        (4, b"b", b"2"),
        (5, b"\x00\x00x", b"1"),
        (6, b"\x00\x01x", b"1"),
    ]
    assert await bench.everything("t") == left
    assert [(h.base_offset, h.last_offset) for h in await batches(bench)] == [
        (0, 2),
        (3, 3),
        (4, 6),
    ], "batches keep their first and last offset"
    await bench.restart()
    assert await bench.everything("t") == left
    assert await bench.everything("t", max_bytes=1) == left, "a batch at a time"
    log = bench.log("t")
    assert (log.start_offset, log.high_watermark, log.clean_offset) == (0, 7, 7)
    assert await bench.put("t", (b"a", b"3")) == 7
    await settled(bench)
    assert (await values(bench))[b"a"] == b"3"


async def test_a_reader_in_the_middle_of_what_is_gone_gets_what_comes_next(bench):
    await bench.create("t", **COMPACT)
    for number in range(20):
        await bench.put("t", (b"k", b"%d" % number))
    await settled(bench)
    for offset in range(20):
        answer = await bench.fetch("t", offset)
        (batch,) = iter_batches(answer.records)
        assert (batch.header.base_offset, answer.high_watermark) == (19, 20)
    assert len(await bench.rows("t")) == 1


async def test_the_last_batch_leaves_its_header(bench):
    await bench.create("t", cleanup_policy="compact")
    # Produce refuses records without a key once the topic is compacted.
    bench.config = bench.config.__class__(log_roll_ms=1)
    await bench.stop()
    await bench.start()
    await bench.create("u")
    await bench.put("u", (b"k", b"1"))
    await bench.put("u", (None, b"2"))
    topic = bench.plane.catalogue.topic("u")
    await bench.plane.catalogue.change_configs(
        topic.topic_id, lambda _: {"cleanup.policy": "compact"}
    )
    await settled(bench)
    assert [offset for offset, *_ in await bench.everything("u")] == [0]
    log = bench.log("u")
    rows = await bench.store.read(log.name, 0, 1 << 30)
    last = [b.header for row in rows for b in iter_batches(row.payload)][-1]
    assert (last.base_offset, last.record_count, log.high_watermark) == (1, 0, 2)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
async def test_a_compressed_batch_stays_compressed(bench, codec):
    await bench.create("t", **COMPACT)
    plain = encode_batch(0, -1, bench.now_ms, [(b"a", b"1"), (b"b", b"1")])
    header = parse_header(plain)._replace(attributes=codec)
    packed = pack_batch(header, compress(codec, plain[HEADER_BYTES:]))
    assert (await bench.produce("t", packed)).error == 0
    await bench.put("t", (b"a", b"2"))
    await settled(bench)
    assert await bench.everything("t") == [(1, b"b", b"1"), (2, b"a", b"2")]
    assert [h.codec for h in await batches(bench)] == [codec, 0]


async def test_a_tombstone_stays_for_delete_retention_ms(bench):
    await bench.create("t", **COMPACT, delete_retention_ms=str(DAY_MS))
    await bench.put("t", (b"a", b"1"))
    await bench.put("t", (b"a", None))
    await bench.put("t", (b"b", b"1"))
    await settled(bench)
    assert await bench.everything("t") == [(1, b"a", None), (2, b"b", b"1")]
    assert (await batches(bench))[0].attributes & DELETE_HORIZON
    bench.time.advance(DAY_MS - 100)
    await bench.put("t", (b"b", b"2"))
    await settled(bench)
    assert b"a" in await values(bench)
    bench.time.advance(DAY_MS)
    await bench.put("t", (b"b", b"3"))
    await settled(bench)
    assert await values(bench) == {b"b": b"3"}


async def test_young_records_and_those_of_the_active_segment_are_left_alone(bench):
    await bench.create("t", cleanup_policy="compact", min_cleanable_dirty_ratio="0")
    for number in range(10):
        await bench.put("t", (b"k", b"%d" % number))
        bench.time.advance(DAY_MS)
    await bench.compact()
    # segment.ms is a week: the records of the last seven days are the active segment.
    assert [offset for offset, *_ in await bench.everything("t")] == [3, 4, 5, 6, 7, 8, 9]
    bench.time.advance(100 * DAY_MS)
    await bench.compact()
    assert [offset for offset, *_ in await bench.everything("t")] == [9]


async def test_the_active_segment_has_no_more_than_segment_bytes(bench):
    await bench.create("t")
    padding = bytes(400_000)  # three batches are more than the least segment.bytes
    await bench.put("t", (b"k", b"0" + padding))
    size = (await bench.rows("t"))[0].size
    await bench.create(
        "u", cleanup_policy="compact", min_cleanable_dirty_ratio="0", segment_bytes=str(3 * size)
    )
    for number in range(10):
        await bench.put("u", (b"k", b"%d" % number + padding))
    await bench.compact()
    assert [offset for offset, *_ in await bench.everything("u")] == [6, 7, 8, 9]


@pytest.mark.slow
async def test_min_compaction_lag_wins_over_the_size(bench):
    await bench.create(
        "t",
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0",
        segment_bytes=str(1 << 20),
        min_compaction_lag_ms=str(DAY_MS),
    )
    for number in range(4):
        await bench.put("t", (b"k", b"%d" % number + bytes(600_000)))
        bench.time.advance(DAY_MS // 2)
    await bench.compact()
    assert [offset for offset, *_ in await bench.everything("t")] == [2, 3]


async def test_the_dirty_part_must_be_large_enough_or_old_enough(bench):
    await bench.create(
        "t", cleanup_policy="compact", segment_ms="1", max_compaction_lag_ms=str(DAY_MS)
    )
    await bench.put("t", *((b"%d" % n, b"1") for n in range(100)))
    await settled(bench)
    assert bench.cleaner.compaction.compacted.runs == 1
    for number in range(100):
        await bench.put("t", (b"0", b"%d" % number))
    await settled(bench)
    assert bench.cleaner.compaction.compacted.runs == 1, "half of the records is not more than half"
    await bench.put("t", (b"0", b"last"))
    await settled(bench)
    assert bench.cleaner.compaction.compacted.runs == 2
    await bench.put("t", (b"0", b"later"))
    await settled(bench)
    assert bench.cleaner.compaction.compacted.runs == 2
    bench.time.advance(DAY_MS)
    await settled(bench)
    assert bench.cleaner.compaction.compacted.runs == 3, "max.compaction.lag.ms has passed"
    assert (await values(bench))[b"0"] == b"later"


async def test_aborted_records_go_and_shadow_nothing_and_readers_are_right_throughout(bench):
    await bench.create("t", **COMPACT, delete_retention_ms="0")
    await bench.put("t", (b"a", b"1"), (b"b", b"1"))
    await bench.transact("t", (b"a", b"aborted"))
    await bench.end("t", commit=False)
    await bench.transact("t", (b"b", b"committed"), sequence=1)
    await bench.end("t", commit=True)
    await bench.put("t", (b"z", b"1"))
    wanted = {b"a": b"1", b"b": b"committed", b"z": b"1"}
    for number in range(4):
        assert await values(bench, committed=True) == wanted, number
        assert len(bench.log("t").producers.transactions.aborted(0, 99)) == (number == 0)
        bench.time.advance(DAY_MS)
        await bench.put("t", (b"z", b"1"))
        await settled(bench)
        assert not any(value == b"aborted" for *_, value in await bench.everything("t"))
    # The abort marker has gone; the other stays as long as a record of its transaction.
    markers = [h.base_offset for h in await batches(bench) if h.is_control and h.record_count]
    assert markers == [5]
    await bench.restart()
    assert await values(bench, committed=True) == wanted


async def test_what_comes_after_an_aborted_marker_that_is_gone_is_not_left_out(bench):
    """The list of aborted transactions must not name one whose marker nobody meets any more."""
    await bench.create("t", **COMPACT, delete_retention_ms="0")
    for sequence in range(3):
        await bench.transact("t", (b"a", b"no"), sequence=sequence)
        await bench.end("t", commit=False)
    for _ in range(4):
        await bench.put("t", (b"z", b"1"))
        bench.time.advance(2 * DAY_MS)
        await bench.compact()
    await bench.transact("t", (b"a", b"yes"), sequence=3)
    await bench.end("t", commit=True)
    assert (await values(bench, committed=True))[b"a"] == b"yes"


async def test_a_read_that_began_before_a_compaction_and_ends_after_it_is_repeated(bench):
    """Else it would have aborted records of which nobody tells any more."""
    await bench.create("t", **COMPACT)
    await bench.transact("t", (b"a", b"aborted"))
    await bench.end("t", commit=False)
    await bench.put("t", (b"z", b"1"))
    await bench.restart()  # nothing is cached
    read, begun, go_on = bench.store.read, asyncio.Event(), asyncio.Event()
    await bench.plane.partitions.open(bench.plane.catalogue.topic("t"), 0)

    async def slow(*arguments, **how):
        rows = await read(*arguments, **how)
        begun.set()
        await go_on.wait()
        return rows

    bench.store.read = slow
    reader = asyncio.create_task(values(bench, committed=True))
    await begun.wait()
    bench.store.read = read
    await settled(bench)
    go_on.set()
    assert await reader == {b"z": b"1"}


async def test_nothing_from_an_open_transaction_on_is_touched(bench):
    await bench.create("t", **COMPACT)
    await bench.put("t", (b"a", b"1"))
    await bench.put("t", (b"a", b"2"))
    await bench.transact("t", (b"b", b"1"))
    await bench.put("t", (b"a", b"3"))
    await bench.put("t", (b"a", b"4"))
    await settled(bench)
    found = [offset for offset, *_ in await bench.everything("t")]
    assert found == [1, 2, 3, 4]
    log = bench.log("t")
    assert (log.clean_offset, log.last_stable_offset) == (2, 2)
    await bench.end("t", commit=True)
    await settled(bench)
    assert [offset for offset, *_ in await bench.everything("t")] == [2, 4]


async def test_a_producer_goes_on_after_a_restart_where_its_records_are_gone(bench):
    await bench.create("t", **COMPACT)
    fields = {"producer_id": 5, "producer_epoch": 0}
    for sequence in range(3):
        await bench.put("t", (b"a", b"mine"), base_sequence=sequence, **fields)
    await bench.put("t", (b"a", b"1"))
    await settled(bench)
    assert [offset for offset, *_ in await bench.everything("t")] == [3]
    for _ in range(2):
        await bench.restart()
        again = encode_batch(0, -1, bench.now_ms, [(b"a", b"mine")], 5, 0, 2)
        answer = await bench.produce("t", again)
        assert (answer.error, answer.base_offset) == (0, 2), "a duplicate is still known"
    gap = encode_batch(0, -1, bench.now_ms, [(b"a", b"mine")], 5, 0, 4)
    assert (await bench.produce("t", gap)).error == 45  # OUT_OF_ORDER_SEQUENCE_NUMBER
    await bench.put("t", (b"a", b"next"), base_sequence=3, **fields)
    assert await values(bench) == {b"a": b"next"}


async def test_a_transactional_producer_of_version_1_goes_on_after_a_restart(bench):
    await bench.create("t", **COMPACT)
    await bench.transact("t", (b"a", b"1"))
    await bench.end("t", commit=False)
    await bench.put("t", (b"z", b"1"))
    await settled(bench)
    await bench.restart()
    log = await bench.plane.partitions.open(bench.plane.catalogue.topic("t"), 0)
    assert log.last_stable_offset == log.high_watermark == 3
    await bench.transact("t", (b"a", b"2"), sequence=1)
    await bench.end("t", commit=True)
    assert await values(bench, committed=True) == {b"a": b"2", b"z": b"1"}


async def test_compact_and_delete(bench):
    await bench.create("t", **{**COMPACT, "cleanup_policy": "compact,delete"})
    for day in range(10):
        await bench.put("t", (b"%d" % (day % 3), b"%d" % day))
        bench.time.advance(DAY_MS)
    await bench.compact()
    assert [offset for offset, *_ in await bench.everything("t")] == [7, 8, 9]
    bench.time.advance(6 * DAY_MS)
    await bench.retain()
    assert bench.log("t").start_offset == 0, "one row now, whose newest record is not old enough"
    bench.time.advance(DAY_MS)
    await bench.retain()
    assert await bench.everything("t") == []
    await bench.put("t", (b"1", b"new"))
    await settled(bench)
    assert await values(bench) == {b"1": b"new"}


async def test_records_that_are_deleted_in_the_middle_of_a_row(bench):
    await bench.create("t", **{**COMPACT, "cleanup_policy": "compact,delete"})
    for number in range(10):
        await bench.put("t", (b"a%d" % number, b"1"), (b"b", b"%d" % number))
    await settled(bench)
    assert len(await bench.rows("t")) == 1
    request = DeleteRecordsRequest((DeleteRecordsTopic("t", ((0, 7),)),))
    assert (await bench.ask(request)).topics[0].partitions[0].low_watermark == 7
    await bench.put("t", (b"b", b"last"))
    await settled(bench)
    assert bench.cleaner.failures == 0
    found = [entry for entry in await bench.everything("t") if entry[0] >= 7]
    assert [key for _, key, _ in found] == [b"a%d" % n for n in range(4, 10)] + [b"b"]
    await bench.restart()
    assert [offset for offset, *_ in await bench.everything("t") if offset >= 7] == [
        offset for offset, *_ in found
    ]


@pytest.mark.slow
async def test_records_that_are_deleted_meanwhile_stop_the_compaction_quietly(bench):
    await bench.create("t", **{**COMPACT, "cleanup_policy": "compact,delete"})
    for number in range(2000):
        await bench.put("t", (b"%d" % number, b"x" * 100))
    replace = bench.store.replace
    deleted = []

    async def deleted_first(change):
        if not deleted:
            deleted.append(change.to_offset)
            await bench.plane.partitions.delete_before(
                bench.plane.catalogue.topic("t"), 0, change.to_offset + 5
            )
        await replace(change)

    bench.store.replace = deleted_first
    with capture_logs() as logs:
        await settled(bench)
    assert deleted
    assert not [entry for entry in logs if entry["log_level"] in ("warning", "error")]
    await settled(bench)
    found = [offset for offset, *_ in await bench.everything("t")]
    assert found == list(range(deleted[0] + 5, 2000))


async def test_the_keys_of_one_compaction_are_bounded_and_the_next_goes_on(monkeypatch):
    monkeypatch.setattr(log_cleaning, "KEYS_BYTES_MAX", 20 * 160)
    bench = await Bench(MemoryStore()).start()
    await bench.create("t", **COMPACT)
    for _ in range(3):
        for key in range(50):
            await bench.put("t", (b"%d" % key, b"v"))
    await settled(bench)
    first = bench.log("t").clean_offset
    assert 0 < first < 150
    for _ in range(20):
        await settled(bench)
    assert [offset for offset, *_ in await bench.everything("t")] == list(range(100, 150))
    await bench.stop()


async def test_damage_is_left_alone_and_the_others_have_their_turn():
    bench = await Bench(MemoryStore()).start()
    for name in ("t", "u"):
        await bench.create(name, **COMPACT)
        await bench.put(name, (b"a", b"1"))
        await bench.put(name, (b"a", b"2"))
    rows = bench.store._logs[bench.log("t").name].batches
    broken = parse_header(rows[0].payload)._replace(attributes=9)
    rows[0] = rows[0].__class__(0, 0, rows[0].max_timestamp_ms, pack_batch(broken, b"x"))
    with capture_logs() as logs:
        await settled(bench)
        await settled(bench)
    assert [entry["topic"] for entry in logs if entry["log_level"] == "warning"] == ["t"]
    assert bench.cleaner.failures == 1
    assert [offset for offset, *_ in await bench.everything("u")] == [1]
    await bench.stop()


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("step", range(3))
async def test_a_crash_after_any_step_loses_nothing(step, applied):
    bench = await Bench(MemoryStore()).start()
    await bench.create("t", **COMPACT)
    expected = await wild(bench, 2000, random.Random(5))
    replace, count = bench.store.replace, [0]

    async def crash(change):
        if count[0] == step:
            bench.store.fail_next_replace(applied=applied)
        count[0] += 1
        await replace(change)

    bench.store.replace = crash
    bench.time.advance(10)
    with pytest.raises(LogUnavailable):
        await bench.compact()
    assert count[0] == step + 1
    assert await values(bench, committed=True) == expected
    bench.store.replace = replace
    await bench.restart()
    assert await values(bench, committed=True) == expected
    for _ in range(2):
        await settled(bench)
        assert await values(bench, committed=True) == expected
    await bench.restart()
    assert await values(bench, committed=True) == expected
    await bench.stop()


async def wild(bench, count, random, epoch=0):
    """Plain, committed and aborted records; what a reader of committed data has in the end."""
    expected, sequence = {}, 0
    for number in range(count):
        kind = random.random()
        pairs = [
            (b"%d" % random.randrange(30), b"%d-%d" % (number, n) + b"x" * 200)
            for n in range(random.randint(1, 4))
        ]
        if kind < 0.7:
            await bench.put("t", *pairs)
        else:
            await bench.transact("t", *pairs, epoch=epoch, sequence=sequence)
            sequence += len(pairs)
            commit = kind < 0.85
            await bench.end("t", commit=commit, epoch=epoch)
            if not commit:
                continue
        expected.update(pairs)
    return expected


@pytest.mark.slow
async def test_readers_see_the_same_while_it_is_compacted(bench):
    await bench.create("t", **COMPACT, delete_retention_ms="0")
    wanted = {}
    rng = random.Random(7)
    bench.cleaner._throttle.turn = partial(asyncio.sleep, REST_S)

    async def read_on():
        while not done:
            assert await values(bench, committed=True) == wanted
            await asyncio.sleep(0)

    for epoch in range(3):
        wanted = {**wanted, **await wild(bench, 150, rng, epoch)}
        done = []
        reader = asyncio.create_task(read_on())
        for _ in range(3):
            bench.time.advance(DAY_MS)
            await bench.compact()
        done.append(True)
        await reader


async def test_it_runs_by_itself_and_not_without_the_cleaner():
    for enabled in (True, False):
        bench = await Bench(MemoryStore(), log_cleaner_enable=enabled).start()
        await bench.create("t", **COMPACT)
        await bench.put("t", (b"a", b"1"))
        await bench.put("t", (b"a", b"2"))
        bench.cleaner.start()
        bench.time.advance(bench.config.log_cleaner_backoff_ms)
        while bench.cleaner.busy:
            await asyncio.sleep(0)
        assert len(await bench.everything("t")) == (1 if enabled else 2)
        await bench.cleaner.close()
        await bench.stop()
