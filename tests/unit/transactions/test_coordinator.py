"""The coordinator at work: durability, restarts, markers, time. No broker, no sleeping."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from groupd.coordinator.transactions import shard
from groupd.coordinator.transactions.metadata import LAST_EPOCH, TransactionChange
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    EndTxnReply,
    ListTransactionsRequest,
)
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.transaction_records import encode_key
from groupd.storage.log import Append, LogUnavailable
from groupd.storage.memory import MemoryStore
from tests.unit.transactions.harness import (
    BAD_STATE,
    CONCURRENT,
    FENCED,
    LOG_NAME,
    MAPPING,
    NONE,
    T0,
    T1,
    TIMEOUT_MS,
    Bench,
    marker,
    settle,
    write,
)

Start = Any


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    started: list[Bench] = []

    async def make(**config: Any) -> Bench:
        bench = await Bench(**config).start()
        started.append(bench)
        return bench

    yield make
    for bench in started:
        await bench.stop()


async def log_records(bench: Bench) -> int:
    return sum(
        batch.last_offset - batch.base_offset + 1
        for batch in await bench.store.read(LOG_NAME, 0, 1 << 30)
    )


# A transaction ------------------------------------------------------------------------------


async def test_v1_commit_writes_markers_and_completes(start: Start) -> None:
    bench = await start()
    assert await bench.begin(T0, T1) == (1000, 0)
    assert bench.state == "Ongoing"
    assert await bench.end(1000, 0, True) == EndTxnReply()
    await settle()
    assert bench.markers.calls == [(marker(1000, 0, True, 1), (T0, T1))]
    assert bench.state == "CompleteCommit"
    # The next transaction begins with the same epoch.
    assert await bench.add(1000, 0, T0) is NONE
    assert await bench.end(1000, 0, False) == EndTxnReply()
    await settle()
    assert bench.markers.calls[1:] == [(marker(1000, 0, False, 1), (T0,))]
    assert bench.state == "CompleteAbort"


async def test_v2_commit_bumps_the_epoch_of_marker_and_producer(start: Start) -> None:
    bench = await start()
    await bench.begin(T0, v2=True)
    assert await bench.end(1000, 0, True, v2=True) == EndTxnReply(NONE, 1000, 1)
    await settle()
    assert bench.markers.calls == [(marker(1000, 1, True, 2), (T0,))]
    # The retry of the same end, then the next transaction, then a zombie of the one before.
    assert await bench.end(1000, 0, True, v2=True) == EndTxnReply(NONE, 1000, 1)
    assert await bench.add(1000, 1, T0, v2=True) is NONE
    assert await bench.add(1000, 0, T0, v2=True) is FENCED
    assert (await bench.end(1000, 0, True, v2=True)).error is FENCED
    assert len(bench.markers.calls) == 1


async def test_the_answer_of_an_end_does_not_wait_for_markers(start: Start) -> None:
    bench = await start()
    await bench.begin(T0, T1)
    bench.markers.hold()
    assert await bench.end(1000, 0, True) == EndTxnReply()
    await settle()
    assert bench.state == "PrepareCommit"
    assert (await bench.end(1000, 0, True)).error is CONCURRENT
    assert await bench.add(1000, 0, T0) is CONCURRENT
    assert await bench.init() == (CONCURRENT, -1, -1)
    bench.markers.release()
    await settle()
    assert bench.state == "CompleteCommit"


async def test_v2_abort_of_nothing_needs_no_marker(start: Start) -> None:
    bench = await start()
    await bench.init()
    assert await bench.end(1000, 0, False, v2=True) == EndTxnReply(NONE, 1000, 1)
    await settle()
    assert (bench.markers.calls, bench.state) == ([], "CompleteAbort")


async def test_nothing_is_answered_before_it_is_durable(start: Start) -> None:
    bench = await start()
    await bench.init()
    bench.store.hold_appends()
    asked = asyncio.create_task(bench.add(1000, 0, T0))
    await settle()
    assert not asked.done()
    assert bench.state == "Empty"
    assert await bench.add(1000, 0, T1) is CONCURRENT
    bench.store.release_appends()
    assert await asked is NONE
    assert bench.state == "Ongoing"


async def test_a_second_producer_fences_the_first(start: Start) -> None:
    bench = await start()
    await bench.begin(T0)
    assert await bench.init() == (CONCURRENT, -1, -1)
    await settle()
    assert bench.markers.calls == [(marker(1000, 1, False, 2), (T0,))]
    assert await bench.init() == (NONE, 1000, 2)
    assert await bench.add(1000, 0, T0) is FENCED
    assert (await bench.end(1000, 0, True)).error is FENCED


async def test_exhausted_epochs_move_on_to_a_new_producer_id(start: Start) -> None:
    bench = await start()
    await bench.begin(T0, v2=True)
    entry = bench.shard.table.entries["x"]
    entry.metadata = replace(entry.metadata, producer_epoch=LAST_EPOCH)
    assert await bench.end(1000, LAST_EPOCH, True, v2=True) == EndTxnReply(NONE, 1001, 0)
    await settle()
    assert bench.markers.calls == [(marker(1000, LAST_EPOCH + 1, True, 2), (T0,))]
    assert await bench.add(1001, 0, T0, v2=True) is NONE
    fresh = await bench.restart()
    assert await fresh.end(1001, 0, True, v2=True) == EndTxnReply(NONE, 1001, 1)
    await fresh.stop()


# Markers that fail --------------------------------------------------------------------------


async def test_a_marker_is_tried_again_until_it_is_written(start: Start) -> None:
    bench = await start()
    await bench.begin(T0, T1)
    bench.markers.codes[T1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    await bench.end(1000, 0, True)
    await settle()
    assert bench.state == "PrepareCommit"
    assert [topic.partitions for topic in bench.shown().topics] == [(1,)]
    for pause_ms in (100, 200, 400):
        bench.clock.advance(pause_ms)
        await settle()
    bench.markers.codes.clear()
    bench.clock.advance(800)
    await settle()
    written = [partitions for _, partitions in bench.markers.calls]
    assert written == [(T0, T1), (T1,), (T1,), (T1,), (T1,)]
    assert bench.state == "CompleteCommit"


async def test_a_target_that_raises_is_tried_again(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    bench = await start()
    await bench.begin(T0)
    bench.markers.error = RuntimeError("no")
    await bench.end(1000, 0, True)
    await settle()
    bench.markers.error = None
    bench.clock.advance(100)
    await settle()
    assert bench.state == "CompleteCommit"


@pytest.mark.parametrize(
    "code", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH]
)
async def test_a_partition_without_this_transaction_is_passed_over(
    start: Start, code: ErrorCode
) -> None:
    bench = await start()
    await bench.begin(T0, T1)
    bench.markers.codes[T0] = code
    await bench.end(1000, 0, False)
    await settle()
    assert (len(bench.markers.calls), bench.state) == (1, "CompleteAbort")


# Restarts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("commit", [True, False])
async def test_a_prepared_transaction_is_completed_after_a_restart(
    start: Start, commit: bool, v2: bool
) -> None:
    bench = await start()
    await bench.begin(T0, T1, v2=v2)
    bench.markers.codes[T1] = ErrorCode.KAFKA_STORAGE_ERROR
    await bench.end(1000, 0, commit, v2)
    await settle()
    assert bench.state.startswith("Prepare")
    fresh = await bench.restart()
    # All of them once more, by a coordinator of a higher epoch.
    expected = marker(1000, int(v2), commit, 2 if v2 else 1, owner=1)
    assert fresh.markers.calls == [(expected, (T0, T1))]
    assert fresh.state == ("CompleteCommit" if commit else "CompleteAbort")
    reply = await fresh.end(1000, 0, commit, v2)
    assert reply == (EndTxnReply(NONE, 1000, 1) if v2 else EndTxnReply())
    assert (await fresh.end(1000, 0, not commit, v2)).error is BAD_STATE
    await fresh.stop()


async def test_a_restart_in_empty_and_ongoing(start: Start) -> None:
    bench = await start()
    await bench.init()
    bench = await bench.restart()
    assert bench.state == "Empty"
    assert await bench.add(1000, 0, T0) is NONE
    bench = await bench.restart()
    assert (bench.state, bench.markers.calls) == ("Ongoing", [])
    assert bench.shown().start_time_ms == bench.clock.now().wall_ms
    assert (await bench.end(1000, 0, True)).error is NONE
    await settle()
    bench = await bench.restart()
    assert (bench.state, bench.markers.calls) == ("CompleteCommit", [])
    assert await bench.init() == (NONE, 1000, 1)
    await bench.stop()


async def test_requests_before_the_load_are_told_to_wait() -> None:
    bench = Bench()
    assert await bench.init() == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)
    assert (await bench.end(1, 0, True)).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    described = await bench.ask(DescribeTransactionsRequest(("x",)), 0)
    assert described.transactions[0].error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# The log fails ------------------------------------------------------------------------------


async def test_a_failed_append_is_not_coordinator_and_the_log_decides(start: Start) -> None:
    bench = await start()
    await bench.init()
    bench.store.fail_next_append()
    assert await bench.add(1000, 0, T0) is ErrorCode.NOT_COORDINATOR
    await settle()
    assert bench.state == "Empty"
    assert await bench.add(1000, 0, T0) is NONE
    bench.store.fail_next_append(applied=True)
    assert (await bench.end(1000, 0, True)).error is ErrorCode.NOT_COORDINATOR
    await settle()
    # It was written: the transaction is committed, and a retry hears of it.
    assert bench.state == "CompleteCommit"
    assert (await bench.end(1000, 0, True)).error is NONE


async def test_a_completion_that_fails_is_made_up_for(start: Start) -> None:
    bench = await start()
    await bench.begin(T0)
    bench.markers.hold()
    await bench.end(1000, 0, True)
    await settle()
    bench.store.fail_next_append()
    bench.markers.release()
    await settle()
    assert bench.state == "CompleteCommit"
    assert [call[0].coordinator_epoch for call in bench.markers.calls] == [0, 1]


async def test_markers_of_a_table_that_is_gone_complete_nothing(start: Start) -> None:
    bench = await start()
    await bench.begin(T0)
    await bench.init(name="other")
    bench.markers.hold()
    await bench.end(1000, 0, True)
    await settle()
    bench.store.fail_next_append()
    assert await bench.add(1001, 0, T0, name="other") is ErrorCode.NOT_COORDINATOR
    await settle()
    assert [call[0].coordinator_epoch for call in bench.markers.calls] == [0, 1]
    before = await log_records(bench)
    bench.markers.release()
    await settle()
    assert bench.state == "CompleteCommit"
    assert await log_records(bench) == before + 1


@pytest.mark.parametrize(
    "record", [(encode_key("x"), b"\x00\x09"), (encode_key("x")[:-1], b""), (b"\x00\x00", None)]
)
async def test_a_log_that_cannot_be_understood_refuses_for_good(
    record: tuple[bytes, bytes | None],
) -> None:
    store = await store_with(record)
    bench = await Bench(store).start()
    assert await bench.init() == (ErrorCode.NOT_COORDINATOR, -1, -1)
    bench.clock.advance(60_000)
    await settle()
    assert await bench.init() == (ErrorCode.NOT_COORDINATOR, -1, -1)
    await bench.stop()


async def test_unknown_record_types_and_keyless_records_are_passed_over() -> None:
    store = await store_with((b"\x00\x07what", b"ever"), (None, b"x"))
    bench = await Bench(store).start()
    assert await bench.init() == (NONE, 1000, 0)
    await bench.stop()


async def store_with(*records: tuple[bytes | None, bytes | None]) -> MemoryStore:
    store = MemoryStore()
    await store.start()
    await store.open(LOG_NAME)
    last = len(records) - 1
    await store.append([Append(LOG_NAME, 1, 0, last, 0, encode_batch(0, 0, 0, records))])
    return store


async def test_a_store_without_producer_ids(start: Start) -> None:
    bench = await start()

    async def fail() -> int:
        raise LogUnavailable("full")

    bench.coordinator._next_producer_id = fail
    assert await bench.init() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)


async def test_a_transaction_too_large_for_a_record_is_refused_and_can_still_end(
    start: Start,
) -> None:
    bench = await start(message_max_bytes=400)
    await bench.begin(T0)
    many = [("t", index) for index in range(50)]
    assert await bench.add(1000, 0, *many) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert await bench.add(1000, 0, T1) is NONE
    assert (await bench.end(1000, 0, True)).error is NONE
    await settle()
    assert bench.state == "CompleteCommit"


# Time ---------------------------------------------------------------------------------------


async def test_a_transaction_that_times_out_is_aborted_and_its_producer_fenced(
    start: Start,
) -> None:
    bench = await start()
    await bench.begin(T0)
    bench.clock.advance(TIMEOUT_MS)
    await settle()
    assert bench.state == "Ongoing"
    bench.clock.advance(10_000)
    await settle()
    assert bench.markers.calls == [(marker(1000, 1, False, 2), (T0,))]
    assert bench.state == "CompleteAbort"
    assert await bench.add(1000, 0, T0) is FENCED
    assert bench.coordinator.counts == {"aborted": 1, "timed_out": 1}
    # KIP-360: an own identity that is not known is a zombie; a fresh start is not.
    assert (await bench.init(1000, 7))[0] is FENCED
    assert await bench.init() == (NONE, 1000, 2)


async def test_nothing_is_looked_for_while_no_transaction_is_open(start: Start) -> None:
    bench = await start()
    hours = 24
    assert bench.clock.advance(hours * 3_600_000) <= hours + 1, "unused ids, once an hour"
    await bench.begin(T0)
    bench.clock.advance(TIMEOUT_MS + 10_000)
    await settle()
    assert bench.state == "CompleteAbort"
    assert bench.clock.advance(hours * 3_600_000) <= hours + 2, "and a write could time out"


async def test_timeouts_go_on_after_a_restart_and_for_every_transaction(start: Start) -> None:
    bench = await start(transaction_abort_interval_ms=1000)
    await bench.begin(T0, name="a")
    await bench.init(name="b", timeout_ms=5_000)
    assert await bench.add(1001, 0, T1, name="b") is NONE
    fresh = await bench.restart()
    fresh.clock.advance(6_000)
    await settle()
    assert (fresh.shown("a").state, fresh.shown("b").state) == ("Ongoing", "CompleteAbort")
    fresh.clock.advance(TIMEOUT_MS)
    await settle()
    assert fresh.shown("a").state == "CompleteAbort"
    await fresh.stop()


async def test_unused_ids_are_forgotten(start: Start) -> None:
    bench = await start(transactional_id_expiration_ms=7_200_000, transaction_max_timeout_ms=2**31)
    await bench.init(name="unused")
    await bench.init(name="open", timeout_ms=2**31 - 1)
    assert await bench.add(1001, 0, T0, name="open") is NONE
    bench.clock.advance(7_200_000)
    await settle()
    assert bench.shown("unused").error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert bench.shown("open").state == "Ongoing"
    fresh = await bench.restart()
    assert fresh.shown("unused").error is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert await fresh.add(1000, 0, T0, name="unused") is MAPPING
    assert await fresh.init(1000, 0, name="unused") == (NONE, 1002, 0)
    await fresh.stop()


async def test_many_unused_ids_are_forgotten_some_at_a_time(start: Start) -> None:
    bench = await start(transactional_id_expiration_ms=7_200_000)
    for number in range(2 * shard.CHUNK + 1):
        await bench.init(name=f"unused-{number}")
    pending: list[int] = []
    append = bench.shard.append

    def counted(change: TransactionChange) -> asyncio.Future[None]:
        pending[-1] += 1
        return append(change)

    bench.shard.append = counted  # type: ignore[method-assign]
    bench.clock.advance(7_200_000)
    while bench.coordinator.counts["expired"] != 2 * shard.CHUNK + 1:
        pending.append(0)
        await asyncio.sleep(0)
    assert [count for count in pending if count] == [shard.CHUNK, shard.CHUNK, 1]
    assert bench.shard.table.entries == {}
    await bench.stop()


# Verification -------------------------------------------------------------------------------


async def test_verify_adds_for_version_2(start: Start) -> None:
    bench = await start()
    await bench.init()
    verify = bench.coordinator.verify
    assert await verify(write(1000, 0, T0), add=False) == {T0: ErrorCode.TRANSACTION_ABORTABLE}
    assert await verify(write(1000, 0, T0), add=True) == {T0: NONE}
    assert await verify(write(1000, 0, T0, T1), add=False) == {
        T0: NONE,
        T1: ErrorCode.TRANSACTION_ABORTABLE,
    }
    for add in (True, False):
        assert await verify(write(1000, 7, T0), add=add) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
        other = replace(write(1000, 0, T0), transactional_id="y")
        assert await verify(other, add=add) == {T0: MAPPING}
    fresh = await bench.restart()
    assert await fresh.coordinator.verify(write(1000, 0, T0), add=False) == {T0: NONE}
    await fresh.stop()


async def test_verify_waits_for_the_transaction_before(start: Start) -> None:
    bench = await start()
    await bench.begin(T0, v2=True)
    bench.markers.hold()
    await bench.end(1000, 0, True, v2=True)
    asked = asyncio.create_task(bench.coordinator.verify(write(1000, 1, T0), add=True))
    await settle()
    assert not asked.done()
    bench.markers.release()
    await settle()
    assert asked.result() == {T0: NONE}


async def test_verify_does_not_wait_for_long(start: Start) -> None:
    bench = await start()
    await bench.begin(T0, v2=True)
    bench.markers.hold()
    await bench.end(1000, 0, True, v2=True)
    asked = asyncio.create_task(bench.coordinator.verify(write(1000, 1, T0), add=True))
    await settle()
    bench.clock.advance(99)
    await settle()
    assert not asked.done()
    bench.clock.advance(1)
    await settle()
    assert asked.result() == {T0: CONCURRENT}
    assert bench.coordinator._change_waiters._waiting == {}


async def test_partitions_of_one_transaction_are_added_at_the_same_time(start: Start) -> None:
    bench = await start()
    await bench.init()
    asked = [
        asyncio.create_task(bench.coordinator.verify(write(1000, 0, ("t", index)), add=True))
        for index in range(10)
    ]
    assert await asyncio.gather(*asked) == [{("t", index): NONE} for index in range(10)]
    assert [topic.partitions for topic in bench.shown().topics] == [tuple(range(10))]


# The log stays short ------------------------------------------------------------------------


async def test_the_log_is_trimmed_and_loses_nothing(start: Start) -> None:
    bench = await start()
    bench.shard.trimmer.records_min = 40
    await bench.begin(T0, T1, name="open")
    await bench.init(name="quiet")
    for _ in range(30):
        assert await bench.add(1001, 0, T0, name="quiet") is NONE
        assert (await bench.end(1001, 0, True, name="quiet")).error is NONE
        await settle()
    shown = [bench.shown(name) for name in ("open", "quiet")]
    # 93 records were written.
    assert await log_records(bench) < 60
    assert bench.shard.start_offset > 40
    fresh = await bench.restart()
    assert [fresh.shown(name) for name in ("open", "quiet")] == shown
    assert (await fresh.end(1000, 0, True, name="open")).error is NONE
    await fresh.stop()


async def test_trimming_while_an_append_is_under_way_keeps_the_newest(start: Start) -> None:
    bench = await start()
    await bench.begin(T0)
    bench.store.hold_appends()
    ending = asyncio.create_task(bench.end(1000, 0, True))
    await settle()
    trimming = asyncio.create_task(bench.shard.trimmer.trim())
    await settle()
    bench.store.release_appends()
    await asyncio.gather(ending, trimming)
    await settle()
    fresh = await bench.restart()
    assert fresh.state == "CompleteCommit"
    await fresh.stop()


async def test_what_changes_while_it_is_trimmed_is_not_written_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shard, "CHUNK", 1)
    bench = await start()
    await bench.init(name="first")
    await bench.begin(T0, name="second")
    trimming = asyncio.create_task(bench.shard.trimmer.trim())
    ending = asyncio.create_task(bench.end(1001, 0, True, name="second"))
    await asyncio.gather(trimming, ending)
    await settle()
    fresh = await bench.restart()
    assert fresh.shown("second").state == "CompleteCommit"
    # "first" once, the two steps of the end.
    assert await log_records(fresh) == 3
    await fresh.stop()


async def test_trimming_ends_with_a_log_that_fails(start: Start) -> None:
    bench = await start()
    await bench.begin(T0)
    bench.store.fail_next_append()
    await bench.shard.trimmer.trim()
    await settle()
    assert bench.state == "Ongoing"
    assert await log_records(bench) == 2
    await bench.shard.trimmer.trim()
    assert await log_records(bench) == 1
    assert (await bench.end(1000, 0, True)).error is NONE


async def test_a_cut_that_fails_is_not_tried_at_every_change(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = await start()
    bench.shard.trimmer.records_min = 20
    cuts: list[int] = []

    async def fail(_: str, offset: int, __: int | None) -> None:
        cuts.append(offset)
        raise LogUnavailable("full")

    monkeypatch.setattr(bench.store, "truncate_before", fail)
    await bench.init()
    for _ in range(20):
        assert await bench.add(1000, 0, T0) is NONE
        assert (await bench.end(1000, 0, True)).error is NONE
        await settle()
    assert len(cuts) == 2
    monkeypatch.undo()
    for _ in range(10):
        assert await bench.add(1000, 0, T0) is NONE
        assert (await bench.end(1000, 0, True)).error is NONE
        await settle()
    assert bench.shard.start_offset > 20


# What is open -------------------------------------------------------------------------------


async def test_list_filters(start: Start) -> None:
    bench = await start()
    await bench.begin(T0, name="app-a")
    bench.clock.advance(500)
    await bench.begin(T0, name="app-b")
    await bench.init(name="other")

    async def names(**filters: Any) -> list[str]:
        reply = await bench.ask(ListTransactionsRequest(**filters), 2)
        return [found.transactional_id for found in reply.transactions]

    assert await names() == ["app-a", "app-b", "other"]
    assert await names(states=("Ongoing", "Nonsense")) == ["app-a", "app-b"]
    assert await names(states=("Nonsense",)) == []
    assert await names(producer_ids=(1001, 5)) == ["app-b"]
    assert await names(duration_ms=499, states=("Ongoing",)) == ["app-a"]
    assert await names(duration_ms=500, states=("Ongoing",)) == []
    assert await names(pattern="app-.") == ["app-a", "app-b"]
    assert await names(pattern="pp") == []
    assert await names(pattern="") == ["app-a", "app-b", "other"]
    reply = await bench.ask(ListTransactionsRequest(states=("Nonsense", "Dead")), 2)
    assert reply.unknown_states == ("Nonsense",)
