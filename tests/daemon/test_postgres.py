"""Daemons on PostgreSQL: what survives which end, a server that goes and comes, two daemons on one
database, and what an operator gets to read."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.daemon import ROOT, Daemon
from tests.support.postgres import PASSWORD, PostgresServer, running_postgres
from tests.support.process import wait_until
from tests.support.raw_member import RawMember
from tests.support.wire_client import WireClient

NONE = 0
RETRIABLE = {14, 15, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR."""
RECOVERY_S = 30.0
USAGE = 2

MakeDaemon = Callable[..., Daemon]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module, which is stopped and started."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def database(server: PostgresServer) -> str:
    return server.emptied_database()


@pytest.fixture
def make_daemon(server: PostgresServer, database: str, tmp_path: Path) -> Iterator[MakeDaemon]:
    made: list[Daemon] = []

    def make() -> Daemon:
        directory = tmp_path / f"daemon-{len(made)}"
        made.append(
            Daemon(directory, topics={"orders": 1}, arguments=["--store", server.url(database)])
        )
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture
def daemon(make_daemon: MakeDaemon) -> Daemon:
    daemon = make_daemon()
    daemon.start()
    return daemon


def commit(client: WireClient, offset: int, group: str = "billing") -> int:
    """The error code of one commit."""
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": "orders", "partitions": [partition]}]
    reply = client.call("OffsetCommit", 8, group_id=group, topics=topics)
    code: int = reply["topics"][0]["partitions"][0]["error_code"]
    return code


def commit_until(client: WireClient, offset: int, group: str = "billing") -> None:
    """Does what a client does: tries again until the commit is taken."""
    deadline = time.monotonic() + RECOVERY_S
    while (code := commit(client, offset, group)) != NONE:
        assert code in RETRIABLE
        assert time.monotonic() < deadline, "commits are refused although the server is back"
        time.sleep(0.05)


def committed(client: WireClient, group: str = "billing") -> int:
    """The committed offset, asked for until the group is loaded."""
    topics = [{"name": "orders", "partition_indexes": [0]}]
    deadline = time.monotonic() + RECOVERY_S
    while True:
        reply = client.call("OffsetFetch", 7, group_id=group, topics=topics)
        if reply["error_code"] == NONE:
            offset: int = reply["topics"][0]["partitions"][0]["committed_offset"]
            return offset
        assert reply["error_code"] in RETRIABLE
        assert time.monotonic() < deadline, "the group does not load"
        time.sleep(0.05)


def members(daemon: Daemon, group: str) -> list[str]:
    with urllib.request.urlopen(f"{daemon.admin_url}/groups/{group}", timeout=5) as answer:
        return [member["member_id"] for member in json.loads(answer.read())["members"]]


class Committer:
    """Commits higher and higher offsets of its own group in a thread, as often as it can."""

    def __init__(self, daemon: Daemon, group: str) -> None:
        self.group = group
        self.acknowledged = 0
        self.tried = 0
        self.refusals: set[int] = set()
        self._client = WireClient(daemon.host, daemon.port)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._client as client:
            while not self._stop.is_set():
                self.tried += 1
                code = commit(client, self.tried, self.group)
                if code == NONE:
                    self.acknowledged = self.tried
                else:
                    self.refusals.add(code)
                    self._stop.wait(0.01)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


# One daemon


def test_groups_and_offsets_survive_a_kill_of_the_daemon(daemon: Daemon) -> None:
    with WireClient(daemon.host, daemon.port) as client:
        for offset in range(1, 30):
            assert commit(client, offset) == NONE
    reader = RawMember(daemon, "readers", "first", {})
    with reader.client:
        assert reader.join(["later"])["error_code"] == NONE
    daemon.kill()
    daemon.restart()
    with WireClient(daemon.host, daemon.port) as client:
        assert committed(client) == 29
        assert members(daemon, "readers") == ["first"]
    assert not daemon.data_dir.exists(), "nothing is stored beside the database"


@pytest.mark.crash
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_server_that_goes_under_load_and_comes_back(
    server: PostgresServer, daemon: Daemon, end: str
) -> None:
    load = [Committer(daemon, f"group-{number}") for number in range(4)]
    wait_until(lambda: all(part.acknowledged > 5 for part in load), RECOVERY_S, "first commits")
    server.stop() if end == "stop" else server.kill()
    wait_until(lambda: all(part.refusals for part in load), RECOVERY_S, "refusals", daemon.logs)
    before = [part.acknowledged for part in load]
    server.start()
    wait_until(
        lambda: all(part.acknowledged > old for part, old in zip(load, before, strict=True)),
        RECOVERY_S,
        "commits are taken again",
        daemon.logs,
    )
    for part in load:
        part.stop()
        assert part.refusals <= RETRIABLE
    assert "the store refuses writes" in daemon.logs()
    daemon.kill()
    daemon.restart()
    with WireClient(daemon.host, daemon.port) as client:
        for part in load:
            assert part.acknowledged <= committed(client, part.group) <= part.tried
    daemon.stop()


def test_a_stop_while_the_server_is_away(server: PostgresServer, daemon: Daemon) -> None:
    server.stop()
    try:
        with WireClient(daemon.host, daemon.port) as client:
            assert commit(client, 1) in RETRIABLE
        daemon.stop()
    finally:
        server.start()


# Two daemons


def test_a_second_daemon_is_refused_and_takes_over_once_the_first_is_gone(
    daemon: Daemon, make_daemon: MakeDaemon
) -> None:
    with WireClient(daemon.host, daemon.port) as client:
        commit_until(client, 7)
    second = make_daemon()
    with pytest.raises(AssertionError, match="no ready line"):
        second.start()
    assert second.process.wait_exit(5) == USAGE
    (line,) = second.process.stderr().splitlines()
    assert "in use by another groupd (groupd " in line
    assert f" {daemon.pid} at 127.0.0.1)" in line
    daemon.kill()
    second.process.close()
    second.start()
    with WireClient(second.host, second.port) as client:
        assert committed(client) == 7
        commit_until(client, 8)


def test_a_daemon_that_lost_the_database_stops(
    server: PostgresServer, database: str, daemon: Daemon, make_daemon: MakeDaemon
) -> None:
    """Its session ends while a second daemon already waits for the lock."""
    second = make_daemon()
    starting = threading.Thread(target=second.start)
    starting.start()
    waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    wait_until(lambda: server.execute(database, waiting), RECOVERY_S, "the second waits")
    server.execute(
        database,
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted",
    )
    starting.join()
    assert daemon.process.wait_exit(RECOVERY_S) == 1
    last = daemon.process.stderr().splitlines()[-1]
    assert last.endswith("another groupd has taken the database over: stopped")
    with WireClient(second.host, second.port) as client:
        commit_until(client, 1)
    second.stop()


# What is shown


def test_the_password_is_shown_nowhere(
    server: PostgresServer, database: str, daemon: Daemon
) -> None:
    with urllib.request.urlopen(daemon.admin_url + "/config", timeout=5) as answer:
        shown = answer.read().decode()
    assert json.loads(shown)["options"]["store"] == "postgresql+asyncpg"
    server.execute(database, "ALTER TABLE log_batch RENAME TO away")
    with WireClient(daemon.host, daemon.port) as client:
        assert commit(client, 1) in RETRIABLE
    log = daemon.process.stderr()
    assert "the server has refused (UndefinedTableError, SQLSTATE 42P01)" in log
    for secret in (PASSWORD, quote(PASSWORD, safe="")):
        assert secret not in shown
        assert secret not in log


def test_a_wrong_password_from_the_environment(
    server: PostgresServer, database: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "groupd", "serve", "--listen", "127.0.0.1:0"]
    command += ["--admin", "127.0.0.1:0", "--data-dir", str(tmp_path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=30,
        cwd=ROOT,
        env={"GROUPD_STORE": server.url(database, password="secret"), "PATH": ""},
        check=False,
    )
    assert done.returncode == USAGE
    (line,) = done.stderr.splitlines()
    assert "password authentication failed" in line
    assert "secret" not in line
