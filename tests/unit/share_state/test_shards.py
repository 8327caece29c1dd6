"""Shards of share-partitions at work: when replies leave, how a shard loads and fails, and how its
log is kept short."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage
from groupd.coordinator.core.partitioning import string_hash
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.share_state import shard as shard_module
from groupd.coordinator.share_state.machine import ShareStateMachine
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_state import (
    InitializeShareGroupStateRequest,
    ReadShareState,
    ShareStateReply,
    ShareStateResult,
    ShareStateTopic,
)
from groupd.protocol.records.share_state_records import ShareSnapshot, ShareUpdate
from groupd.storage.log import LogUnavailable, LogUncertain
from groupd.storage.units import SHARE_STATE, Unit
from tests.support.manual_clock import ManualClock
from tests.unit.share_state.harness import (
    DELETE,
    GROUP,
    INIT,
    LOG_NAME,
    NONE,
    READ,
    START_MS,
    SUMMARY,
    WRITE,
    B,
    Bench,
    T,
    U,
    asked,
    init,
    settle,
    write,
)

NOT_HERE = ErrorCode.NOT_COORDINATOR
MINUTES_5 = 300_000


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = await Bench().start()
    yield bench
    await bench.stop()


# Requests and replies -----------------------------------------------------------------------


async def test_requests_that_ask_for_nothing(bench: Bench) -> None:
    """docs/spec/share-group.md#SG-56"""
    ask = bench.coordinator.ask
    assert await ask(InitializeShareGroupStateRequest(GROUP, [])) == ShareStateReply()
    full, empty = ShareStateTopic(T, [init()]), ShareStateTopic(T, [])
    assert await ask(InitializeShareGroupStateRequest("", [full])) == ShareStateReply()
    assert await ask(InitializeShareGroupStateRequest(GROUP, [full, empty])) == ShareStateReply()
    assert await bench.log() == []


async def test_each_partition_has_an_answer_in_its_place(bench: Bench) -> None:
    bench.topics.counts[U] = 1
    request = InitializeShareGroupStateRequest(
        GROUP,
        [
            ShareStateTopic(T, [init(partition=2), init(partition=7), init(partition=0)]),
            ShareStateTopic(U, [init(partition=0)]),
        ],
    )
    reply = await bench.coordinator.ask(request)
    found = [
        (one.topic_id, [(e.partition, e.error) for e in one.partitions]) for one in reply.topics
    ]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [(T, [(2, NONE), (7, unknown), (0, NONE)]), (U, [(0, NONE)])]
    assert bench.coordinator.share_partitions == 3


async def test_replies_wait_until_what_they_rest_on_is_durable(bench: Bench) -> None:
    bench.store.hold_appends()
    asks = [
        asyncio.ensure_future(bench.ask(INIT, init(2, 0))),
        asyncio.ensure_future(bench.ask(WRITE, write(B(0, 4, 2, 1), state_epoch=2))),
        asyncio.ensure_future(bench.ask(READ, asked())),
        asyncio.ensure_future(bench.ask(SUMMARY, asked())),
        asyncio.ensure_future(bench.ask(INIT, init(1, 0))),
    ]
    await settle()
    assert not any(one.done() for one in asks)
    bench.store.release_appends()
    initialized, written, read, summary, refused = await asyncio.gather(*asks)
    assert (initialized, written) == (ShareStateResult(0), ShareStateResult(0))
    assert read.batches == (B(0, 4, 2, 1),)
    assert summary.state_epoch == 2
    assert refused.error is ErrorCode.FENCED_STATE_EPOCH


async def test_a_lost_write_is_refused_and_the_shard_loads_again(bench: Bench) -> None:
    await bench.good(INIT, init(1, 0))
    bench.store.fail_next_append()
    write_, read = await asyncio.gather(
        bench.ask(WRITE, write(B(0, 4, 2, 1))), bench.ask(READ, asked())
    )
    assert (write_.error, read.error) == (NOT_HERE, NOT_HERE)
    await settle()
    assert await bench.ask(READ, asked()) == ReadShareState(0, state_epoch=1)


@pytest.mark.parametrize("applied", [True, False])
async def test_a_write_with_an_unknown_result(bench: Bench, applied: bool) -> None:
    await bench.good(INIT, init(1, 0))
    bench.store.fail_next_append(LogUncertain("connection lost"), applied=applied)
    assert (await bench.ask(WRITE, write(B(0, 4, 2, 1)))).error is NOT_HERE
    await settle()
    assert (await bench.ask(READ, asked())).batches == ((B(0, 4, 2, 1),) if applied else ())


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(["well", "lost", "uncertain", "restart"]), max_size=25))
def test_what_was_acknowledged_survives_all_faults(faults: list[str]) -> None:
    """Each write has an offset of its own, so the state says which writes were made."""

    async def run() -> None:
        bench = await Bench(share_snapshot_updates=2).start()
        await bench.good(INIT, init(1, 0))
        acknowledged, asked_for = set(), set()
        for number, fault in enumerate(faults):
            if fault == "restart":
                bench = await bench.restart()
                continue
            offset = 2 * number
            if fault != "well":
                bench.store.fail_next_append(
                    LogUncertain("connection lost"), applied=fault == "uncertain"
                )
            asked_for.add(offset)
            entry = await bench.ask(WRITE, write(B(offset, offset, 2, 1)))
            assert entry.error is (NONE if fault == "well" else NOT_HERE)
            if entry.error is NONE:
                acknowledged.add(offset)
            await bench.pass_time(1000)
        bench = await bench.restart()
        kept = {one.first_offset for one in (await bench.ask(READ, asked())).batches}
        assert acknowledged <= kept <= asked_for
        await bench.stop()

    asyncio.run(run())


async def test_a_write_that_takes_too_long(bench: Bench) -> None:
    bench.store.hold_appends()
    asking = asyncio.ensure_future(bench.ask(INIT, init()))
    await settle()
    await bench.pass_time(4_999)
    assert not asking.done()
    await bench.pass_time(1)
    assert asking.result().error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.store.release_appends()
    assert (await bench.ask(SUMMARY, asked())).state_epoch == 1


async def test_nothing_is_answered_without_a_lease(bench: Bench) -> None:
    await bench.good(INIT, init())
    bench.lease_lasts = False
    assert (await bench.ask(READ, asked())).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_after_the_end(bench: Bench) -> None:
    await bench.good(INIT, init())
    await bench.coordinator.close()
    for one in (asked(), asked(partition=1)):
        assert (await bench.ask(READ, one)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_share_partitions_are_where_kafka_looks_for_them() -> None:
    bench = await Bench(share_state_num_partitions=50).start()
    await bench.good(INIT, init(partition=2), group="a:b")
    text = "a:b:dHR0dHR0dHR0dHR0dHR0dA:2"
    assert list(bench.host.by_number) == [abs(string_hash(text)) % 50]
    await bench.stop()


async def test_counts(bench: Bench) -> None:
    counts = bench.coordinator.counts
    await bench.good(INIT, init(1, 0), init(1, 0, partition=1))
    assert counts.writes == 0
    await bench.good(WRITE, write(), write(partition=1))
    await bench.good(WRITE, write())
    assert counts.writes == 3
    assert counts.latency.quantiles()["max"] > 0


# Loading --------------------------------------------------------------------------------------


async def test_the_state_is_there_after_a_restart(bench: Bench) -> None:
    await bench.good(INIT, init(1, 0), init(2, 7, partition=1), init(partition=2))
    await bench.good(WRITE, write(B(0, 4, 2, 1), B(6, 7, 0, 2), count=5))
    await bench.ask(READ, asked(9))
    await bench.good(DELETE, 2)
    kept = bench.shard.machine.kept
    bench = await bench.restart()
    assert bench.shard.machine.kept == kept
    assert len(kept) == 2
    assert bench.shard.loaded_records == 6


async def test_a_log_that_cannot_be_read(bench: Bench) -> None:
    await bench.good(INIT, init())
    await bench.stop()
    bench = Bench(bench.store, bench.clock)
    bench.store.fail_next_read()
    await bench.start()
    assert bench.host.failed == [LOG_NAME]
    assert (await bench.ask(READ, asked())).error is NOT_HERE
    await bench.pass_time(500)
    assert (await bench.ask(READ, asked())).error is NONE


async def test_logs_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    with monkeypatch.context() as patched:

        async def fail(*_: object) -> None:
            raise LogUnavailable("no disk")

        patched.setattr(bench.store, "open_many", fail)
        patched.setattr(bench.store, "open", fail)
        await bench.start()
        assert (await bench.ask(READ, asked())).error is NOT_HERE
    await bench.pass_time(500)
    await bench.good(INIT, init())
    await bench.stop()


async def test_records_of_a_large_state_are_read_a_few_at_a_time(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.good(INIT, init(1, 0))
    await bench.good(WRITE, write(*[B(2 * at, 2 * at, 2, 1) for at in range(9000)]))
    for at in range(100):
        await bench.good(WRITE, write(B(2 * at, 2 * at, 2, 2)))
    turn, replays = 0, Counter[int]()
    replay = ShareStateMachine.replay

    def counted(machine: ShareStateMachine, *record: Any) -> None:
        replays[turn] += 1
        replay(machine, *record)

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(ShareStateMachine, "replay", counted)
    counting = asyncio.create_task(count())
    await bench.restart()
    counting.cancel()
    assert replays.total() == 102
    assert max(replays.values()) < 60, "an update is merged into all batches"


async def test_before_the_load() -> None:
    bench = Bench()
    assert (await bench.ask(READ, asked())).error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# Nodes ------------------------------------------------------------------------------------------


async def test_a_shard_moves_to_another_node() -> None:
    first = await Bench(alone=False).start()
    second = await Bench(first.store, ManualClock(), alone=False).start()
    unit = Unit(SHARE_STATE, 0)
    assert (await first.ask(INIT, init())).error is NOT_HERE
    await first.host.serve(unit, 1)
    await first.good(INIT, init())
    first.store.hold_appends()
    late = asyncio.ensure_future(first.ask(WRITE, write(B(0, 4, 2, 1))))
    await settle()
    leaving = asyncio.ensure_future(first.host.give_up(unit))
    await settle()
    assert not leaving.done()
    first.store.release_appends()
    await leaving
    assert late.result() == ShareStateResult(0)
    assert (await first.ask(READ, asked())).error is NOT_HERE
    await second.host.serve(unit, 2)
    assert (await second.ask(READ, asked())).batches == (B(0, 4, 2, 1),)
    second.host.drop(unit)
    assert (await second.ask(READ, asked())).error is NOT_HERE
    await first.stop()
    await second.stop()


# The log is kept short ----------------------------------------------------------------------


async def test_cold_share_partitions_are_written_again(bench: Bench) -> None:
    await bench.good(INIT, init(1, 0), init(1, 0, partition=1))
    await bench.pass_time(MINUTES_5 - 1)
    await bench.good(INIT, init(2, 0, partition=1))
    assert len(await bench.log()) == 3
    await bench.pass_time(1)
    made, now = START_MS, START_MS + MINUTES_5
    assert (await bench.log())[-1] == (3, 0, ShareSnapshot(1, 1, 0, 0, made, now, (), 0))
    # All but one are cold by then, and the last one becomes so.
    await bench.pass_time(MINUTES_5)
    assert [entry[:2] for entry in (await bench.log())[-2:]] == [(4, 0), (5, 1)]
    # Now nothing would be won.
    await bench.pass_time(10 * MINUTES_5)
    assert (await bench.log())[-1][0] == 5
    # Only what was deleted while this shard was not served is written.
    bench.topics.counts[T] = 1
    await bench.pass_time(MINUTES_5)
    assert (await bench.log())[-1] == (6, 1, None)


async def test_pruning(bench: Bench) -> None:
    await bench.good(INIT, init(1, 0), init(1, 0, partition=1))
    for offset in range(3):
        await bench.good(WRITE, write(B(offset, offset, 2, 1)))
    # First the cold snapshots are written, then pruning goes up to the first of them.
    await bench.pass_time(MINUTES_5)
    await bench.pass_time(MINUTES_5)
    assert [(at, number, type(value)) for at, number, value in await bench.log()] == [
        (5, 0, ShareSnapshot),
        (6, 1, ShareSnapshot),
    ]
    assert bench.host.state(0) == (5, 7)
    assert bench.coordinator.counts.pruned == {0: 5}
    kept = bench.shard.machine.kept
    bench = await bench.restart()
    assert bench.shard.machine.kept == kept
    assert kept[next(iter(kept))].batches == (B(0, 2, 2, 1),)


async def test_pruning_keeps_what_a_share_partition_needs(bench: Bench) -> None:
    await bench.good(INIT, init(1, 0), init(1, 0, partition=1))
    await bench.good(DELETE, 0)
    await bench.good(WRITE, write(B(0, 4, 2, 1), partition=1))
    await bench.shard.prune()
    assert [(at, type(value)) for at, _, value in await bench.log()] == [
        (1, ShareSnapshot),
        (2, type(None)),
        (3, ShareUpdate),
    ]
    await bench.good(DELETE, 1)
    await bench.shard.prune()
    assert await bench.log() == []
    assert bench.host.state(0) == (5, 5)
    bench = await bench.restart()
    assert bench.shard.machine.kept == {}


async def test_pruning_looks_at_all_slices(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_module, "SLICE_ITEMS", 1)
    await bench.good(INIT, *[init(1, 0, partition=number) for number in range(3)])
    await bench.good(INIT, init(2, 0, partition=0))
    await bench.good(INIT, init(2, 0, partition=2))
    await bench.shard.prune()
    assert [entry[:2] for entry in await bench.log()] == [(1, 1), (2, 2), (3, 0), (4, 2)]


async def test_nothing_is_cut_off_before_the_snapshots_are_durable(bench: Bench) -> None:
    await bench.good(INIT, init(1, 0))
    bench.store.hold_appends()
    again = asyncio.ensure_future(bench.ask(INIT, init(2, 0)))
    await settle()
    pruning = asyncio.ensure_future(bench.shard.prune())
    await settle()
    assert not pruning.done()
    bench.store.fail_next_append()
    bench.store.release_appends()
    await pruning
    assert (await again).error is NOT_HERE
    await settle()
    assert (await bench.ask(SUMMARY, asked())).state_epoch == 1
    assert bench.host.state(0) == (0, 1)


async def test_a_log_that_cannot_be_pruned(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await bench.good(INIT, init(1, 0))
    await bench.good(INIT, init(2, 0))
    with monkeypatch.context() as patched, capture_logs() as logged:

        async def fail(*_: object) -> None:
            raise LogUnavailable("no disk")

        patched.setattr(bench.store, "truncate_before", fail)
        await bench.shard.prune()
    assert [one["event"] for one in logged] == ["the log cannot be pruned"]
    assert bench.host.state(0) == (0, 2)
    await bench.shard.prune()
    assert bench.host.state(0) == (1, 2)


async def test_a_deleted_topic(bench: Bench) -> None:
    bench.topics.counts[U] = 2
    await bench.good(INIT, init(), init(partition=1))
    await bench.good(INIT, init(), init(partition=1), topic=U)
    bench.coordinator.on_metadata(MetadataDelta(MetadataImage(), deleted=(("u", U),)))
    del bench.topics.counts[U]
    await settle()
    assert [key.topic_id for key in bench.shard.machine.kept] == [T, T]
    assert [value for _, _, value in (await bench.log())[-2:]] == [None, None]


async def test_a_topic_that_was_deleted_while_nobody_served_the_shard(bench: Bench) -> None:
    bench.topics.counts[U] = 1
    await bench.good(INIT, init())
    await bench.good(INIT, init(), topic=U)
    del bench.topics.counts[U]
    await bench.pass_time(MINUTES_5)
    assert [key.topic_id for key in bench.shard.machine.kept] == [T]


async def test_no_task_outlives_its_shard(bench: Bench) -> None:
    await bench.good(INIT, init(1, 0))
    await bench.good(INIT, init(2, 0))
    bench.store.hold_appends()
    asking = asyncio.ensure_future(bench.ask(INIT, init(3, 0)))
    await settle()
    shard = bench.shard
    shard.tasks.start(shard.prune())
    await settle()
    assert shard.tasks.busy
    closing = asyncio.ensure_future(bench.coordinator.close())
    await settle()
    bench.store.release_appends()
    await closing
    assert (await asking).error is NONE
    assert not shard.tasks.busy
    assert shard.state is CoordinatorState.CLOSED
