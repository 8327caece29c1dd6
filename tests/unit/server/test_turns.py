"""Connections take turns in starting requests."""

from __future__ import annotations

import asyncio

from groupd.coordinator.runtime.loop_stalls import INTERVAL_S, LoopStalls
from groupd.coordinator.server.fairness import Fairness
from groupd.coordinator.server.turns import BUDGET_NS, SHARE_NS, RequestTurns
from tests.unit.server.harness import Client, heartbeat

INTERVAL_NS = int(INTERVAL_S * 1e9)


EACH = 4
"""The requests in a share. A request takes one look at the clock here, which moves the clock on."""


class Loop:
    """Tells how old the turn of the loop is, as its timer does."""

    def __init__(self) -> None:
        self.now_ns = 1_000_000_000
        self.stalls = LoopStalls(elapsed=lambda: self.now_ns)
        self.stalls.rang_ns = self.now_ns
        self.turns = RequestTurns(self.stalls, self._look)

    def _look(self) -> int:
        self.now_ns += SHARE_NS // EACH + 1
        return self.now_ns

    def grows_old(self) -> None:
        self.now_ns = self.stalls.rang_ns + INTERVAL_NS + BUDGET_NS + 1


def client_of(loop: Loop) -> Client:
    client = Client()
    shared = client.fairness
    client.fairness = Fairness(loop.turns, shared.decoder, shared.work, shared.budget)
    client.at_once = True
    client.transport, client.connection = client.connect()
    return client


def many(count: int) -> bytes:
    return b"".join(heartbeat(number) for number in range(count))


async def test_as_long_as_a_turn_is_young_requests_start_as_they_come() -> None:
    loop = Loop()
    loop.stalls.rang_ns = 1 << 62
    client = client_of(loop)
    client.send(many(100))
    assert client.received() == list(range(100))


async def test_when_a_turn_is_old_each_connection_starts_its_share_in_each_turn() -> None:
    loop = Loop()
    greedy, modest = client_of(loop), client_of(loop)
    loop.grows_old()
    greedy.send(many(100))
    assert greedy.received() == list(range(EACH))
    assert not greedy.transport.reading, "what has come must start before more is read"
    modest.send(many(2))
    assert modest.received() == [0, 1], "a few requests never wait for those of others"
    modest.send(many(EACH + 2))
    assert len(modest.received()) == 2 + EACH
    await asyncio.sleep(0)
    assert len(greedy.received()) == 2 * EACH
    assert len(modest.received()) == 2 + EACH, "the line goes on in the next turn"
    await asyncio.sleep(0)
    assert len(modest.received()) == 2 + EACH + 2
    assert len(greedy.received()) == 2 * EACH
    while len(greedy.received()) < 100:
        await asyncio.sleep(0)
    assert greedy.received() == list(range(100))
    assert greedy.connection.idle
    assert greedy.transport.reading


async def test_who_is_alone_in_the_line_has_one_share_in_each_turn_too() -> None:
    loop = Loop()
    greedy = client_of(loop)
    loop.grows_old()
    greedy.send(many(100))
    started = []
    for _ in range(6):
        await asyncio.sleep(0)
        started.append(len(greedy.received()))
    assert started == [EACH * turn for turn in range(2, 8)]


async def test_a_young_turn_serves_the_whole_line() -> None:
    loop = Loop()
    clients = [client_of(loop) for _ in range(3)]
    loop.grows_old()
    for client in clients:
        client.send(many(EACH + 1))
    assert [len(client.received()) for client in clients] == [EACH] * 3
    loop.stalls.rang_ns = 1 << 62
    await asyncio.sleep(0)
    assert [len(client.received()) for client in clients] == [EACH + 1] * 3


async def test_a_connection_that_is_gone_leaves_the_line() -> None:
    loop = Loop()
    gone, other = client_of(loop), client_of(loop)
    loop.grows_old()
    gone.send(many(50))
    other.send(many(EACH + 1))
    gone.connection.abort()
    gone.connection.connection_lost(None)
    await asyncio.sleep(0)
    assert len(gone.received()) == EACH
    assert len(other.received()) == EACH + 1


async def test_without_the_timer_nobody_waits() -> None:
    client = Client()
    client.at_once = True
    assert client.fairness.turns.until() > 1 << 61
    client.send(many(1000))
    assert len(client.received()) == 1000


class Steps:
    """A gate that keeps the steps of a login."""

    login = True

    def __init__(self) -> None:
        self.seen: list[bytes] = []

    def takes(self, frame: bytes) -> bool:
        self.seen.append(frame)
        return True


async def test_a_step_of_a_login_waits_while_the_turn_is_used_up() -> None:
    loop = Loop()
    client, gate = client_of(loop), Steps()
    client.connection._gate = gate  # type: ignore[assignment]
    client.send(many(1))
    assert len(gate.seen) == 1
    loop.grows_old()
    client.send(many(1))
    assert len(gate.seen) == 1
    loop.stalls.rang_ns = loop.now_ns
    await asyncio.sleep(0)
    assert len(gate.seen) == 2
