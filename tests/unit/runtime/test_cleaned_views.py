"""What Fetch and ListOffsets see of a log that the cleaner has been at."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.partitioning import compacted_log_name, offsets_log_name
from groupd.coordinator.topics.coordinator_logs import CoordinatorLog
from groupd.protocol.records.batch import check, iter_records
from groupd.protocol.records.batch_builder import encode_batch, encode_marker
from groupd.storage.log import Append, LogUnavailable
from tests.unit.runtime.harness import Bench
from tests.unit.runtime.test_cleaner import HISTORY, WEEK_MS, cleaner, commits

MB = 1 << 20


def view(bench: Bench, *, compacted: bool) -> CoordinatorLog:
    compacted_name = compacted_log_name(0) if compacted else None
    shards = bench.broker.served
    return CoordinatorLog(shards, bench.store, 0, offsets_log_name(0), compacted_name)


async def read_all(log: CoordinatorLog, at: int = 0, max_bytes: int = MB) -> list[int]:
    """Reads as a consumer does, from the end of one batch to the next; offsets of the records."""
    found = []
    while at < log.high_watermark:
        payloads = await log.read(at, max_bytes, min_one=True)
        assert payloads, f"nothing at {at}"
        for payload in payloads:
            header = check(payload)
            assert header.last_offset >= at
            found += [record.offset for record in iter_records(payload)]
            at = header.next_offset
    return found


async def cleaned() -> Bench:
    """30 old commits (6 live), 30 newer ones, then 3 that no cleaning has seen."""
    bench = await Bench(history_retention_ms=WEEK_MS, offsets_retention_minutes=10**6).start()
    await commits(bench, range(10))
    bench.clock.advance(WEEK_MS + 1)
    await commits(bench, range(10, 20))
    await cleaner(bench).round()
    await commits(bench, range(20, 21))
    return bench


@pytest.mark.parametrize("max_bytes", [1, 300, MB])
async def test_the_history_and_the_compacted_view(max_bytes: int) -> None:
    bench = await cleaned()
    history = await read_all(view(bench, compacted=False), max_bytes=max_bytes)
    assert history == [*range(24, 63)]
    compacted = await read_all(view(bench, compacted=True), max_bytes=max_bytes)
    assert compacted == [*range(54, 63)]
    await bench.broker.close()


async def test_a_read_from_within_a_gap_goes_on_behind_it() -> None:
    bench = await cleaned()
    for at in range(63):
        expected = [offset for offset in range(24, 63) if offset >= at]
        assert await read_all(view(bench, compacted=False), at) == expected
        assert await read_all(view(bench, compacted=True), at) == [
            offset for offset in range(54, 63) if offset >= at
        ]
    await bench.broker.close()


async def test_a_batch_that_does_not_fit_is_left_out_unless_it_is_the_first() -> None:
    bench = await cleaned()
    for compacted in (False, True):
        log = view(bench, compacted=compacted)
        assert await log.read(0, 10, min_one=False) == []
        assert len(await log.read(0, 10, min_one=True)) == 1
    await bench.broker.close()


async def test_without_a_compacted_log_both_are_the_same() -> None:
    bench = await Bench(history_retention_ms=0).start()
    await commits(bench, range(10))
    assert await read_all(view(bench, compacted=True)) == [*range(30)]
    await cleaner(bench).round()
    assert await read_all(view(bench, compacted=True)) == [*range(24, 30)]
    assert await read_all(view(bench, compacted=False)) == [*range(24, 30)]
    await bench.broker.close()


async def test_a_compacted_log_that_is_made_again_meanwhile_is_asked_for_later() -> None:
    bench = await cleaned()
    await bench.store.delete(["__consumer_offsets-0.compacted"])
    with pytest.raises(LogUnavailable):
        await view(bench, compacted=True).read(0, MB, min_one=True)
    assert await read_all(view(bench, compacted=False)) == [*range(24, 63)]
    await bench.broker.close()


async def test_times_lead_to_records_that_are_there() -> None:
    bench = await cleaned()
    young_ms = bench.clock.now().wall_ms
    for compacted, first in ((False, 24), (True, 54)):
        log = view(bench, compacted=compacted)
        row = await log.first_at_or_after(0)
        assert row is not None
        assert next(iter(iter_records(row.payload))).offset == first
        newest = await log.with_max_timestamp()
        assert newest is not None
        assert newest.max_timestamp_ms == young_ms
    assert await view(bench, compacted=True).first_at_or_after(young_ms + 1) is None
    await bench.broker.close()


async def test_readers_of_the_history_are_told_of_aborted_transactions_after_a_restart() -> None:
    bench = await Bench().start()
    await commits(bench, range(4))
    end = bench.shard.durable_offset
    (first, *_) = await bench.store.read(HISTORY, 0, MB)
    pairs = [(record.key, record.value) for record in iter_records(first.payload)]
    await bench.broker.close()
    owner = (await bench.store.open(HISTORY)).owner_epoch
    txn = encode_batch(end, 0, 0, pairs, 7, 0, 0, transactional=True)
    marker = encode_marker(end + 1, 0, 0, 7, 0, 1, commit=False)
    await bench.store.append(
        [
            Append(HISTORY, owner, end, end, 0, txn),
            Append(HISTORY, owner, end + 1, end + 1, 0, marker),
        ]
    )
    bench = await Bench(bench.store).start()
    await cleaner(bench).round()
    bench = await bench.restart()
    assert bench.shard.log is not None
    assert bench.shard.log.compacted_end == end + 2
    history, compacted = view(bench, compacted=False), view(bench, compacted=True)
    assert end in await read_all(history)
    assert history.aborted(0, end + 2) == ((7, end),)
    bench.shard.producers.expire(bench.clock.now().wall_ms)
    assert bench.shard.producers.count == 0
    assert history.aborted(0, end + 2) == ((7, end),), "also when its producer is forgotten"
    assert end not in await read_all(compacted)
    assert compacted.aborted(0, end + 2) == ()
    await bench.broker.close()
