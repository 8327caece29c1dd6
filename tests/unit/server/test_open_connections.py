"""How many connections there may be, in all and of one address."""

from __future__ import annotations

import resource
from functools import partial

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.server import descriptors
from groupd.coordinator.server.open_connections import OpenConnections
from tests.unit.server.harness import Client


class Placed:
    def __init__(self, host: str) -> None:
        self.host = host


def opened(most: int | None = None, **settings: str) -> OpenConnections[Placed]:
    named = {key.replace("_", "."): value for key, value in settings.items()}
    return OpenConnections(with_settings(CoordinatorConfig(), named), most)


def connect(connections: OpenConnections[Placed], host: str) -> Placed | str:
    """The connection, or the limit that it reaches."""
    limit = connections.limit_reached(host)
    if limit is not None:
        return limit
    placed = Placed(host)
    connections.add(placed)
    return placed


PER_ADDRESS = "max.connections.per.ip"


def test_each_address_has_a_limit_of_its_own() -> None:
    connections = opened(max_connections_per_ip="2")
    first = connect(connections, "/10.0.0.1")
    connect(connections, "/10.0.0.1")
    assert connect(connections, "/10.0.0.1") == PER_ADDRESS
    assert isinstance(connect(connections, "/10.0.0.2"), Placed)
    assert isinstance(first, Placed)
    assert connections.remove(first)
    assert not connections.remove(first)
    assert isinstance(connect(connections, "/10.0.0.1"), Placed)
    assert connect(connections, "/10.0.0.1") == PER_ADDRESS
    assert len(connections) == 3


def test_overrides_and_an_address_in_the_form_of_ipv6() -> None:
    connections = opened(
        max_connections_per_ip="0",
        max_connections_per_ip_overrides="10.0.0.1:1, ::1:2, [fe80::0:7]:1",
    )
    assert connect(connections, "/10.0.0.2") == PER_ADDRESS
    assert isinstance(connect(connections, "/::ffff:10.0.0.1"), Placed)
    assert connect(connections, "/10.0.0.1") == PER_ADDRESS
    assert isinstance(connect(connections, "/::1"), Placed)
    assert isinstance(connect(connections, "/::1"), Placed)
    assert connect(connections, "/::1") == PER_ADDRESS
    assert isinstance(connect(connections, "/fe80::7"), Placed)


def test_who_is_gone_leaves_nothing() -> None:
    connections = opened()
    for number in range(1000):
        placed = connect(connections, f"/10.0.{number // 256}.{number % 256}")
        assert isinstance(placed, Placed)
        connections.remove(placed)
    assert not connections._by_address


@pytest.mark.parametrize(
    "settings",
    [
        {PER_ADDRESS: "0"},
        {PER_ADDRESS: "-1"},
        {f"{PER_ADDRESS}.overrides": "host.example:7"},
        {f"{PER_ADDRESS}.overrides": "10.0.0.1"},
        {f"{PER_ADDRESS}.overrides": "10.0.0.1:many"},
        {f"{PER_ADDRESS}.overrides": "10.0.0.1:-1"},
    ],
)
def test_settings_that_make_no_sense(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"max\.connections\.per\.ip"):
        with_settings(CoordinatorConfig(), settings)


async def test_one_connection_more_of_an_address_is_closed_and_counted() -> None:
    client = Client(max_connections_per_ip=2)
    _, second = client.connect()
    with capture_logs() as logs:
        transport, third = client.connect()
    assert transport.aborted
    assert [line["limit"] for line in logs] == [PER_ADDRESS]
    assert (client.stats.open, client.stats.accepted, client.stats.refused) == (2, 2, 1)
    third.connection_lost(None)
    assert client.stats.open == 2
    second.connection_lost(None)
    transport, _ = client.connect()
    assert not transport.aborted


# Places ---------------------------------------------------------------------------------------


def test_a_connection_has_a_place_from_when_it_is_accepted() -> None:
    connections = opened(max_connections="2")
    first, second = Placed("/10.0.0.1"), Placed("/10.0.0.1")
    connections.expect(first)
    assert connections.full is None
    connections.expect(second)
    assert connections.full == "max.connections"
    connections.add(first)
    connections.withdraw(first)
    assert len(connections) == 2, "it is open now"
    connections.withdraw(second)
    assert len(connections) == 1, "it never was"
    assert connections.remove(first)
    assert len(connections) == 0


def test_who_waits_goes_on_one_at_a_time_and_the_longest_first() -> None:
    connections = opened(max_connections="2")
    there = [connect(connections, "/10.0.0.1") for _ in range(2)]
    called: list[str] = []
    for name in "abc":
        connections.when_room(partial(called.append, name))
    connections.offer()
    assert called == []
    for one in there:
        assert isinstance(one, Placed)
        connections.remove(one)
    assert called == ["a", "b"]
    connections.offer()
    connections.offer()
    assert called == ["a", "b", "c"]


def test_a_listener_waits_at_its_own_limit_or_at_that_of_all() -> None:
    of_all = opened(max_connections="3")
    config = with_settings(CoordinatorConfig(), {"max.connections": "2"})
    one: OpenConnections[Placed] = OpenConnections(config, None, of_all)
    other: OpenConnections[Placed] = OpenConnections(config, None, of_all)
    placed = [Placed("/10.0.0.1") for _ in range(3)]
    one.add(placed[0])
    one.add(placed[1])
    assert (one.full, other.full, of_all.full) == ("max.connections", None, None)
    called: list[str] = []
    one.when_room(partial(called.append, "one"))
    other.add(placed[2])
    assert other.full == "max.connections"
    other.when_room(partial(called.append, "other"))
    other.remove(placed[2])
    assert called == ["other"], "the other one has no room of its own"
    one.remove(placed[1])
    assert called == ["other", "one"]
    assert len(of_all) == 1


# File descriptors -----------------------------------------------------------------------------


class Limits:
    """The limits of a process: (soft, hard)."""

    def __init__(self, soft: int, hard: int) -> None:
        self.now = (soft, hard)

    def getrlimit(self, _: int) -> tuple[int, int]:
        return self.now

    def setrlimit(self, _: int, limits: tuple[int, int]) -> None:
        self.now = limits


UNLIMITED = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("soft", "hard", "raised", "allowed"),
    [
        (1024, 1_048_576, 20_512, 20_000),
        (1024, UNLIMITED, 20_512, 20_000),
        (UNLIMITED, UNLIMITED, UNLIMITED, 20_000),
        (65_536, 65_536, 65_536, 20_000),
        (20_000, 20_000, 20_000, 19_488),
        (18_511, 18_511, 18_511, 17_999),
        (1024, 4096, 4096, 3584),
        (300, 300, 300, 150),
    ],
)
def test_the_limit_is_raised_as_far_as_needed_and_the_rest_is_said(
    soft: int, hard: int, raised: int, allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = Limits(soft, hard)
    monkeypatch.setattr(descriptors.resource, "getrlimit", limits.getrlimit)
    monkeypatch.setattr(descriptors.resource, "setrlimit", limits.setrlimit)
    with capture_logs() as logs:
        descriptors.raise_limit(20_000)
        assert logs == [], "a start that fails says only why"
        descriptors.warn_if_few(20_000)
    assert limits.now == (raised, hard)
    assert descriptors.most_connections(20_000) == allowed
    assert [line["connections_allowed"] for line in logs] == [allowed] * (allowed < 18_000)
    assert opened(0).full == "file descriptors"
