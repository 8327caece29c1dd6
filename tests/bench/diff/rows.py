"""The fixed list of rows. Nearly all of it is measured as the benchmark suite measures it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.bench import frames
from tests.bench.counts.rows import JOINS, RECORDS, ROWS, count, read_frame, write_frame
from tests.bench.diff.table import Measured
from tests.bench.figures import interleaved
from tests.bench.load import workloads
from tests.bench.load.generator import once
from tests.bench.load.measure import FAILURES, Running
from tests.bench.load.measure import Measured as SteadyLoad
from tests.bench.load.members import check_error
from tests.bench.load.workloads import TOPICS, Load
from tests.bench.peers.processes import GROUPD, GROUPD_BEFORE, Peer, running
from tests.bench.plan import Plan
from tests.bench.recovery.probe import OFFSET, wait_for_offsets
from tests.bench.recovery.restart import CONNECTIONS, PARTITIONS, TOPIC
from tests.bench.security import variants
from tests.bench.storm.members import StormFailed
from tests.bench.storm.workloads import Case
from tests.bench.storm.workloads import Measured as JoinStorm
from tests.support.raw import FrameSocket

PEERS = (GROUPD_BEFORE, GROUPD)
CANNOT = (*FAILURES, StormFailed, LookupError)
COMMITS = ((1, 100), (10, 100), (100, 10))
DURABLE_COMMITS = ((1, 100), (100, 10))
"""(partitions, connections)."""
FETCH_ERROR_AT = 4 + 4 + 2 + len(TOPIC) + 4 + 4
"""In a reply to Fetch v4: throttle time, topics, the topic's name, partitions, the partition."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: all rows take about ten minutes. `quick`: only to see that it works."""

    runs: int = 5
    seconds: float = 2.0
    quick: bool = False

    def __post_init__(self) -> None:
        if self.quick:
            object.__setattr__(self, "runs", 1)
            object.__setattr__(self, "seconds", 0.3)

    def of(self, usual: int) -> int:
        return min(usual, 20) if self.quick else usual


@dataclass(frozen=True, slots=True)
class Row:
    """`cost(peer)`: the processor time of one run on a fresh daemon, in `unit`. Raises one of
    CANNOT. `counted`: the row of `tests.bench.counts`."""

    name: str
    unit: str
    cost: Callable[[str], float]
    counted: str = ""

    def measured(self, runs: int, tree: Path) -> Measured:
        """Old and new in turn. `tree`: the old one."""
        notes: dict[str, str] = {}
        samples = interleaved(runs, PEERS, self.cost, notes, CANNOT)
        old, new = (samples[peer] for peer in PEERS)
        calls = (self._calls(tree), self._calls(None)) if self.counted else None
        return Measured(self.name, self.unit, old, new, calls, "; ".join(notes.values()))

    def _calls(self, tree: Path | None) -> int | None:
        (row,) = (row for row in (*ROWS, *JOINS) if row.name == self.counted)
        try:
            return count([row], tree)[row.name].own
        except CANNOT:
            return None


def rows(sizes: Sizes) -> Iterator[Row]:
    yield _steady(_heartbeats(sizes), sizes, "heartbeat")
    for partitions, connections in COMMITS:
        commit = workloads.commit(partitions, sizes.of(connections), durable=False)
        yield _steady(commit, sizes, f"commit-{partitions}")
    for partitions, connections in DURABLE_COMMITS:
        commit = workloads.commit(partitions, sizes.of(connections), durable=True)
        yield _steady(commit, sizes, f"commit-{partitions}-sqlite")
    (fetch,) = workloads.fetches(_plan(sizes))
    yield _steady(fetch, sizes, "offset-fetch-10")
    yield _steady(_fetch_of_records(sizes), sizes, "fetch-records")
    yield Row(
        f"Produce of {RECORDS} records", "us a request", partial(_produce, sizes), "produce-records"
    )
    for interval_ms, counted in ((0, "join"), (None, "join-classic")):
        case = Case(sizes.of(1_000), interval_ms, 0)
        name = f"Join of {case.members:,}, {case.protocol} protocol"
        yield Row(name, "us a member", partial(_join, case, sizes), counted)
    yield _steady(_heartbeats(sizes), sizes, "", "TLS")
    commit = workloads.commit(1, sizes.of(100), durable=False)
    yield _steady(commit, sizes, "commit-1-acls", "10,000 ACLs")
    groups = sizes.of(1_000)
    with tempfile.TemporaryDirectory(prefix="groupd-diff-") as filled:
        name = f"Recovery of {groups * PARTITIONS:,} offsets"
        yield Row(name, "us an offset", partial(_recovery, Path(filled), groups))
    yield Row("Start", "ms", _start)


def _plan(sizes: Sizes) -> Plan:
    return Plan(sizes.runs, sizes.seconds, quick=sizes.quick)


def _heartbeats(sizes: Sizes) -> Load:
    """Heartbeats of the consumer protocol over few connections, one in flight where it is not the
    quick size."""
    return min(workloads.consumer_heartbeats(_plan(sizes)), key=lambda one: one.connections)


def _steady(load: Load, sizes: Sizes, counted: str, variant: str = "") -> Row:
    """`variant`: of security, see `variants.start`."""
    suffix = f", {variant}" if variant else ""
    start: Running = variants.start if variant else running

    def cost(peer: str) -> float:
        steady = SteadyLoad(load, _plan(sizes), start)
        steady.run(peer + suffix)
        ((result,),) = steady.results.values()
        return result.peer_cpu_us

    name = load.name.replace("Steady heartbeats, consumer protocol", "Heartbeats")
    return Row(name.replace(", 1 in flight", "") + suffix, "us a request", cost, counted)


def _fetch_of_records(sizes: Sizes) -> Load:
    def prepare(peer: Peer, connections: int) -> list[bytes]:
        with FrameSocket(peer.port, peer.host) as client:
            return [read_frame(client)] * connections

    connections = sizes.of(100)
    name = f"Fetch of {RECORDS} records, {connections} connections"
    return Load(name, prepare, partial(check_error, at=FETCH_ERROR_AT), connections)


@contextmanager
def _fresh(name: str) -> Iterator[Peer]:
    """A daemon in memory, without anything."""
    with (
        tempfile.TemporaryDirectory(prefix="groupd-diff-") as directory,
        running(name, Path(directory), TOPICS, durable=False) as peer,
    ):
        yield peer


def _produce(sizes: Sizes, name: str) -> float:
    count = sizes.of(5_000)
    with _fresh(name) as peer:
        with FrameSocket(peer.port, peer.host) as client:
            asked = [write_frame(client)] * count
        before_s = peer.cpu_seconds()
        once(peer.address, asked, CONNECTIONS)
        return (peer.cpu_seconds() - before_s) / count * 1e6


def _join(case: Case, sizes: Sizes, name: str) -> float:
    storm = JoinStorm(case, 0 if sizes.quick else 200)
    storm.run(name)
    return storm.cpu_ms[name][0] / case.members * 1000


def _recovery(filled: Path, groups: int, name: str) -> float:
    """Fills the store of each tree by its own daemon, once; then the start on a copy."""
    topics = {TOPIC: PARTITIONS}
    made = filled / name
    if not made.is_dir():
        with running(name, made, topics, durable=True) as peer:
            commits = [
                frames.offset_commit(f"bench-{n}", TOPIC, PARTITIONS, OFFSET) for n in range(groups)
            ]
            once(peer.address, commits, CONNECTIONS)
    with tempfile.TemporaryDirectory(prefix="groupd-diff-") as directory:
        path = Path(directory) / "run"
        shutil.copytree(made, path)
        with running(name, path, topics, durable=True) as peer:
            for number in range(0, groups, max(groups // 10, 1)):
                wait_for_offsets(peer, f"bench-{number}", TOPIC, PARTITIONS)
            return peer.cpu_seconds() / (groups * PARTITIONS) * 1e6


def _start(name: str) -> float:
    """A second start: the first one may compile the tree."""
    for _ in range(2):
        with _fresh(name) as peer:
            used_s = peer.cpu_seconds()
    return used_s * 1000
