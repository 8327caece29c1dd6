"""A daemon as a unit of systemd with `Type=notify`, and a PostgreSQL that comes up after it."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.process import wait_until

WAIT_S = 60.0


class Manager:
    """Hears what services say, at an address of `NOTIFY_SOCKET`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._end.bind(address.replace("@", "\0"))
        self._end.settimeout(WAIT_S)

    def hears(self) -> str:
        return self._end.recv(4096).decode()

    def hears_nothing(self) -> bool:
        self._end.settimeout(0)
        try:
            self._end.recv(4096)
        except BlockingIOError:
            return True
        finally:
            self._end.settimeout(WAIT_S)
        return False

    def close(self) -> None:
        self._end.close()


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    path = str(tmp_path / "notify")
    manager = Manager(path if request.param == "path" else f"@groupd-test-{path}")
    yield manager
    manager.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_systemd_hears_when_it_serves_and_when_it_stops(
    manager: Manager, tmp_path: Path, workers: str, postgres: PostgresServer
) -> None:
    """One process speaks for all."""
    env = {"NOTIFY_SOCKET": manager.address}
    env["GROUPD_STORE"] = postgres.url(postgres.emptied_database())
    daemon = Daemon(tmp_path / "d", arguments=["--workers", workers], env=env)
    try:
        daemon.start()
        assert manager.hears() == "READY=1"
        daemon.stop()
        assert manager.hears() == "STOPPING=1"
        assert manager.hears_nothing()
    finally:
        daemon.close()


def test_a_manager_that_is_gone_ends_nobody(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "d", env={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    try:
        daemon.start()
        daemon.stop()
    finally:
        daemon.close()


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


@pytest.mark.parametrize("manager", ["path"], indirect=True)
@pytest.mark.parametrize("arguments", [[], ["--cluster"]], ids=["alone", "cluster"])
def test_a_database_that_comes_up_later_is_waited_for(
    manager: Manager, server: PostgresServer, tmp_path: Path, arguments: list[str]
) -> None:
    url = server.url(server.new_database())
    server.stop()
    env = {"NOTIFY_SOCKET": manager.address, "GROUPD_STORE": url}
    daemon = Daemon(tmp_path / "d", arguments=arguments, env=env)
    try:
        daemon.launch()
        wait_until(lambda: "waiting for the store" in daemon.logs(), WAIT_S, "a line", daemon.logs)
        assert manager.hears_nothing()
        server.start()
        daemon.wait_ready()
        assert manager.hears() == "READY=1"
        assert daemon.logs().count("waiting for the store") == 1
        daemon.stop()
    finally:
        daemon.close()


def ended(daemon: Daemon) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        daemon.command(), capture_output=True, text=True, timeout=WAIT_S, check=False
    )


def test_what_waiting_does_not_mend(server: PostgresServer, tmp_path: Path) -> None:
    """Exit code 2 at once for what somebody has to mend; 1 for a server that never came, which the
    unit tries again."""
    database = server.new_database()

    def daemon(url: str) -> Daemon:
        settings = {"groupd.store.wait.ms": "700"}
        return Daemon(tmp_path / "d", arguments=["--store", url], settings=settings)

    for url in (server.url(database, password="wrong"), server.url("nowhere")):
        done = ended(daemon(url))
        assert done.returncode == 2
        assert "waiting" not in done.stderr
        assert len(done.stderr.splitlines()) == 1
    server.stop()
    done = ended(daemon(server.url(database)))
    assert done.returncode == 1
    waits, last = done.stderr.splitlines()
    assert "waiting for the store" in waits
    assert "cannot be reached" in last
    assert last.endswith(": stopped")
