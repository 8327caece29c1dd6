"""Shards of transactional ids: who answers for an id, and how a shard moves to another node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.runtime.coordinator_types import transactions_log_name
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from groupd.storage.log import LogUnavailable
from groupd.storage.memory import MemoryStore
from groupd.storage.units import TRANSACTIONS, Unit
from tests.unit.transactions.harness import (
    NONE,
    T0,
    T1,
    TIMEOUT_MS,
    Bench,
    marker,
    settle,
    write,
)

SHARDS = {"transaction_state_log_num_partitions": 4}
NOT_HERE = ErrorCode.NOT_COORDINATOR
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
OURS, THEIRS = "a", "b"
"""Ids of two shards."""

UNIT, OTHER = (Unit(TRANSACTIONS, partition_for(name, 4)) for name in (OURS, THEIRS))


class Nodes:
    """Nodes over one store; the first serves both shards, the second none."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        first = Bench(self.store, alone=False, **SHARDS)
        self.first = first
        self.second = Bench(self.store, first.ids, first.clock, alone=False, **SHARDS)

    async def start(self) -> Nodes:
        for node in (self.first, self.second):
            await node.start()
        for unit in (UNIT, OTHER):
            await self.first.host.serve(unit, 1)
        return self

    async def stop(self) -> None:
        for node in (self.first, self.second):
            await node.stop()


@pytest.fixture
async def nodes() -> AsyncIterator[Nodes]:
    nodes = await Nodes().start()
    yield nodes
    await nodes.stop()


async def listed(bench: Bench) -> list[str]:
    reply = await bench.ask(ListTransactionsRequest(), 2)
    return [found.transactional_id for found in reply.transactions]


# Who answers ----------------------------------------------------------------------------------


async def test_ids_are_in_the_shards_that_kafka_puts_them_in() -> None:
    bench = await Bench(transaction_state_log_num_partitions=50).start()
    names = ["one", "two", "zażółć", "payments-17"]
    for name in names:
        assert (await bench.init(name=name))[0] is NONE
    assert {name: shard.partition for shard in bench.coordinator.shards.values()
            for name in shard.table.entries} == {
        name: partition_for(name, 50) for name in names
    }  # fmt: skip
    assert await listed(bench) == sorted(names)
    await bench.stop()


async def test_a_change_whose_write_takes_too_long_is_refused() -> None:
    bench = await Bench(**SHARDS).start()
    bench.store.hold_appends()
    asking = asyncio.ensure_future(bench.init(name=OURS))
    await settle()
    bench.clock.advance(bench.config.offsets_commit_timeout_ms)
    assert (await asking)[0] is ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.store.release_appends()
    await bench.stop()


async def test_shards_without_ids_are_there_all_the_same() -> None:
    bench = Bench(**SHARDS)
    assert bench.coordinator.served.loading == 4
    with pytest.raises(ApiError):
        bench.coordinator.tables()
    await bench.start()
    coordinator = bench.coordinator
    assert coordinator.served.loading == 0
    assert coordinator.tables() == []
    assert coordinator.served.state(3) == (0, 0)
    assert coordinator.served.state(4) is None
    moved = asyncio.Event()
    coordinator.served.add_waiter(UNIT.number, moved)
    await bench.init(name=OURS)
    assert moved.is_set()
    assert coordinator.served.state(UNIT.number) == (0, 1)
    await bench.stop()
    assert coordinator.served.state(3) is None
    assert await bench.init(name=THEIRS) == (NOT_HERE, -1, -1)


async def test_ids_of_other_nodes_are_refused(nodes: Nodes) -> None:
    node = nodes.second
    assert await node.init(name=OURS) == (NOT_HERE, -1, -1)
    assert await node.add(1, 0, T0, name=OURS) is NOT_HERE
    assert (await node.end(1, 0, True, name=OURS)).error is NOT_HERE
    assert node.coordinator.served.state(UNIT.number) is None
    for add in (True, False):
        assert await node.coordinator.verify(write(1, 0, T0), add=add) == {T0: NOT_HERE}
    described = await node.ask(DescribeTransactionsRequest((OURS, "")), 0)
    assert [found.error for found in described.transactions] == [
        NOT_HERE,
        ErrorCode.INVALID_REQUEST,
    ]
    assert await listed(node) == []
    assert (await nodes.first.init(name=OURS))[0] is NONE
    assert await listed(nodes.first) == [OURS]


async def test_nothing_is_answered_once_the_lease_is_over(nodes: Nodes) -> None:
    node = nodes.first
    producer = await node.begin(T0, name=OURS)
    node.lease_lasts = False
    over = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await node.init(name=OURS) == (over, -1, -1)
    assert await node.add(*producer, T0, name=OURS) is over
    with pytest.raises(ApiError) as refused:
        await node.ask(ListTransactionsRequest(), 2)
    assert refused.value.code is over
    node.clock.advance(2 * TIMEOUT_MS)
    await settle()
    node.lease_lasts = True
    assert node.shown(OURS).state == "Ongoing"  # nor was it aborted
    node.clock.advance(TIMEOUT_MS)
    await settle()
    assert node.shown(OURS).state == "CompleteAbort"


async def test_a_list_waits_for_shards_that_are_loading(nodes: Nodes) -> None:
    node = nodes.second
    node.coordinator.served.take(0)
    with pytest.raises(ApiError) as refused:
        await node.ask(ListTransactionsRequest(), 2)
    assert refused.value.code is LOADING


async def test_the_limit_on_ids_counts_those_of_all_shards() -> None:
    bench = await Bench(max_transactional_ids=1, **SHARDS).start()
    assert (await bench.init(name=OURS))[0] is NONE
    assert (await bench.init(name=THEIRS))[0] is ErrorCode.POLICY_VIOLATION
    assert (await bench.init(name=OURS))[0] is NONE
    await bench.stop()


async def test_logs_that_cannot_be_opened_at_the_start_are_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()

    async def fail(*_: Any) -> Any:
        raise LogUnavailable("away")

    monkeypatch.setattr(store, "open_many", fail)
    bench = await Bench(store, **SHARDS).start()
    assert (await bench.init(name=OURS))[0] is NOT_HERE
    assert bench.coordinator.served.loading == 4
    monkeypatch.undo()
    bench.clock.advance(500)
    await settle()
    assert (await bench.init(name=OURS))[0] is NONE
    assert bench.coordinator.served.loading == 0
    await bench.stop()


async def test_a_stop_while_the_logs_are_opened_is_final(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(**SHARDS)
    await bench.store.start()
    open_many, go_on = bench.store.open_many, asyncio.Event()

    async def slow(*names: Any) -> Any:
        await go_on.wait()
        return await open_many(*names)

    monkeypatch.setattr(bench.store, "open_many", slow)
    loading = asyncio.create_task(bench.coordinator.load())
    await settle()
    await bench.coordinator.close()
    go_on.set()
    await loading
    assert await bench.init(name=OURS) == (NOT_HERE, -1, -1)


async def test_a_shard_that_fails_leaves_the_others_alone() -> None:
    bench = await Bench(**SHARDS).start()
    ours, theirs = await bench.begin(T0, name=OURS), await bench.begin(T0, name=THEIRS)
    bench.store.fail_next_append()
    bench.store.fail_next_read()  # and the first reload
    assert await bench.add(*ours, T1, name=OURS) is NOT_HERE
    assert await bench.add(*theirs, T1, name=THEIRS) is NONE
    await settle()
    bench.clock.advance(500)
    await settle()
    assert await bench.add(*ours, T1, name=OURS) is NONE
    await bench.stop()


# Moves ----------------------------------------------------------------------------------------


async def test_a_transaction_goes_on_on_another_node(nodes: Nodes) -> None:
    ours = await nodes.first.begin(T0, name=OURS)
    theirs = await nodes.first.begin(T0, name=THEIRS)
    await nodes.first.host.give_up(UNIT)
    assert await nodes.first.add(*ours, T1, name=OURS) is NOT_HERE
    assert await nodes.first.add(*theirs, T1, name=THEIRS) is NONE
    await nodes.second.host.serve(UNIT, 2)
    assert await nodes.second.add(*ours, T1, name=OURS) is NONE
    assert (await nodes.second.end(*ours, True, name=OURS)).error is NONE
    await settle()
    assert nodes.second.shown(OURS).state == "CompleteCommit"
    # The coordinator epoch has grown with the owner.
    assert nodes.second.markers.calls == [(marker(ours[0], 0, True, 1, owner=1), (T0, T1))]
    # And back.
    await nodes.second.host.give_up(UNIT)
    await nodes.first.host.serve(UNIT, 3)
    assert await nodes.first.add(*ours, T1, name=OURS) is NONE
    assert (await nodes.first.end(*ours, True, name=OURS)).error is NONE
    await settle()
    assert nodes.first.markers.calls[-1][0].coordinator_epoch == 2
    assert nodes.first.coordinator.shards[OTHER.number].coordinator_epoch == 0


async def test_the_next_owner_ends_what_was_decided(nodes: Nodes) -> None:
    ours = await nodes.first.begin(T0, T1, name=OURS)
    nodes.first.markers.hold()
    assert (await nodes.first.end(*ours, False, name=OURS)).error is NONE
    await settle()
    assert nodes.first.coordinator.ending
    await nodes.first.host.give_up(UNIT)
    assert not nodes.first.coordinator.ending
    await nodes.second.host.serve(UNIT, 2)
    await settle()
    assert nodes.second.markers.calls == [(marker(ours[0], 0, False, 1, owner=1), (T0, T1))]
    assert nodes.second.shown(OURS).state == "CompleteAbort"
    nodes.first.markers.release()
    await settle()
    assert await nodes.first.init(name=OURS) == (NOT_HERE, -1, -1)


async def test_what_was_accepted_becomes_durable_before_the_shard_is_given_up(
    nodes: Nodes,
) -> None:
    ours = await nodes.first.begin(T0, name=OURS)
    nodes.store.hold_appends()
    adding = asyncio.create_task(nodes.first.add(*ours, T1, name=OURS))
    await settle()
    leaving = asyncio.create_task(nodes.first.host.give_up(UNIT))
    await settle()
    assert await nodes.first.add(*ours, T0, name=OURS) is NOT_HERE
    assert not leaving.done()
    nodes.store.release_appends()
    await leaving
    assert await adding is NONE
    await nodes.second.host.serve(UNIT, 2)
    assert [topic.partitions for topic in nodes.second.shown(OURS).topics] == [(0, 1)]


async def test_an_append_that_fails_meanwhile_is_refused(nodes: Nodes) -> None:
    ours = await nodes.first.begin(T0, name=OURS)
    nodes.store.hold_appends()
    adding = asyncio.create_task(nodes.first.add(*ours, T1, name=OURS))
    await settle()
    nodes.store.fail_next_append()
    leaving = asyncio.create_task(nodes.first.host.give_up(UNIT))
    await settle()
    nodes.store.release_appends()
    await leaving
    assert await adding is NOT_HERE
    assert UNIT.number not in nodes.first.coordinator.shards


async def test_a_shard_that_is_dropped_answers_nothing_more(nodes: Nodes) -> None:
    ours = await nodes.first.begin(T0, name=OURS)
    theirs = await nodes.first.begin(T0, name=THEIRS)
    nodes.store.hold_appends()
    adding = asyncio.create_task(nodes.first.add(*ours, T1, name=OURS))
    others = asyncio.create_task(nodes.first.add(*theirs, T1, name=THEIRS))
    await settle()
    nodes.first.host.drop(UNIT)
    assert await adding is NOT_HERE
    await nodes.second.host.serve(UNIT, 2)
    nodes.store.release_appends()
    await settle()
    assert await others is NONE  # that the append of both was fenced in part makes no difference
    assert [topic.partitions for topic in nodes.second.shown(OURS).topics] == [(0,)]
    assert await nodes.second.add(*ours, T1, name=OURS) is NONE
    nodes.first.host.drop(UNIT)  # a second time
    await nodes.first.host.give_up(UNIT)


async def test_a_dropped_shard_writes_no_more_markers_of_its_own(nodes: Nodes) -> None:
    ours = await nodes.first.begin(T0, name=OURS)
    nodes.first.markers.hold()
    await nodes.first.end(*ours, True, name=OURS)
    await settle()
    nodes.first.host.drop(UNIT)
    nodes.first.markers.release()
    await settle()
    assert not nodes.first.coordinator.ending
    # The lease was over and is renewed: the same node reads it again.
    await nodes.first.host.serve(UNIT, 1)
    await settle()
    assert nodes.first.shown(OURS).state == "CompleteCommit"
    assert [call[0].coordinator_epoch for call in nodes.first.markers.calls] == [0, 1]


async def test_timed_out_transactions_of_a_moved_shard_are_aborted(nodes: Nodes) -> None:
    ours = await nodes.first.begin(T0, name=OURS)
    await nodes.first.host.give_up(UNIT)
    nodes.first.clock.advance(2 * TIMEOUT_MS)
    await settle()
    await nodes.second.host.serve(UNIT, 2)
    nodes.first.clock.advance(10_000)
    await settle()
    assert nodes.second.shown(OURS).state == "CompleteAbort"
    assert nodes.second.markers.calls == [(marker(ours[0], 1, False, 2, owner=1), (T0,))]


async def test_the_log_has_its_units_owner(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    opened = nodes.store.open

    async def watched(name: str, owned: Any = None) -> Any:
        asked.append((name, owned))
        return await opened(name, owned)

    monkeypatch.setattr(nodes.store, "open", watched)
    await nodes.second.host.serve(Unit(TRANSACTIONS, 3), 9)
    assert asked == [(transactions_log_name(3), (Unit(TRANSACTIONS, 3), 9))]


async def test_a_cut_of_the_log_is_waited_for(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = await nodes.first.begin(T0, name=OURS)
    shard = nodes.first.coordinator.shards[UNIT.number]
    truncate, open_again = nodes.store.truncate_before, asyncio.Event()

    async def slow(name: str, offset: int, owner_epoch: int | None) -> None:
        await open_again.wait()
        await truncate(name, offset, owner_epoch)

    monkeypatch.setattr(nodes.store, "truncate_before", slow)
    shard.tasks.start(shard.trimmer.trim())
    await settle()
    leaving = asyncio.create_task(nodes.first.host.give_up(UNIT))
    await settle()
    assert not leaving.done()
    open_again.set()
    await leaving
    await nodes.second.host.serve(UNIT, 2)
    assert nodes.second.coordinator.served.state(UNIT.number) == (2, 3)
    assert await nodes.second.add(*ours, T1, name=OURS) is NONE
