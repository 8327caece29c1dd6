"""Requests that come while this node may not answer: `Broker` holds them back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from groupd.coordinator.cluster.lease import Notifier
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.data_routes import DataRoute
from groupd.coordinator.runtime.ownership import SingleNodeOwnership
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.topics.produce import is_long
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.runtime.harness import Bench, settle

LEASE_MS = 1000


class LateLease(SingleNodeOwnership):
    """A lease that the test begins and ends."""

    def __init__(self) -> None:
        super().__init__(1)
        self.told: Notifier | None = None
        self.valid = False

    def may_answer(self) -> bool:
        return self.valid

    async def answering(self, since_ms: int) -> bool:
        assert self.told is not None
        if not self.valid:
            await self.told.wait(since_ms + LEASE_MS)
        return self.valid


class Asked(Waiter):
    """`hung_up`: the client's connection was closed; `held`: nothing behind the request starts."""

    def __init__(self, request: ProduceRequest) -> None:
        super().__init__(request, lambda *_: None)
        self.hung_up = self.held = self.lost = False

    def send(self, reply: Any) -> None:
        pass

    def block_connection(self) -> None:
        self.held = True

    def hang_up(self) -> None:
        self.hung_up = True

    def on_no_reply(self) -> None:
        self.lost = True


class Held:
    """A broker whose lease is over. `started`: the requests that were begun, by number."""

    def __init__(self) -> None:
        self.lease = LateLease()
        self.bench = Bench(ownership=self.lease)
        self.lease.told = Notifier(self.bench.clock)
        self.started: list[int] = []
        route = DataRoute(self._produce, is_long=is_long)
        self.bench.broker.tasks.routes[ProduceRequest] = route

    async def _produce(self, context: RequestContext, request: ProduceRequest) -> object:
        self.started.append(request.timeout_ms)
        return object()

    def ask(self, number: int, partitions: int = 1) -> Asked:
        asked = tuple(ProducePartition(one, b"") for one in range(partitions))
        topics = (ProduceTopic("t", NO_TOPIC_ID, asked),)
        waiter = Asked(ProduceRequest(topics, 1, number))
        self.bench.broker.submit(RequestContext(waiter, 12, "client"), waiter.request)
        return waiter

    def begin_lease(self) -> None:
        self.lease.valid = True
        assert self.lease.told is not None
        self.lease.told.notify()


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    one = Held()
    await one.bench.start()
    yield one
    await one.bench.broker.close()


async def test_they_start_in_the_order_in_which_they_came(held: Held) -> None:
    for number in range(300):
        held.ask(number)
    await settle()
    assert held.started == []
    held.begin_lease()
    held.ask(300)  # the lease is there, and those before have not started yet
    await settle()
    assert held.started == list(range(301))
    held.ask(301)
    await settle()
    assert held.started[-1] == 301


async def test_nobody_waits_longer_than_a_lease(held: Held) -> None:
    first = held.ask(0)
    held.bench.clock.advance(LEASE_MS // 2)
    second = held.ask(1)
    await settle()
    held.bench.clock.advance(LEASE_MS // 2)
    await settle()
    assert (first.hung_up, second.hung_up) == (True, False)
    held.begin_lease()
    await settle()
    assert not second.hung_up
    assert held.started == [1]


async def test_a_lease_that_ends_again_holds_back_the_rest(held: Held) -> None:
    last = [held.ask(number) for number in range(300)][-1]
    await settle()
    held.begin_lease()
    while not held.started:
        await settle(1)
    held.lease.valid = False
    await settle()
    assert 0 < len(held.started) < 300
    held.bench.clock.advance(LEASE_MS)
    await settle()
    assert last.hung_up
    assert held.started == list(range(len(held.started)))


async def test_a_long_request_holds_its_client_from_the_start(held: Held) -> None:
    assert held.ask(0, partitions=101).held
    assert not held.ask(1).held


async def test_one_that_cannot_be_started_costs_no_other_anything(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [held.ask(number) for number in range(3)]
    await settle()

    def start(context: RequestContext, request: ProduceRequest) -> None:
        if request.timeout_ms == 1:
            raise MemoryError
        held.started.append(request.timeout_ms)

    monkeypatch.setattr(held.bench.broker.tasks._held_back, "_start", start)
    held.begin_lease()
    await settle()
    assert held.started == [0, 2]
    assert [one.lost for one in waiting] == [False, True, False]
