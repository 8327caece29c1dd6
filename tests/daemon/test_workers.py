"""`serve --workers`: nodes of a cluster as one command. What becomes of clients when one of them
dies, when all are stopped, and when there is another number of them on the same data."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.admin import REQUEST_TIMEOUT_S, committed, end_offsets, produce, retrying
from tests.support.daemon import Daemon, refused
from tests.support.peer import FAST_SETTINGS
from tests.support.ports import free_ports
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.raw_member import admin_json

TOPIC = {"orders": 4}
GROUPS = [f"group-{number}" for number in range(8)]
NODES_MAX = 3
WAIT_S = 30.0
REFUSAL_S = 60.0
USAGE = 2

MakeDaemon = Callable[[int], Daemon]


@pytest.fixture
def make_daemon(tmp_path: Path, postgres: PostgresServer) -> Iterator[MakeDaemon]:
    """Daemons with so many nodes, one after the other on the same data."""
    env = {"GROUPD_STORE": postgres.url(postgres.emptied_database())}
    made: list[Daemon] = []

    def make(nodes: int) -> Daemon:
        arguments = ["--workers", str(nodes)]
        daemon = Daemon(
            tmp_path, topics=TOPIC, settings=FAST_SETTINGS, arguments=arguments, env=env
        )
        daemon.port = free_ports(daemon.host, NODES_MAX)
        made.append(daemon)
        return daemon

    yield make
    for daemon in made:
        daemon.close()


def children(daemon: Daemon) -> list[int]:
    found = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
    return [int(one) for one in found]


def alive(pid: int) -> bool:
    """Whether the process runs: a zombie that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def owners(daemon: Daemon) -> set[int | None]:
    """The nodes that have something to serve; None among them: somebody is waited for."""
    return {unit["owner"] for unit in admin_json(daemon, "/cluster")["units"]}


def coordinators(daemon: Daemon) -> set[int]:
    """The nodes that coordinate the groups of these tests, which are there."""
    client = AdminClient({"bootstrap.servers": daemon.bootstrap, "log_level": 0})
    listed = client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
    assert listed.errors == []
    assert {one.group_id for one in listed.valid} >= set(GROUPS)
    shown = client.describe_consumer_groups(GROUPS, request_timeout=REQUEST_TIMEOUT_S)
    return {future.result().coordinator.id for future in shown.values()}


def commit(daemon: Daemon, group: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, "group.id": group, "log_level": 0})
    places = [TopicPartition("orders", number, offset) for number in range(4)]
    retrying(lambda: consumer.commit(offsets=places, asynchronous=False))
    consumer.close()


@pytest.mark.parametrize(
    "store", [[], ["--store", "sqlite:///groupd.sqlite"], ["--store", "memory://"]]
)
def test_one_process_has_a_store_in_sqlite_or_in_memory(tmp_path: Path, store: list[str]) -> None:
    line = refused(["--workers", "2", "--listen", "127.0.0.1:0", *store], tmp_path)
    assert line == (
        "groupd: --workers 2: a store in SQLite or in memory serves one process; several nodes "
        "need --store postgresql+asyncpg://..., which they share"
    )
    assert list(tmp_path.iterdir()) == [], "nothing is made"


def test_the_store_of_the_environment_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUPD_STORE", "memory://")
    assert "--workers 2: a store" in refused(["--workers", "2"], tmp_path)


@pytest.mark.crash
def test_clients_go_on_when_a_node_is_killed_and_it_is_started_again(
    make_daemon: MakeDaemon,
) -> None:
    daemon = make_daemon(2)
    daemon.start()
    assert owners(daemon) == {0, 1}
    for group in GROUPS:
        commit(daemon, group, 1)
    assert coordinators(daemon) == {0, 1}
    settings = {"group.id": "readers", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, **settings})
    consumer.subscribe(list(TOPIC))
    places = produce(daemon.bootstrap, TOPIC, 200)
    seen: set[tuple[str, int, int]] = set()

    def read() -> bool:
        for message in consumer.consume(500, timeout=0.5):
            assert message.error() is None or message.error().retriable(), message.error()
            if message.error() is None:
                seen.add((message.topic(), message.partition(), message.offset()))
        return seen >= places

    wait_until(read, WAIT_S, "all records", daemon.logs)
    (killed,) = children(daemon)
    os.kill(killed, signal.SIGKILL)
    places |= produce(daemon.bootstrap, TOPIC, 200)
    wait_until(read, WAIT_S, "the records of afterwards", daemon.logs)
    retrying(lambda: consumer.commit(asynchronous=False))
    consumer.close()
    wait_until(
        lambda: killed not in children(daemon) and owners(daemon) == {0, 1},
        WAIT_S,
        "another process, with its share",
        daemon.logs,
    )
    assert len(children(daemon)) == 1
    assert "a node has ended: it is started again" in daemon.logs()
    ends = end_offsets(daemon.bootstrap, TOPIC)
    assert sum(ends.values()) == 400
    assert committed(daemon.bootstrap, "readers", TOPIC) == ends
    assert coordinators(daemon) == {0, 1}
    daemon.stop()


@pytest.mark.parametrize("whom", ["the first process", "all of them"])
def test_a_stop_is_orderly_and_leaves_nobody(make_daemon: MakeDaemon, whom: str) -> None:
    """Terminals and service managers send the signal to all processes."""
    daemon = make_daemon(3)
    daemon.start()
    pids = children(daemon)
    assert len(pids) == 2
    for pid in pids if whom == "all of them" else ():
        os.kill(pid, signal.SIGTERM)
    daemon.stop()
    assert not any(map(alive, pids))
    assert "Traceback" not in daemon.process.stderr()


@pytest.mark.crash
def test_a_first_node_that_is_killed_takes_the_others_along(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(2)
    daemon.start()
    for number, group in enumerate(GROUPS):
        commit(daemon, group, 10 + number)
    pids = children(daemon)
    daemon.kill()
    wait_until(lambda: not any(map(alive, pids)), WAIT_S, "the end of the others", daemon.logs)
    again = make_daemon(2)
    again.start()
    for number, group in enumerate(GROUPS):
        assert set(committed(again.bootstrap, group, TOPIC).values()) == {10 + number}
    again.stop()


def test_another_number_of_nodes_finds_all_data(make_daemon: MakeDaemon) -> None:
    for round_number, nodes in enumerate((2, 3, 1, 2)):
        daemon = make_daemon(nodes)
        daemon.start()
        for group in GROUPS:
            if round_number:
                found = committed(daemon.bootstrap, group, TOPIC)
                assert set(found.values()) == {round_number}
            commit(daemon, group, round_number + 1)
        assert len(coordinators(daemon)) == nodes
        daemon.stop()


def test_a_node_that_cannot_start_ends_the_start(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(2)
    with socket.socket() as other:
        other.bind((daemon.host, daemon.port + 1))
        other.listen()
        daemon.launch()
        assert daemon.process.wait_exit(REFUSAL_S) == USAGE
    *above, last = daemon.process.stderr().splitlines()
    assert any("the port is in use" in line for line in above)
    assert last == "groupd: --workers: a further node cannot start, see its line above"
