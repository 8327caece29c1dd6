"""How many connections may be opened in a second (docs/spec/security.md#5.2, SE-78)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.security.quota_entities import CONNECTION_CREATION_RATE, IP
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.server.client_session import KafkaEndpoint
from groupd.coordinator.server.connection_rates import ConnectionRates
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.listener import KafkaListener
from groupd.testing.clock import ManualClock
from tests.support.raw import api_versions
from tests.unit.server.harness import FakeTransport, a_fairness


class Ports:
    """Connections from any address, to one of two listeners."""

    def __init__(self, rate: int = 2**31 - 1, of_listener: int | None = None) -> None:
        self.clock = ManualClock()
        self.config = CoordinatorConfig(max_connection_creation_rate=rate)
        self.quotas = Quotas(self.config, self.clock.monotonic_ms)
        of_all = ConnectionRates(self.config, self.clock, self.quotas)
        config = CoordinatorConfig(max_connection_creation_rate=of_listener or rate)
        self.listeners = [
            KafkaListener(
                each,
                self.clock,
                cast(Any, None),
                ConnectionStats(),
                a_fairness(self.config),
                endpoint=KafkaEndpoint(
                    rates=ConnectionRates(each, self.clock, self.quotas, of_all)
                ),
            )
            for each in (config, self.config)
        ]

    def connect(self, host: str = "127.0.0.1", listener: int = 0) -> FakeTransport:
        transport = FakeTransport()
        transport._extra = {"peername": (host, 4711)}  # type: ignore[attr-defined]
        connection = self.listeners[listener]._connection()
        transport.connection = connection
        connection.connection_made(transport)
        return transport


def waiting(transports: list[FakeTransport]) -> int:
    return sum(not transport.reading for transport in transports)


async def test_an_address_beyond_its_quota_is_closed_after_a_pause() -> None:
    ports = Ports()
    ports.quotas.change([(((IP, "127.0.0.1"),), {CONNECTION_CREATION_RATE: 1})])
    opened = [ports.connect() for _ in range(20)]
    assert waiting(opened) == 10
    late = opened[-1]
    assert not late.aborted
    assert late.connection is not None
    late.connection.data_received(api_versions(1))
    ports.clock.advance(999)
    assert not any(one.aborted for one in opened)
    ports.clock.advance(1)
    assert [one.aborted for one in opened] == [False] * 10 + [True] * 10
    assert late.sent == b""
    assert ports.connect("127.0.0.2").reading
    assert ports.connect("::ffff:127.0.0.1").reading is False
    assert ports.quotas.throttled[CONNECTION_CREATION_RATE] == 11


async def test_refused_connections_do_not_count() -> None:
    ports = Ports()
    ports.quotas.change([(((IP, None),), {CONNECTION_CREATION_RATE: 1})])
    opened = [ports.connect() for _ in range(100)]
    assert waiting(opened) == 90
    ports.clock.advance(11_000)
    assert ports.connect().reading


async def test_beyond_the_rate_of_the_broker_connections_wait() -> None:
    ports = Ports(rate=1)
    opened = [ports.connect(f"10.0.0.{number}", number % 2) for number in range(11)]
    assert waiting(opened) == 1
    late = opened[-1]
    ports.clock.advance(1000)
    assert not late.aborted


async def test_a_listener_may_have_a_lower_rate() -> None:
    ports = Ports(rate=1000, of_listener=1)
    assert waiting([ports.connect() for _ in range(20)]) == 10
    assert waiting([ports.connect(listener=1) for _ in range(20)]) == 0


async def test_a_connection_that_waited_is_served() -> None:
    ports = Ports(rate=1)
    opened = [ports.connect() for _ in range(11)]
    late = opened[-1]
    assert not late.reading
    ports.clock.advance(1000)
    for _ in range(5):
        await asyncio.sleep(0)
    assert late.reading
