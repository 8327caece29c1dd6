"""Whose handshake begins, and whose ends for it: fair between networks, on a clock of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.server.handshakes import FAIR_SHARE, Handshakes
from tests.support.manual_clock import ManualClock

TIMEOUT_MS = 10_000
FAIR_MS = TIMEOUT_MS // FAIR_SHARE
ATTACKER, OTHER = "/10.0.0.1", "/10.0.0.2"
HONEST_MS = 50
"""What an honest client takes from the first message of its handshake to the last."""


class Client:
    def __init__(self, bench: Bench, host: str, honest: bool = False) -> None:
        self.bench = bench
        self.host = host
        self.honest = honest
        self.state = "waits"
        bench.line.opened(self)
        bench.line.line_up(self)

    def begin(self) -> None:
        assert self.state == "waits"
        self.state = "under way"
        if self.honest:
            self.bench.clock.call_at(self.bench.clock.monotonic_ms() + HONEST_MS, self._done)

    def too_late(self) -> None:
        assert self.state != "done"
        self.state = "ended"
        self.bench.line.ended(self, False)

    def _done(self) -> None:
        if self.state == "under way":
            self.state = "done"
            self.bench.line.ended(self, True)


class Bench:
    def __init__(self, most: int, elapsed: Callable[[], int] = lambda: 0) -> None:
        self.clock = ManualClock()
        config = CoordinatorConfig(tls_handshakes_max=most, tls_handshake_timeout_ms=TIMEOUT_MS)
        self.line = Handshakes(config, self.clock, elapsed)

    async def come(self, host: str, count: int = 1, honest: bool = False) -> list[Client]:
        made = [Client(self, host, honest) for _ in range(count)]
        await self.advance(0)
        return made

    async def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        for _ in range(5):
            await asyncio.sleep(0)


def count(clients: list[Client], state: str) -> int:
    return sum(client.state == state for client in clients)


async def test_half_open_handshakes_take_no_place_of_another_network() -> None:
    bench = Bench(most=10)
    halves = await bench.come(ATTACKER, 100)
    assert count(halves, "under way") == 10
    (honest,) = await bench.come(OTHER, honest=True)
    assert honest.state == "under way", "at once"
    assert count(halves, "under way") == 9
    assert halves[-1].state == "ended", "the oldest of those under way"
    await bench.advance(HONEST_MS)
    assert honest.state == "done"


async def test_networks_share_the_places() -> None:
    bench = Bench(most=10)
    one, other = await bench.come(ATTACKER, 100), await bench.come(OTHER, 100)
    assert (count(one, "under way"), count(other, "under way")) == (5, 5)
    (third,) = await bench.come("/10.0.0.3")
    assert third.state == "under way"
    assert count(one + other, "under way") == 9


async def test_handshakes_of_one_network_have_a_fair_time() -> None:
    bench = Bench(most=10)
    first = await bench.come(ATTACKER, 10)
    second = await bench.come(ATTACKER, 3)
    await bench.advance(FAIR_MS - 1)
    assert count(first, "under way") == 10
    await bench.advance(1)
    assert count(second, "under way") == 3
    assert count(first, "ended") == 3
    assert [client.state for client in first[-3:]] == ["ended"] * 3, "the oldest"


async def test_the_newest_of_a_network_begins_first() -> None:
    bench = Bench(most=1)
    await bench.come(ATTACKER)
    waiting = await bench.come(ATTACKER, 5)
    await bench.advance(FAIR_MS)
    assert [client.state for client in waiting] == ["waits"] * 4 + ["under way"]


@pytest.mark.parametrize("host", [ATTACKER, OTHER])
async def test_a_thousand_hellos_a_second_keep_few_honest_clients_out(host: str) -> None:
    """With the places and the time that are the default, for three seconds."""
    bench = Bench(CoordinatorConfig().tls_handshakes_max)
    honest: list[Client] = []
    for ms in range(0, 3_000, 10):
        await bench.come(ATTACKER, 10)
        if ms % 100 == 50:
            honest += await bench.come(host, honest=True)
        await bench.advance(10)
    assert len(honest) == 30
    assert count(honest, "done") >= 28
