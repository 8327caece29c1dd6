"""Clients beyond a limit are closed, and counted by the metric that the table of limits in
docs/security.md names."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
import trustme

from tests.support.certificates import client_context, client_hello, keystore
from tests.support.daemon import Daemon
from tests.support.metrics import samples
from tests.support.peer import running
from tests.support.process import wait_until
from tests.support.raw import RawConnection
from tests.support.sasl_client import plain_config
from tests.unit.docs.test_limits_table import METRIC, table

HOST = "127.0.0.1"
OTHER = "127.0.0.2"
"""An address that may have one connection."""
SETTLE_S = 20.0
SOON_MS = "1000"
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "LOGIN": "SASL_PLAINTEXT",
    "SECURE": "SSL",
}
CA = trustme.CA()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("limits")
    settings = {
        "listeners": ",".join(f"{name}://{HOST}:0" for name in PROTOCOLS),
        "listener.security.protocol.map": ",".join(map(":".join, PROTOCOLS.items())),
        "max.connections.per.ip.overrides": f"{OTHER}:1",
        "ssl.keystore.location": str(keystore(directory / "broker.pem", CA.issue_cert(HOST))),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": plain_config({"bob": "pw"}),
        "tls_handshake_timeout_ms": SOON_MS,
        "authentication_timeout_ms": SOON_MS,
    }
    with running(Daemon(directory, settings=settings)) as made:
        yield made


def too_many(daemon: Daemon, stack: ExitStack) -> RawConnection:
    first = stack.enter_context(RawConnection(daemon.port, source=OTHER))
    assert first.works()
    return RawConnection(daemon.port, source=OTHER)


def sends(listener: str, data: bytes) -> Callable[[Daemon, ExitStack], RawConnection]:
    """A client that sends that, and nothing more."""

    def act(daemon: Daemon, _: ExitStack) -> RawConnection:
        connection = RawConnection(daemon.ports[listener])
        connection.send(data)
        return connection

    return act


BEYOND = {
    "max.connections.per.ip": too_many,
    "time for the handshake": sends("secure", client_hello(client_context(CA))[:50]),
    "time for the login": sends("login", b"\0"),
    "size of a frame before the login": sends("login", struct.pack(">i", 524_289)),
    "socket.request.max.bytes": sends("kafka", struct.pack(">i", 104_857_601)),
}
"""Setting, or name of a row of the table -> what a client does to reach that limit."""


def counted(daemon: Daemon, metric: str) -> float:
    """How many the metric has counted. `metric`: its cell in the table."""
    name = METRIC.findall(metric)[0]
    found = samples(daemon.admin_url, name)
    failed = "result `failed`" in metric
    return sum(one.value for one in found if not failed or one.labels["result"] == "failed")


@pytest.mark.parametrize("key", BEYOND)
def test_who_is_beyond_a_limit_is_closed_and_counted(daemon: Daemon, key: str) -> None:
    """SE-79, SE-83, SE-84: each by its own metric."""
    (limit,) = (limit for limit in table() if key in limit.name)
    assert limit.beyond.startswith("closed")
    before = counted(daemon, limit.metric)
    with ExitStack() as stack:
        client = stack.enter_context(BEYOND[key](daemon, stack))
        assert client.is_closed_by_peer()
    wait_until(lambda: counted(daemon, limit.metric) == before + 1, SETTLE_S, limit.metric)
