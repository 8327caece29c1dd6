"""At `max.connections` clients wait; beyond `max.connections.per.ip` they are closed
(`docs/spec/security.md#5.2`)."""

from __future__ import annotations

import contextlib
import select
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.support.certificates import client_context, keystore
from tests.support.daemon import Daemon, ends_well
from tests.support.metrics import total
from tests.support.process import wait_until
from tests.support.raw import RawConnection, api_versions, close_with_reset

MOST, OWN = 10, 2
"""`max.connections` of the broker, and of the listener `own`."""
OTHER = "127.0.0.2"
"""An address that may have two connections."""
CA = trustme.CA()
TIMEOUT_S = 20.0


class Client(RawConnection):
    """A client that asks as soon as it is connected."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        super().__init__(port, timeout_s=TIMEOUT_S, tls=context)
        self.send(api_versions(1))

    def is_served(self) -> bool:
        return self.reply()[0] == 1


class Broker:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        settings = {
            "listeners": "FIRST://127.0.0.1:0,SECOND://127.0.0.1:0,OWN://127.0.0.1:0,"
            "SECURE://127.0.0.1:0",
            "listener.security.protocol.map": (
                "FIRST:PLAINTEXT,SECOND:PLAINTEXT,OWN:PLAINTEXT,SECURE:SSL"
            ),
            "listener.name.secure.ssl.keystore.location": str(
                keystore(directory / "broker.pem", CA.issue_cert("127.0.0.1", common_name="b"))
            ),
            "max.connections": str(MOST),
            "listener.name.own.max.connections": str(OWN),
            "max.connections.per.ip.overrides": f"{OTHER}:2",
        }
        self.daemon = Daemon(directory, settings=settings)
        self.daemon.start()
        self.open = contextlib.ExitStack()

    def connect(self, listener: str, number: int = 1) -> list[Client]:
        port = self.port(listener)
        return [self.open.enter_context(Client(port)) for _ in range(number)]

    def port(self, listener: str) -> int:
        # The name of the first listener in the ready line is `kafka`.
        return self.daemon.ports["kafka" if listener == "first" else listener]

    @property
    def blocked(self) -> int:
        """The number of listening sockets at which clients wait."""
        return int(total(self.daemon.admin_url, "groupd_acceptors_blocked"))

    def until_blocked(self, number: int = 1) -> None:
        wait_until(lambda: self.blocked == number, TIMEOUT_S, f"{number} with clients that wait")

    def told(self) -> list[str]:
        """Log lines about the first listener."""
        log = (self.directory / "groupd.log").read_text()
        told = [line for line in log.splitlines() if "clients wait" in line]
        return [line for line in told if "listener=FIRST" in line]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("limits"))
    with ends_well(broker.daemon):
        yield broker


@pytest.fixture
def broker(started: Broker) -> Iterator[Broker]:
    with contextlib.ExitStack() as started.open:
        yield started
    open_now = "groupd_connections_open"
    wait_until(lambda: total(started.daemon.admin_url, open_now) == 0, TIMEOUT_S, "the end of all")
    assert started.blocked == 0


def silent(clients: list[Client]) -> bool:
    """Whether nothing has come for any of them."""
    return select.select([client.socket for client in clients], [], [], 0)[0] == []


def test_clients_beyond_the_limit_wait_and_are_served_in_turn(broker: Broker) -> None:
    """SE-79: the eleventh waits, and is served once another closes."""
    told = broker.told()
    clients = broker.connect("first", MOST)
    assert all(client.is_served() for client in clients)
    assert broker.blocked == 0, "nobody waits yet"
    clients += broker.connect("first", MOST)
    broker.until_blocked()
    for number in range(MOST):
        assert silent(clients[MOST + number :])
        clients[number].close()
        assert clients[MOST + number].is_served()
    wait_until(lambda: broker.blocked == 0, TIMEOUT_S, "nobody who waits")
    assert all(client.works() for client in clients[MOST:])
    lines = broker.told()
    assert all("limit=max.connections" in line for line in lines)
    assert lines
    assert len(lines) - len(told) < MOST, "no line for each client"


def test_who_gives_up_while_waiting_takes_no_place(broker: Broker) -> None:
    clients = broker.connect("first", MOST)
    assert all(client.is_served() for client in clients)
    for number, impatient in enumerate(broker.connect("first", 3 * MOST)):
        if number % 2:
            close_with_reset(impatient.socket)
        impatient.close()
    (patient,) = broker.connect("first")
    broker.until_blocked()
    assert silent([patient])
    clients[0].close()
    assert patient.is_served()
    clients[1].close()
    (later,) = broker.connect("first")
    assert later.is_served()
    assert all(client.works() for client in clients[2:])


def test_listeners_that_share_the_limit_take_turns(broker: Broker) -> None:
    """SE-79: with two listeners."""
    clients = broker.connect("first", 3) + broker.connect("second", MOST - 3)
    assert all(client.is_served() for client in clients)
    of_first = broker.connect("first", 3)
    broker.until_blocked(1)
    of_second = broker.connect("second", 3)
    broker.until_blocked(2)
    for first, second in zip(of_first, of_second, strict=True):
        for served in (first, second):
            assert silent([served])
            clients.pop().close()
            assert served.is_served()
    assert broker.blocked == 0


def test_the_limit_of_a_listener_holds_nobody_else_up(broker: Broker) -> None:
    """SE-79: the limit of one listener."""
    own = broker.connect("own", OWN)
    assert all(client.is_served() for client in own)
    (waiting,) = broker.connect("own")
    broker.until_blocked()
    others = broker.connect("first", MOST - OWN)
    assert all(client.is_served() for client in others)
    assert silent([waiting])
    others[0].close()
    (other,) = broker.connect("first")
    assert other.is_served(), "the place is not for a listener that is full"
    (last,) = broker.connect("second")
    broker.until_blocked(2)
    own[0].close()
    assert last.is_served(), "it waits at the limit of the broker, which the listener reaches next"
    assert silent([waiting])
    other.close()
    assert waiting.is_served()


def test_with_tls_a_client_waits_before_its_handshake(broker: Broker) -> None:
    """SE-79: with TLS."""
    context, port = client_context(CA), broker.port("secure")
    clients = [broker.open.enter_context(Client(port, context)) for _ in range(MOST)]
    assert all(client.is_served() for client in clients)
    served = threading.Event()

    def connect() -> None:
        with Client(port, context) as late:
            if late.is_served():
                served.set()

    late = threading.Thread(target=connect)
    late.start()
    broker.until_blocked()
    assert not served.is_set()
    pending = total(broker.daemon.admin_url, "groupd_tls_handshakes_pending")
    assert pending == 0, "it does not count as a handshake that takes long"
    clients[0].close()
    late.join(TIMEOUT_S)
    assert served.is_set()


def test_one_connection_more_of_an_address_is_closed(broker: Broker) -> None:
    """SE-79: with `max.connections.per.ip` 2 the third one is closed."""

    def connect() -> RawConnection:
        return broker.open.enter_context(RawConnection(broker.port("first"), source=OTHER))

    first, second = connect(), connect()
    assert first.works()
    assert second.works()
    for _ in range(2 * MOST):
        assert connect().is_closed_by_peer()
    others = broker.connect("first", MOST - 2)
    assert all(client.is_served() for client in others), "who is refused leaves no place taken"
    assert broker.blocked == 0
    others[0].close()
    first.close()
    wait_until(lambda: connect().works(), TIMEOUT_S, "a place for the address")


def test_a_daemon_stops_while_clients_wait(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, settings={"max.connections": "1"})
    daemon.start()
    try:
        with Client(daemon.port) as served, Client(daemon.port) as waiting:
            assert served.is_served()
            wait_until(
                lambda: total(daemon.admin_url, "groupd_acceptors_blocked") == 1, TIMEOUT_S, "it"
            )
            daemon.stop()
            assert served.is_closed_by_peer()
            assert waiting.is_closed_by_peer()
    finally:
        daemon.close()
