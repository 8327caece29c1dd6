"""(g): a start with many offsets and members in the log, until all of them are served.

groupd's log is written past it (`tests.bench.fill`), as a day of commits and a calm end
leave it: offsets in many groups, members with their three records each. `3x` has every offset
committed three times. Peers get offsets through the protocol and are restarted; they have one
`__consumer_offsets` partition (Apache Kafka) or none, no members (their sessions would end while
others join), and fewer offsets where filling takes long, so the unit is microseconds an offset.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench import frames
from tests.bench.daemon_process import DaemonProcess
from tests.bench.figures import Workload, interleaved
from tests.bench.fill import OFFSETS_PER_GROUP, fill
from tests.bench.load.generator import once
from tests.bench.peers.processes import NoPeer, running
from tests.bench.plan import Plan
from tests.bench.proc import memory
from tests.bench.recovery.probe import (
    OFFSET,
    longest_stall_ms,
    wait_for_offsets,
)

TOPIC = "bench"
PARTITIONS = 100
CONNECTIONS = 50
READY_S = 600
GROUPD = "groupd"
DURABLE = ("groupd", "Apache Kafka", "kfake")
CLEANER_RESTS = ("--set", "log.cleaner.backoff.ms=600000")
"""The cleaner does not run: what is measured is the load, not what it does after it."""


def measure(plan: Plan) -> Iterator[Workload]:
    offsets, members = (5_000, 500) if plan.quick else (1_000_000, 100_000)
    runs = 1 if plan.quick else plan.runs
    if plan.among([GROUPD]):
        for laps, name in ((1, "as a clean log"), (3, "each committed 3 times")):
            of = f"{offsets:,} offsets and {members:,} members, {name}"
            if not plan.wants(f"Start with {of}"):
                continue
            with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
                made = Path(directory) / "made"
                asyncio.run(fill(made, None, offsets, offsets * laps, members))
                yield from _starts(of, made, runs)
    groups = 50 if plan.quick else 1000
    name = f"Restart with {groups * PARTITIONS:,} offsets committed through the protocol"
    if not plan.wants(name):
        return
    notes: dict[str, str] = {}

    def restart(name: str) -> float:
        return _restart(name, groups)

    restarts = interleaved(runs, plan.among(DURABLE), restart, notes, (NoPeer,))
    yield Workload(name, "us an offset", restarts, notes)


def _starts(name: str, made: Path, runs: int) -> Iterator[Workload]:
    seconds, cpu, stalls, resident = [], [], [], []
    for _ in range(runs):
        path = made.parent / "run"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        shutil.copytree(made, path / "data")
        began = time.perf_counter()
        daemon = DaemonProcess(*CLEANER_RESTS, data_dir=path, ready_timeout_s=READY_S)
        with daemon:
            seconds.append(time.perf_counter() - began)
            cpu.append(daemon.cpu_seconds())
            resident.append(memory(daemon.pid)[1] / 1e6)
            stalls.append(longest_stall_ms(*daemon.admin))
    yield Workload(f"Start with {name}", "s", {GROUPD: seconds})
    yield Workload(f"CPU time of the same: {name}", "s", {GROUPD: cpu})
    yield Workload(f"Longest stall of the event loop meanwhile: {name}", "ms", {GROUPD: stalls})
    yield Workload(f"Memory after it, proportional: {name}", "MB", {GROUPD: resident})


def _restart(name: str, groups: int) -> float:
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        path, topics = Path(directory), {TOPIC: PARTITIONS}
        with running(name, path, topics, durable=True) as peer:
            commits = [
                frames.offset_commit(f"bench-{n}", TOPIC, PARTITIONS, OFFSET) for n in range(groups)
            ]
            once(peer.address, commits, CONNECTIONS)
        began = time.perf_counter()
        with running(name, path, topics, durable=True) as peer:
            for number in range(0, groups, max(groups // OFFSETS_PER_GROUP, 1)):
                wait_for_offsets(peer, f"bench-{number}", TOPIC, PARTITIONS)
            took_s = time.perf_counter() - began
        return took_s / (groups * PARTITIONS) * 1e6
