"""What a failed bind says, and that nobody is forgotten at the end."""

from __future__ import annotations

import errno

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.listener import CannotListen, cannot_listen
from tests.support.manual_clock import ManualClock
from tests.unit.server.harness import Client, FakeTransport, a_listener, own_resources


def test_a_busy_port_names_the_flag_and_the_way_out() -> None:
    error = cannot_listen("0.0.0.0", 9092, "--listen", OSError(errno.EADDRINUSE, "in use"))
    assert str(error) == (
        "--listen 0.0.0.0:9092: the port is in use; stop what holds it or choose another "
        "(port 0 takes any free one)"
    )


def test_another_reason_is_told_as_it_is() -> None:
    error = cannot_listen("10.9.9.9", 1, "--admin", OSError(errno.EACCES, "Permission denied"))
    assert str(error) == "--admin 10.9.9.9:1: Permission denied; choose another address"


async def test_an_address_of_somebody_else_is_refused() -> None:
    clock = ManualClock()
    listener = a_listener(CoordinatorConfig(), clock, Client(), ConnectionStats(), own_resources())
    with pytest.raises(CannotListen, match=r"--listen 192\.0\.2\.1:0: "):
        await listener.start("192.0.2.1", 0)
    listener.close_listener()
    await listener.close_connections()
    assert clock.next_timer_ms() is None


async def test_a_closed_connection_that_lingers_is_cut_off_by_the_next_sweep() -> None:
    clock = ManualClock()
    config = CoordinatorConfig(connections_max_idle_ms=1000)
    listener = a_listener(config, clock, Client(), ConnectionStats(), own_resources())
    await listener.start("127.0.0.1", 0)
    connection = listener._make()
    transport = FakeTransport()
    connection.connection_made(transport)
    clock.advance(1500)
    assert transport.closing
    assert not transport.aborted
    clock.advance(500)
    assert transport.aborted
    connection.connection_lost(None)
    listener.close_listener()
    assert clock.next_timer_ms() is None


async def test_a_connection_accepted_during_the_close_is_closed_too() -> None:
    listener = a_listener(
        CoordinatorConfig(), ManualClock(), Client(), ConnectionStats(), own_resources()
    )
    first, late = listener._make(), listener._make()
    transports = FakeTransport(), FakeTransport()
    first.connection_made(transports[0])
    original = transports[0].close

    def close() -> None:
        original()
        late.connection_made(transports[1])
        first.connection_lost(None)

    transports[0].close = close  # type: ignore[method-assign]
    await listener.close_connections(timeout_s=0.05)
    assert transports[1].closing
