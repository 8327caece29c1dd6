"""Shards that go from one node to another: two brokers over one store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.ownership import SingleNodeOwnership
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.waiting import Callback, StoredReplyValidity
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import ListGroupsRequest
from groupd.storage.memory import MemoryStore
from groupd.storage.units import GROUPS, Unit
from tests.unit.runtime.harness import (
    APIS,
    Bench,
    commit,
    commit_errors,
    committed,
    consumer_beat,
    consumer_join,
    fetch,
    join,
    settle,
)

OK = [ErrorCode.NONE]
ELSEWHERE = [ErrorCode.NOT_COORDINATOR]


class ManualLease(SingleNodeOwnership):
    """An ownership whose lease the test ends."""

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        self.valid = True

    def may_answer(self) -> bool:
        return self.valid

    async def answering(self, since_ms: int) -> bool:
        return self.valid


class Node:
    def __init__(self, store: MemoryStore, node_id: int) -> None:
        self.lease = ManualLease(node_id)
        self.bench = Bench(store, shards=2, ownership=self.lease)
        self.broker = self.bench.broker
        self.host = self.broker.served
        self.unit = Unit(GROUPS, self.broker.shard_of("g").partition)

    async def commit(self, offset: int) -> list[ErrorCode]:
        return commit_errors(await self.bench.answer(commit("g", offset)))

    async def fetch(self) -> list[int]:
        return committed(await self.bench.answer(fetch("g")))


Nodes = tuple[Node, Node]


@pytest.fixture
async def nodes() -> AsyncIterator[Nodes]:
    store = MemoryStore()
    both = Node(store, 1), Node(store, 2)
    for one in both:
        await one.bench.start()
    yield both
    for one in both:
        await one.broker.close()


async def test_a_shard_moves_with_all_that_was_committed(nodes: Nodes) -> None:
    a, b = nodes
    assert await a.commit(1) == ELSEWHERE
    await a.host.serve(a.unit, 1)
    assert await a.commit(7) == OK
    assert await b.commit(8) == ELSEWHERE
    await a.host.give_up(a.unit)
    assert await a.commit(9) == ELSEWHERE
    await b.host.serve(b.unit, 2)
    assert await b.fetch() == [7]
    assert await b.commit(10) == OK
    await b.host.give_up(b.unit)
    await a.host.serve(a.unit, 3)
    assert await a.fetch() == [10]


async def test_what_is_under_way_is_answered_before_the_shard_is_given_up(nodes: Nodes) -> None:
    a, b = nodes
    await a.host.serve(a.unit, 1)
    a.bench.store.hold_appends()
    replies = a.bench.ask(commit("g", 7))
    await settle()
    giving_up = asyncio.ensure_future(a.host.give_up(a.unit))
    await settle()
    assert replies == []
    assert not giving_up.done()
    assert await a.commit(8) == ELSEWHERE
    a.bench.store.release_appends()
    await giving_up
    assert [commit_errors(reply) for reply in replies] == [OK]
    await b.host.serve(b.unit, 2)
    assert await b.fetch() == [7]


async def test_a_write_that_fails_does_not_hold_up_the_move(nodes: Nodes) -> None:
    a, _ = nodes
    await a.host.serve(a.unit, 1)
    a.bench.store.hold_appends()
    a.bench.store.fail_next_append()
    replies = a.bench.ask(commit("g", 7))
    await settle()
    giving_up = asyncio.ensure_future(a.host.give_up(a.unit))
    await settle()
    a.bench.store.release_appends()
    await giving_up
    assert [commit_errors(reply) for reply in replies] == [ELSEWHERE]


async def test_members_that_wait_are_sent_away_and_go_on_elsewhere(nodes: Nodes) -> None:
    a, b = nodes
    await a.host.serve(a.unit, 1)
    joined = await a.bench.answer(consumer_join("g", "m"))
    assert joined.error is ErrorCode.NONE
    parked = a.bench.ask(join("g"), version=3)
    await a.host.give_up(a.unit)
    await settle()
    assert len(parked) == 1
    assert len(a.broker.waiting) == 0
    await b.host.serve(b.unit, 2)
    # The member is known there at its epoch: no rebalance.
    beat = await b.bench.answer(consumer_beat("g", "m", joined.member_epoch))
    assert (beat.error, beat.member_epoch) == (ErrorCode.NONE, joined.member_epoch)


async def test_a_shard_that_is_dropped_answers_nothing_more(nodes: Nodes) -> None:
    a, b = nodes
    await a.host.serve(a.unit, 1)
    a.bench.store.hold_appends()
    replies = a.bench.ask(commit("g", 7))
    await settle()
    a.host.drop(a.unit)
    assert [commit_errors(reply) for reply in replies] == [ELSEWHERE]
    a.bench.store.release_appends()
    await settle()
    assert len(a.broker.waiting) == 0
    # The store had it after all: whoever reads the log next knows it.
    await b.host.serve(b.unit, 2)
    assert await b.fetch() == [7]


async def test_a_shard_that_loads_says_so_and_can_be_given_up(nodes: Nodes) -> None:
    a, b = nodes
    for _ in range(3):
        a.bench.store.fail_next_read()
    await b.host.serve(b.unit, 1)
    assert await b.commit(7) == OK
    await b.host.give_up(b.unit)
    await a.host.serve(a.unit, 2)
    (shard,) = a.broker.shards
    assert shard.state is CoordinatorState.FAILED
    await a.host.give_up(a.unit)
    assert a.broker.shards == []
    a.bench.clock.advance(60_000)
    await settle()
    assert shard.state is CoordinatorState.CLOSED


async def test_a_list_of_groups_is_that_of_the_shards_served_here(nodes: Nodes) -> None:
    a, b = nodes

    async def listed(node: Node) -> list[str]:
        reply = await node.bench.answer(ListGroupsRequest())
        assert reply.error is ErrorCode.NONE
        return [group.group_id for group in reply.groups]

    await a.host.serve(a.unit, 1)
    await a.commit(7)
    assert (await listed(a), await listed(b)) == (["g"], [])
    await a.host.give_up(a.unit)
    await b.host.serve(b.unit, 2)
    assert (await listed(a), await listed(b)) == ([], ["g"])


async def test_without_a_lease_nothing_is_answered_from_memory(nodes: Nodes) -> None:
    a, _ = nodes
    await a.host.serve(a.unit, 1)
    joined = await a.bench.answer(consumer_join("g", "m"))
    a.lease.valid = False
    assert await a.commit(8) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert (await a.bench.answer(fetch("g"))).groups[0].error is not ErrorCode.NONE
    listed = await a.bench.answer(ListGroupsRequest())
    assert listed.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    # Nor does time pass for members that nobody can hear.
    a.bench.clock.advance(a.bench.config.consumer_session_timeout_ms + 1)
    await settle()
    a.lease.valid = True
    beat = await a.bench.answer(consumer_beat("g", "m", joined.member_epoch))
    assert beat.error is ErrorCode.NONE


async def test_a_stored_reply_ends_with_the_lease(nodes: Nodes) -> None:
    a, _ = nodes
    await a.host.serve(a.unit, 1)
    joined = await a.bench.answer(consumer_join("g", "m"))
    asked = consumer_beat("g", "m", joined.member_epoch, joined.assignment)
    renew: list[Callable[[], bool]] = []

    class Watched(Callback):
        def may_repeat(self, validity: StoredReplyValidity) -> None:
            renew.append(validity.renew)

    for _ in range(2):  # the first one says that the assignment has come
        waiter = Watched(asked, APIS[type(asked)].failure, lambda reply: None)
        a.broker.submit(RequestContext(waiter, 0, "client"), asked)
        await settle()
    assert renew[-1]()
    a.lease.valid = False
    assert not renew[-1]()


async def test_offsets_of_a_topic_go_that_was_deleted_while_nobody_served_the_shard(
    nodes: Nodes,
) -> None:
    a, b = nodes
    await a.host.serve(a.unit, 1)
    assert await a.commit(7) == OK
    await a.host.give_up(a.unit)
    await b.host.serve(b.unit, 2)
    assert list(b.broker.shard_of("g").topics_of("g")) == ["t"]
    await b.host.give_up(b.unit)
    b.bench.change_topics(deleted=("t",))
    await b.host.serve(b.unit, 3)
    await settle()
    assert list(b.broker.shard_of("g").topics_of("g")) == []
