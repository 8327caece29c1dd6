"""Three brokers of Apache Kafka, each also a controller, with Kafka's defaults for what matters:
the session of a broker ends after 9 s without a heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.bench.cluster.client import Connection, find_coordinator, found_coordinator
from tests.bench.cluster.death import GROUPS_OF_A_NODE, times
from tests.bench.cluster.nodes import TOPIC, Address
from tests.support.admin import create_topics, wait_for_broker
from tests.support.kafka_broker import BASE, LOG_FLAGS, free_port
from tests.support.process import ChildProcess, wait_until
from tests.support.toolchain import java, oracle_classpath

BROKERS = 3
CLUSTER_ID = "groupd-bench-cluster-0"
JVM_FLAGS = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
START_S = 180.0
SETTINGS = {
    **BASE,
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "2000",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "3",
    "default.replication.factor": "3",
}


class KafkaCluster:
    """`brokers`: the processes; `addresses`: theirs, in the same order."""

    def __init__(self, directory: Path) -> None:
        self.brokers: list[ChildProcess] = []
        self._directory = directory
        self._ports = [free_port() for _ in range(2 * BROKERS)]

    @property
    def addresses(self) -> Sequence[Address]:
        return [("127.0.0.1", port) for port in self._ports[:BROKERS]]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    def start(self) -> None:
        for number in range(BROKERS):
            self._format(number)
        self.brokers = [self._launch(number) for number in range(BROKERS)]
        for (host, port), broker in zip(self.addresses, self.brokers, strict=True):
            wait_for_broker(f"{host}:{port}", broker, START_S)
        create_topics(self.bootstrap, {TOPIC: 10})

    def _java(self, main: str, *arguments: str) -> list[str]:
        return [java(), *JVM_FLAGS, *LOG_FLAGS, "-cp", oracle_classpath(), main, *arguments]

    def _format(self, number: int) -> None:
        listeners = (
            f"PLAINTEXT://127.0.0.1:{self._ports[number]},"
            f"CONTROLLER://127.0.0.1:{self._ports[BROKERS + number]}"
        )
        voters = (f"{n + 1}@127.0.0.1:{self._ports[BROKERS + n]}" for n in range(BROKERS))
        values = {
            **SETTINGS,
            "node.id": str(number + 1),
            "listeners": listeners,
            "advertised.listeners": listeners.partition(",")[0],
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self._directory / f"data-{number}"),
        }
        path = self._properties(number)
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        command = self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(path))
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr

    def _properties(self, number: int) -> Path:
        return self._directory / f"server-{number}.properties"

    def _launch(self, number: int) -> ChildProcess:
        return ChildProcess(
            self._java("kafka.Kafka", str(self._properties(number))),
            stderr_path=self._directory / f"kafka-{number}.log",
        )

    def kill(self, number: int) -> float:
        self.brokers[number].send_signal(signal.SIGKILL)
        self.brokers[number].popen.wait()
        return time.perf_counter()

    def restart(self, number: int) -> None:
        """Start it again, and wait until it is back among the leaders."""
        self.brokers[number].close()
        self.brokers[number] = self._launch(number)
        host, port = self.addresses[number]
        wait_for_broker(f"{host}:{port}", self.brokers[number], START_S)

    async def groups_of(self, number: int) -> list[str]:
        """Groups of which that broker is the coordinator."""
        found: list[str] = []
        connection, address = Connection(), self.addresses[number]
        for at in range(1000):
            group = f"bench-{at}"
            reply = await connection.ask(address, find_coordinator(group))
            if found_coordinator(reply) == address:
                found.append(group)
            if len(found) == GROUPS_OF_A_NODE:
                break
        connection.close()
        return found

    def close(self) -> None:
        for broker in self.brokers:
            broker.close()


@contextlib.contextmanager
def running_kafka() -> Iterator[KafkaCluster]:
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        cluster = KafkaCluster(Path(directory))
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.close()


def deaths(runs: int) -> tuple[list[float], list[float]]:
    """As for groupd: seconds to the first commit of the first group, and of the last one."""
    firsts, lasts = [], []
    with running_kafka() as cluster:
        for run in range(runs):
            number, groups = _coordinator(cluster, run % BROKERS)
            first, last = times(groups, cluster.addresses, partial(cluster.kill, number))
            firsts.append(first)
            lasts.append(last)
            cluster.restart(number)
    return firsts, lasts


def _coordinator(cluster: KafkaCluster, first: int) -> tuple[int, list[str]]:
    """A broker that coordinates enough groups, and these. Leadership comes back to a broker that is
    back, but not at once."""
    found: list[tuple[int, list[str]]] = []

    def known() -> bool:
        for number in ((first + more) % BROKERS for more in range(BROKERS)):
            groups = asyncio.run(cluster.groups_of(number))
            if len(groups) == GROUPS_OF_A_NODE:
                found.append((number, groups))
                return True
        return False

    wait_until(known, START_S, "groups of a broker")
    return found[-1]
