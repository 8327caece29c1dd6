"""Memory of a daemon with 10,000 connections, each of which has sent one heartbeat and is idle."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.figures import Workload, interleaved
from tests.bench.load.generator import once
from tests.bench.load.measure import FAILURES
from tests.bench.load.members import consumers
from tests.bench.load.workloads import TOPICS
from tests.bench.plan import Plan
from tests.bench.proc import resident_bytes
from tests.bench.security.variants import start

CONNECTIONS = 10_000
QUICK_CONNECTIONS = 20
PEERS = ("groupd", "groupd, TLS")
HOLD_S = 3.0
QUICK_HOLD_S = 0.1
MIB = 1 << 20


def measure(plan: Plan) -> Iterator[Workload]:
    count = QUICK_CONNECTIONS if plan.quick else CONNECTIONS
    name = f"Memory of the daemon, {count:,} idle connections"
    if not plan.wants(name):
        return
    peers = PEERS[1:] if plan.quick else PEERS
    notes: dict[str, str] = {}
    run = partial(_mib, count=count, hold_s=QUICK_HOLD_S if plan.quick else HOLD_S)
    yield Workload(name, "MiB", interleaved(plan.runs, peers, run, notes, FAILURES), notes)


def _mib(name: str, count: int, hold_s: float) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
        start(name, Path(directory), TOPICS, durable=False) as peer,
    ):
        beats = consumers(peer, count)
        seen: list[int] = []
        once(
            (peer.host, peer.tls_port or peer.port),
            beats,
            count,
            tls=peer.tls_port > 0,
            hold_s=hold_s,
            look=lambda: seen.append(resident_bytes(peer.pid)),
        )
        return seen[-1] / MIB
