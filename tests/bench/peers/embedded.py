"""Brokers that come and go inside a running test program.

Each kind gives out brokers with a `bootstrap` address; `resident_bytes` is what the process takes
in which they live. The same topics, no initial delay and heartbeats every 50 ms everywhere, where
the peer knows such a setting.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from groupd.testing.harness import GroupCoordinator
from tests.bench.peers.lines import LineProcess
from tests.bench.peers.mock_cluster import MockCluster
from tests.bench.proc import resident_bytes

HEARTBEAT_MS = 50
KFAKE = Path(__file__).parent / "kfake" / "target" / "kfake"


class Broker(Protocol):
    @property
    def bootstrap(self) -> str: ...
    def close(self) -> None: ...


class Kind(Protocol):
    """`name`; `where`: what has to run before one can be had."""

    name: str
    where: str

    def start(self) -> Broker: ...
    def resident_bytes(self) -> int: ...
    def close(self) -> None: ...


class Groupd:
    """`GroupCoordinator.start`, on a thread of this process."""

    name = "groupd"
    where = "in the Python process"

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._topics = topics

    def start(self) -> Broker:
        return _Groupd(GroupCoordinator.start(topics=self._topics))

    def resident_bytes(self) -> int:
        gc.collect()
        return resident_bytes(os.getpid())

    def close(self) -> None:
        """Nothing outlives its brokers."""


class _Groupd:
    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        self.bootstrap = coordinator.bootstrap_servers

    def close(self) -> None:
        self._coordinator.close()


class LibrdkafkaMock:
    """`rd_kafka_mock_cluster_new`, on threads of this process."""

    name = "librdkafka mock"
    where = "in the Python process"

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._topics = topics

    def start(self) -> Broker:
        return MockCluster(self._topics, heartbeat_ms=HEARTBEAT_MS)

    def resident_bytes(self) -> int:
        gc.collect()
        return resident_bytes(os.getpid())

    def close(self) -> None:
        """Nothing outlives its brokers."""


class Kfake:
    """Clusters of one Go process that runs all the time, as in a Go test, plus a pipe."""

    name = "kfake"
    where = "in a Go process that runs already"

    def __init__(self, topics: Mapping[str, int]) -> None:
        command = kfake_command(topics)
        self._process = LineProcess(command)

    def start(self) -> Broker:
        number, bootstrap = self._process.ask("start").split()
        return _Kfake(self._process, number, bootstrap)

    def resident_bytes(self) -> int:
        self._process.ask("collect")
        return resident_bytes(self._process.pid)

    def close(self) -> None:
        self._process.close()


class _Kfake:
    def __init__(self, process: LineProcess, number: str, bootstrap: str) -> None:
        self._process = process
        self._number = number
        self.bootstrap = bootstrap

    def close(self) -> None:
        self._process.ask(f"stop {self._number}")


class KfakeProcess:
    """A Go process for every broker: what a test in Python would have to do."""

    name = "kfake, a process each"
    where = "a new process each"

    def __init__(self, topics: Mapping[str, int]) -> None:
        self._topics = topics
        self._running: list[LineProcess] = []

    def start(self) -> Broker:
        process = LineProcess(kfake_command(self._topics))
        self._running.append(process)
        return _KfakeProcess(process, self._running, process.ask("start").split()[1])

    def resident_bytes(self) -> int:
        for process in self._running:
            process.ask("collect")
        return sum(resident_bytes(process.pid) for process in self._running)

    def close(self) -> None:
        """Nothing outlives its brokers."""


class _KfakeProcess:
    def __init__(self, process: LineProcess, running: list[LineProcess], bootstrap: str) -> None:
        self._process = process
        self._running = running
        self.bootstrap = bootstrap

    def close(self) -> None:
        self._running.remove(self._process)
        self._process.close()


def kfake_command(topics: Mapping[str, int]) -> list[str]:
    if not KFAKE.is_file():
        raise RuntimeError("kfake is not built: run `make bench-peers`")
    named = [f"-topic={name}:{partitions}" for name, partitions in topics.items()]
    return [str(KFAKE), *named, f"-set=group.consumer.heartbeat.interval.ms={HEARTBEAT_MS}"]


KINDS: tuple[type[Groupd | LibrdkafkaMock | Kfake | KfakeProcess], ...] = (
    Groupd,
    LibrdkafkaMock,
    Kfake,
    KfakeProcess,
)
