"""How many connections may be opened in a second (docs/spec/security.md#5.2, SE-78)."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, cast

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.security.quota_entities import CONNECTION_CREATION_RATE, IP
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.server.client_session import KafkaEndpoint
from groupd.coordinator.server.connection_rates import ConnectionRates
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.handshakes import Handshakes
from groupd.coordinator.server.tls_connection import TlsConnection
from tests.support.manual_clock import ManualClock
from tests.support.raw import api_versions
from tests.unit.server.harness import FakeTransport, a_listener, own_resources


class Ports:
    """Connections from any address, to one of two listeners."""

    def __init__(
        self, rate: int = 2**31 - 1, of_listener: int | None = None, *, tls: bool = False
    ) -> None:
        self.clock = ManualClock()
        self.config = CoordinatorConfig(max_connection_creation_rate=rate)
        self.quotas = Quotas(self.clock.monotonic_ms)
        of_all = ConnectionRates(self.config, self.clock, self.quotas)
        config = CoordinatorConfig(max_connection_creation_rate=of_listener or rate)
        self.handshakes = Handshakes(self.config, self.clock)
        shared = own_resources(self.config)
        wrap = partial(
            TlsConnection,
            listener=cast(Any, None),
            handshakes=self.handshakes,
            shared=shared,
        )
        self._wrap = wrap if tls else None
        self.listeners = [
            a_listener(
                each,
                self.clock,
                cast(Any, None),
                ConnectionStats(),
                shared,
                endpoint=KafkaEndpoint(
                    rates=ConnectionRates(each, self.clock, self.quotas, of_all)
                ),
            )
            for each in (config, self.config)
        ]

    def connect(self, host: str = "127.0.0.1", listener: int = 0) -> FakeTransport:
        transport = FakeTransport()
        transport._extra = {"peername": (host, 4711)}  # type: ignore[attr-defined]
        inner = self.listeners[listener]._make()
        connection = inner if self._wrap is None else self._wrap(inner)
        transport.connection = cast(Any, connection)
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


async def test_with_tls_an_address_beyond_its_quota_gets_no_handshake() -> None:
    ports = Ports(tls=True)
    ports.quotas.change([(((IP, "127.0.0.1"),), {CONNECTION_CREATION_RATE: 1})])
    opened = [ports.connect() for _ in range(20)]
    assert waiting(opened) == 10
    assert ports.handshakes.pending == 10
    ports.clock.advance(999)
    assert not any(one.aborted for one in opened)
    ports.clock.advance(1)
    assert [one.aborted for one in opened] == [False] * 10 + [True] * 10
    assert {one.sent for one in opened} == {b""}
    for one in opened:
        assert one.connection is not None
        one.connection.connection_lost(None)
    assert ports.handshakes.failed == 10, "those who were turned away have not failed"


async def test_with_tls_the_time_of_the_handshake_begins_after_the_wait() -> None:
    ports = Ports(rate=1, tls=True)
    opened = [ports.connect() for _ in range(21)]
    late = opened[-1]
    assert waiting(opened) == 11
    ports.clock.advance(ports.config.tls_handshake_timeout_ms)
    assert [one.aborted for one in opened] == [True] * 10 + [False] * 11
    await asyncio.sleep(0)
    assert late.reading
    ports.clock.advance(ports.config.tls_handshake_timeout_ms - 1)
    assert not late.aborted
    ports.clock.advance(1)
    assert late.aborted
