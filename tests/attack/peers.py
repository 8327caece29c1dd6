"""Brokers to attack: groupd with any store and number of nodes, Apache Kafka, kfake. Each fresh,
with the same short sessions, and otherwise at its defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import msgspec

from tests.attack import doors
from tests.attack.doors import limit
from tests.attack.honest_clients import PARTITIONS, SESSION_MS, TOPIC
from tests.attack.victim import Kind, Victim
from tests.bench.peers.embedded import kfake_command
from tests.bench.peers.lines import LineProcess
from tests.support.cluster import ClusterOfDaemons
from tests.support.daemon import Daemon
from tests.support.kafka_broker import KAFKA_JVM_FLAGS, KafkaBroker
from tests.support.metrics import total
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.sasl_client import add_users
from tests.support.toolchain import oracle_classpath

TOPICS = {TOPIC: PARTITIONS}
SETTINGS: Mapping[str, str] = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(SESSION_MS),
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


class Setup(msgspec.Struct, frozen=True):
    """`store` and `nodes` are groupd's; with several nodes it is a cluster, which needs PostgreSQL.
    `settings` go over `SETTINGS`; `watched`: groupd notes what keeps its loop busy, on the standard
    loop of asyncio."""

    kind: Kind = "groupd"
    store: str = "sqlite"
    settings: dict[str, str] = {}
    watched: bool = False
    nodes: int = 1

    @property
    def name(self) -> str:
        if self.kind != "groupd":
            return {"kafka": "Apache Kafka", "kfake": "kfake"}[self.kind]
        parts = ["groupd"]
        if self.nodes > 1:
            parts.append(f"{self.nodes} nodes")
        if self.store == "postgres":
            parts.append("PostgreSQL")
        return ", ".join(parts)


class Running:
    """A broker under attack: `victim`, whether it still runs, what it has logged, and what has kept
    its loop busy. `cluster`: if it is one."""

    def __init__(
        self,
        victim: Victim,
        alive: Callable[[], bool],
        logs: Sequence[Path] = (),
        work: Path | None = None,
        cluster: ClusterOfDaemons | None = None,
    ) -> None:
        self.victim = victim
        self.alive = alive
        self._logs = logs
        self._work = work
        self._cluster = cluster

    def logged_bytes(self) -> int:
        return sum(log.stat().st_size for log in self._logs if log.exists())

    def leases(self) -> dict[str, object]:
        """Who owns what in the cluster, as every node sees it, and how often each was fenced; empty
        if it is none. An error of a node stands in its place."""
        found: dict[str, object] = {}
        for number, daemon in enumerate(self._cluster.daemons if self._cluster is not None else ()):
            try:
                page = self._cluster.page(daemon) if self._cluster is not None else {}
                fenced = total(daemon.admin_url, "groupd_cluster_fenced_total")
            except OSError as error:
                found[f"node {number}"] = repr(error)
                continue
            found[f"node {number} was fenced"] = fenced
            for unit in page["units"]:
                name = f"{unit['kind']} {unit['number']} for node {number}"
                found[name] = unit["owner"], unit["epoch"]
        return found

    def pieces(self, since: float) -> list[tuple[float, float, str]]:
        """(when, milliseconds of processor, what) of long pieces of work in one go since then,
        the longest first."""
        if self._work is None:
            return []
        lines = (line.split(" ", 2) for line in self._work.read_text().splitlines())
        found = [(float(at), float(ms), what) for at, ms, what in lines if float(at) >= since]
        return sorted(found, key=lambda piece: -piece[1])


class WatchedDaemon(Daemon):
    """Notes what keeps its loop busy."""

    @property
    def work(self) -> Path:
        return self.directory / "work"

    def command(self) -> list[str]:
        command = super().command()
        command[command.index("groupd") : command.index("serve")] = [
            "tests.bench.stalls.watched",
            str(self.work),
        ]
        return command


Stores = Callable[[], list[str]]


@contextmanager
def store(name: str) -> Iterator[Stores]:
    """The flags of an empty store, for each start of groupd anew."""
    servers: AbstractContextManager[PostgresServer | None] = (
        running_postgres() if name == "postgres" else nullcontext()
    )
    with servers as server:
        yield lambda: [] if server is None else ["--store", server.url(server.new_database())]


@contextmanager
def running(setup: Setup, directory: Path, stores: Stores) -> Iterator[Running]:
    """A fresh broker in an empty directory. Raises AssertionError or RuntimeError if it does not
    start."""
    directory.mkdir(parents=True, exist_ok=True)
    settings = {**SETTINGS, **setup.settings}
    with ExitStack() as stack:
        if setup.kind == "kfake":
            yield _kfake(stack, settings)
        elif setup.kind == "kafka":
            yield _kafka(stack, directory, settings)
        else:
            yield _groupd(stack, directory, settings, setup, stores())


def _groupd(
    stack: ExitStack, directory: Path, settings: Mapping[str, str], setup: Setup, flags: list[str]
) -> Running:
    flags = [*flags, "--log-level", "warning"]
    settings = {**doors.attacked(directory / "keys"), **settings}
    if setup.nodes > 1:
        return _cluster(stack, directory, settings, setup, flags)
    daemon = (WatchedDaemon if setup.watched else Daemon)(
        directory, topics=TOPICS, settings=settings, arguments=flags
    )
    stack.callback(daemon.close)
    daemon.start()
    add_users(daemon)
    limit(daemon)
    victim = Victim("groupd", ((daemon.host, daemon.port),), (daemon.pid,), daemon.admin_port)
    victim = _with_doors(victim, directory, [daemon])
    work = daemon.work if isinstance(daemon, WatchedDaemon) else None
    return Running(victim, lambda: daemon.process.running, [directory / "groupd.log"], work)


def _cluster(
    stack: ExitStack, directory: Path, settings: Mapping[str, str], setup: Setup, flags: list[str]
) -> Running:
    cluster = ClusterOfDaemons(
        directory, "", count=setup.nodes, topics=TOPICS, settings=settings, arguments=flags
    )
    stack.callback(cluster.close)
    cluster.start()
    add_users(cluster.daemons[0])
    limit(cluster.daemons[0])
    nodes = tuple((one.host, one.port) for one in cluster.daemons)
    pids = tuple(one.pid for one in cluster.daemons)
    victim = Victim("groupd", nodes, pids, cluster.daemons[0].admin_port)
    return Running(
        _with_doors(victim, directory, cluster.daemons),
        lambda: all(one.process.running for one in cluster.daemons),
        [one.directory / "groupd.log" for one in cluster.daemons],
        cluster=cluster,
    )


def _with_doors(victim: Victim, directory: Path, daemons: Sequence[Daemon]) -> Victim:
    return msgspec.structs.replace(
        victim,
        doors=doors.doors(daemons),
        ca=str(directory / "keys" / "ca.pem"),
        tokens=doors.tokens(),
        admin_token=doors.ADMIN_TOKEN,
    )


def _kafka(stack: ExitStack, directory: Path, settings: Mapping[str, str]) -> Running:
    oracle_classpath()
    broker = KafkaBroker(directory, topics=TOPICS, settings=settings, jvm_flags=KAFKA_JVM_FLAGS)
    stack.callback(broker.close)
    broker.start()
    victim = Victim("kafka", ((broker.host, broker.port),), (broker.pid,))
    return Running(victim, lambda: broker.process.running, [directory / "kafka.log"])


def _kfake(stack: ExitStack, settings: Mapping[str, str]) -> Running:
    command = kfake_command(TOPICS)
    # The last one of a key counts.
    process = LineProcess([*command, *(f"-set={key}={value}" for key, value in settings.items())])
    stack.callback(process.close)
    host, _, port = process.ask("start").split()[1].rpartition(":")
    victim = Victim("kfake", ((host, int(port)),), (process.pid,))
    return Running(victim, lambda: process.running)
