"""The cleaner at work: two logs, the retention of the history, crashes between its steps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.runtime import log_cleaning
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.batch_builder import encode_batch, encode_marker
from groupd.protocol.records.codec import decode_record
from groupd.protocol.records.schema import OffsetCommitKey
from groupd.storage.log import Append, LogCorrupt, LogUnavailable, StoredBatch
from groupd.storage.memory import MemoryStore
from tests.unit.runtime.harness import Bench, commit, committed, consumer_join, fetch, settle

HISTORY = "__consumer_offsets-0"
COMPACTED = "__consumer_offsets-0.compacted"
WEEK_MS = 7 * 86_400_000


async def no_sleep(_: float) -> None:
    await asyncio.sleep(0)


def cleaner(bench: Bench, least: int = 1, **config: Any) -> Cleaner:
    merged = (
        bench.config if not config else type(bench.config)(**{**bench.config.__dict__, **config})
    )
    return Cleaner(
        bench.store,
        bench.broker.shards,
        merged,
        bench.clock.now,
        sleep=no_sleep,
        least_records=least,
    )


async def commits(bench: Bench, values: range, groups: int = 3) -> None:
    for value in values:
        for group in range(groups):
            await bench.answer(commit(f"g{group}", value, value % 2))


async def rows(store: MemoryStore, name: str) -> list[StoredBatch]:
    return await store.read(name, 0, 1 << 30)


def record_offsets(found: list[StoredBatch]) -> list[int]:
    return [r.offset for row in found for b in iter_batches(row.payload) for r in iter_records(b)]


async def described(bench: Bench, groups: int = 3) -> list[Any]:
    """Everything that a client can see of the groups' offsets, and where their records stand."""
    store = bench.shard.shard.offsets.store
    names = [f"g{group}" for group in range(groups)]
    seen = [committed(await bench.answer(fetch(name, 0, 1, 2))) for name in names]
    return [seen, {name: store.topics(name) for name in names}, bench.shard.shard.group_states()]


async def test_the_history_stays_and_a_restart_reads_the_compacted_log() -> None:
    bench = await Bench().start()
    await bench.answer(consumer_join("c", "m1"))
    await commits(bench, range(20))
    before, history = await described(bench), await rows(bench.store, HISTORY)
    end = bench.shard.durable_offset
    work = cleaner(bench)
    await work.round()
    assert await rows(bench.store, HISTORY) == history
    left = await rows(bench.store, COMPACTED)
    assert len(record_offsets(left)) == 6 + 5  # offsets; the records of c and its member
    assert bench.shard.log is not None
    assert bench.shard.log.compacted_end == end
    assert work.stats.dropped == end - len(record_offsets(left))
    assert work.dirty_records == 0
    await commits(bench, range(20, 22))
    before = await described(bench)
    again = await bench.restart()
    assert again.shard.loaded_records == len(record_offsets(left)) + 6
    assert await described(again) == before
    await again.broker.close()


async def test_nothing_worth_it_is_not_cleaned() -> None:
    bench = await Bench().start()
    await commits(bench, range(5))
    work = cleaner(bench, least=16)
    await work.round()
    assert work.stats.runs == 0
    await commits(bench, range(5, 6))
    await work.round()
    assert work.stats.runs == 1
    await commits(bench, range(6, 11))
    await work.round()
    assert work.stats.runs == 1
    await bench.broker.close()


async def test_without_retention_the_history_itself_is_folded() -> None:
    bench = await Bench(history_retention_ms=0).start()
    await commits(bench, range(20))
    before = await described(bench)
    await cleaner(bench).round()
    assert len(record_offsets(await rows(bench.store, HISTORY))) == 6
    assert await rows(bench.store, COMPACTED) == []
    again = await bench.restart()
    assert again.shard.loaded_records == 6
    assert await described(again) == before
    await commits(again, range(20, 30))
    await cleaner(again, history_retention_ms=0).round()
    assert len(record_offsets(await rows(again.store, HISTORY))) == 6
    await again.broker.close()


async def test_the_history_is_folded_when_its_time_has_passed_and_only_so_far() -> None:
    bench = await Bench(history_retention_ms=WEEK_MS, offsets_retention_minutes=10**6).start()
    await commits(bench, range(10))
    old_end = bench.shard.durable_offset
    bench.clock.advance(WEEK_MS + 1)
    await commits(bench, range(10, 20))
    before = await described(bench)
    await cleaner(bench).round()
    offsets = record_offsets(await rows(bench.store, HISTORY))
    assert len([offset for offset in offsets if offset < old_end]) == 6
    assert len([offset for offset in offsets if offset >= old_end]) == 30
    assert bench.shard.log is not None
    assert bench.shard.log.history.clean_offset == old_end
    # What was committed at the end of the old part can still be told.
    values = {}
    for row in await rows(bench.store, HISTORY):
        for batch in iter_batches(row.payload):
            for raw in iter_records(batch):
                if raw.offset < old_end and raw.key is not None:
                    record = decode_record(raw.key, raw.value)
                    assert isinstance(record.key, OffsetCommitKey)
                    values[record.key.group, record.key.partition] = record.value.offset  # type: ignore[union-attr]
    assert set(values.values()) == {8, 9}
    again = await bench.restart()
    assert await described(again) == before
    await again.broker.close()


async def test_for_ever_leaves_the_history_alone() -> None:
    bench = await Bench(history_retention_ms=-1, offsets_retention_minutes=10**6).start()
    await commits(bench, range(10))
    bench.clock.advance(10 * WEEK_MS)
    history = await rows(bench.store, HISTORY)
    await cleaner(bench).round()
    assert await rows(bench.store, HISTORY) == history
    assert len(record_offsets(await rows(bench.store, COMPACTED))) == 6
    await bench.broker.close()


async def test_records_younger_than_the_lag_stay() -> None:
    bench = await Bench(log_cleaner_min_compaction_lag_ms=60_000).start()
    await commits(bench, range(10))
    work = cleaner(bench)
    await work.round()
    assert work.stats.runs == 0
    bench.clock.advance(60_000)
    await commits(bench, range(10, 11))
    await work.round()
    assert bench.shard.log is not None
    assert bench.shard.log.compacted_end == 30
    await bench.broker.close()


async def test_a_change_of_the_retention_makes_the_other_log() -> None:
    bench = await Bench().start()
    await commits(bench, range(10))
    before = await described(bench)
    await cleaner(bench).round()
    assert await rows(bench.store, COMPACTED)
    await cleaner(bench, history_retention_ms=0).round()
    assert await rows(bench.store, COMPACTED) == []
    assert len(record_offsets(await rows(bench.store, HISTORY))) == 6
    await cleaner(bench).round()
    assert len(record_offsets(await rows(bench.store, COMPACTED))) == 6
    again = await bench.restart()
    assert await described(again) == before
    await again.broker.close()


@pytest.mark.parametrize("retention_ms", [0, WEEK_MS])
@pytest.mark.parametrize("applied", [False, True])
async def test_a_crash_after_any_step_loses_nothing(
    retention_ms: int, applied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_cleaning, "ROWS_MAX", 4)  # many small steps
    failures = 0
    bench = await Bench(history_retention_ms=retention_ms).start()
    await bench.answer(consumer_join("c", "m1"))
    for lap in range(8):
        await commits(bench, range(4 * lap, 4 * lap + 4))
        before = await described(bench)
        steps = 0
        original = bench.store.replace

        async def replace(
            change: Any, store: MemoryStore = bench.store, lap: int = lap, original: Any = original
        ) -> None:
            nonlocal steps, failures
            steps += 1
            if steps == lap + 1:
                failures += 1
                store.fail_next_replace(applied=applied)
            await original(change)

        bench.store.replace = replace  # type: ignore[method-assign]
        work = cleaner(bench, history_retention_ms=retention_ms)
        await work.round()
        del bench.store.replace  # type: ignore[method-assign]
        assert work.stats.failures in (0, 1)
        store = bench.store
        await bench.broker.close()
        bench = await Bench(store, history_retention_ms=retention_ms).start()
        assert bench.shard.state is CoordinatorState.ACTIVE
        assert await described(bench) == before
    assert failures >= 5
    await cleaner(bench, history_retention_ms=retention_ms).round()
    assert await described(bench) == before
    await bench.broker.close()


async def test_the_keys_of_one_cleaning_are_limited_and_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_cleaning, "KEYS_BYTES_MAX", 5 * 160)
    bench = await Bench().start()
    await commits(bench, range(10), groups=10)
    before = await described(bench, 10)
    work = cleaner(bench)
    await work.round()
    assert bench.shard.log is not None
    first = bench.shard.log.compacted_end
    assert 0 < first < bench.shard.durable_offset
    for _ in range(60):
        await work.round()
    again = await bench.restart()
    assert await described(again, 10) == before
    await again.broker.close()


async def test_a_damaged_compacted_log_is_made_again() -> None:
    bench = await Bench().start()
    await commits(bench, range(10))
    before = await described(bench)
    await cleaner(bench).round()
    (row,) = await rows(bench.store, COMPACTED)
    bad = StoredBatch(row.base_offset, row.last_offset, row.max_timestamp_ms, b"x" * 80)
    bench.store._logs[COMPACTED].batches[:] = [bad]
    with capture_logs() as logs:
        again = await bench.restart()
    assert [entry["event"] for entry in logs if entry["log_level"] == "error"] == [
        "compacted log is damaged; reading the history"
    ]
    assert again.shard.loaded_records == 30
    assert await described(again) == before
    await cleaner(again).round()
    third = await again.restart()
    assert third.shard.loaded_records == 6
    assert await described(third) == before
    await third.broker.close()


async def test_a_shard_that_is_loaded_anew_meanwhile_fences_the_cleaner() -> None:
    bench = await Bench().start()
    await commits(bench, range(10))
    work = cleaner(bench)
    original = bench.store.replace

    async def replace(change: Any) -> None:
        del bench.store.replace  # type: ignore[method-assign]
        await bench.store.open_many([HISTORY, COMPACTED])
        await original(change)

    bench.store.replace = replace  # type: ignore[method-assign]
    await work.round()
    assert await rows(bench.store, COMPACTED) == []
    assert work.stats.failures == 0
    await bench.broker.close()


@pytest.mark.parametrize("error", [LogUnavailable("away"), LogCorrupt("bad page"), KeyError("bug")])
async def test_a_log_that_cannot_be_cleaned_keeps_nobody_else_from_it(error: Exception) -> None:
    bench = await Bench(shards=2).start()
    await commits(bench, range(10), groups=6)
    original = bench.store.read

    async def read(name: str, *args: Any, **options: Any) -> Any:
        if name == HISTORY:
            raise error
        return await original(name, *args, **options)

    bench.store.read = read  # type: ignore[method-assign]
    work = cleaner(bench)
    await work.round()
    assert (work.stats.failures, work.stats.runs) == (1, 1)
    del bench.store.read  # type: ignore[method-assign]
    await work.round()
    assert work.stats.runs == (2 if isinstance(error, LogUnavailable) else 1)
    assert bench.shard.state is CoordinatorState.ACTIVE
    await bench.broker.close()


async def test_lg_28_an_open_transaction_stops_the_cleaner_and_its_end_lets_it_go_on() -> None:
    store = MemoryStore()
    await store.start()
    bench = await Bench(store).start()
    await commits(bench, range(4))
    await bench.broker.close()
    owner = (await store.open(HISTORY)).owner_epoch
    (first, *_) = await rows(store, HISTORY)
    (record,) = list(iter_records(first.payload))
    pairs = [(record.key, record.value)]
    txn = encode_batch(12, 0, 0, pairs, 7, 0, 0, transactional=True)
    await store.append([Append(HISTORY, owner, 12, 12, 0, txn)])
    bench = await Bench(store).start()
    await commits(bench, range(4, 6))
    await cleaner(bench).round()
    assert bench.shard.log is not None
    assert bench.shard.log.compacted_end == 12
    end = bench.shard.durable_offset
    await bench.broker.close()
    owner = (await store.open(HISTORY)).owner_epoch
    marker = encode_marker(end, 0, 0, 7, 0, 1, commit=False)
    await store.append([Append(HISTORY, owner, end, end, 0, marker)])
    bench = await Bench(store).start()
    before = await described(bench)
    await cleaner(bench).round()
    assert bench.shard.log is not None
    assert bench.shard.log.compacted_end == end + 1
    assert 12 not in record_offsets(await rows(store, COMPACTED))
    again = await bench.restart()
    assert await described(again) == before
    await again.broker.close()


async def test_it_runs_by_itself_and_ends_when_it_is_closed() -> None:
    bench = await Bench().start()
    await commits(bench, range(10))
    work = cleaner(bench)
    work.start()
    await settle(400)
    await work.close()
    assert work.stats.runs == 1
    off = cleaner(bench, log_cleaner_enable=False)
    off.start()
    await settle()
    await off.close()
    assert off.stats.runs == 0
    await bench.broker.close()
