"""Steady loads of all peers in turn, every run on a fresh broker."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from tests.bench.figures import Workload, interleaved
from tests.bench.load import workloads
from tests.bench.load.generator import LoadFailed, Result, once, repeat
from tests.bench.load.members import GROUP_SIZE, PREPARING
from tests.bench.load.workloads import TOPICS, Load, check_all
from tests.bench.peers.cserver import C_SERVER, c_server
from tests.bench.peers.processes import STARTERS, NoPeer, Peer, running
from tests.bench.plan import Plan

WARMUP_S = 0.5
JVM_WARMUP_S = 3.0
"""Not measured: meanwhile the JVM compiles what it then runs."""
WARMUP_OF_EACH_S = 50e-6
"""The warm-up is longer by this for each request in flight: the first one on a connection is
handled in full."""
QUICK_WARMUP_S = 0.1
Running = Callable[..., AbstractContextManager[Peer]]
"""Starts a peer, as `running` does."""

FAILURES = (LoadFailed, NoPeer, RuntimeError, AssertionError, OSError)
"""Failures of the load, and of starting a peer: one that fails must not end a run of hours."""


class Measured:
    """Runs one workload of one peer at a time; keeps all that was seen."""

    def __init__(self, load: Load, plan: Plan, start: Running = running) -> None:
        self.results: dict[str, list[Result]] = {}
        self._load = load
        self._start = start
        self._seconds = plan.seconds
        self._is_quick = plan.quick
        self._echo: tuple[list[bytes], bytes] | None = None

    def run(self, name: str) -> float:
        """Requests a second. Raises one of FAILURES if it cannot."""
        return self._run_echo() if name == C_SERVER else self._run(name)

    def _run(self, name: str) -> float:
        with (
            tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
            self._start(name, Path(directory), TOPICS, durable=self._load.durable) as peer,
        ):
            return self._repeat(peer, self._load.prepare(peer, self._load.connections))

    def _run_echo(self) -> float:
        if self._echo is None:
            self._echo = self._learn()
        requests, reply = self._echo
        connections = self._load.connections
        with c_server(reply) as peer:
            return self._repeat(peer, [requests[i % len(requests)] for i in range(connections)])

    def _learn(self) -> tuple[list[bytes], bytes]:
        """Requests of one group, and groupd's reply to one of them."""
        with (
            tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
            running("groupd", Path(directory), TOPICS, durable=False) as peer,
        ):
            requests = self._load.prepare(peer, GROUP_SIZE)
            return requests, once(peer.address, requests, PREPARING).replies[0]

    def _repeat(self, peer: Peer, requests: Sequence[bytes]) -> float:
        warmup_s = JVM_WARMUP_S if peer.name.startswith("Apache Kafka") else WARMUP_S
        warmup_s += WARMUP_OF_EACH_S * self._load.connections * self._load.window
        result = repeat(
            (peer.host, peer.tls_port or peer.port),
            requests,
            window=self._load.window,
            seconds=self._seconds,
            warmup_s=QUICK_WARMUP_S if self._is_quick else warmup_s,
            peer_cpu_s=peer.cpu_seconds,
            tls=peer.tls_port > 0,
        )
        check_all(self._load, result.replies)
        if result.changed or result.unanswered or not result.count:
            raise LoadFailed(f"{result.changed} replies changed, {result.unanswered} missing")
        self.results.setdefault(peer.name, []).append(result)
        return result.count / result.seconds


def measure_loads(
    loads: Sequence[Load],
    plan: Plan,
    known: Sequence[str] = (*STARTERS, C_SERVER),
    start: Running = running,
) -> Iterator[Workload]:
    """Measures each load: requests a second, CPU of the peer, latencies, and what the generator
    took. `start`: starts one of the `known` peers by its name."""
    peers = plan.among(known)
    for load in loads:
        asked = [peer for peer in peers if peer != C_SERVER or load.echo]
        if not asked or not plan.wants(load.name):
            continue
        measured = Measured(load, plan, start)
        notes: dict[str, str] = {}
        rate = Workload(
            load.name,
            "requests a second",
            interleaved(plan.runs, asked, measured.run, notes, FAILURES),
            notes,
            figure=load.figure,
            size=load.connections,
            higher_is_better=True,
        )
        yield rate
        for measure, unit, value in MEASURES:
            values = {peer: [value(r) for r in measured.results.get(peer, [])] for peer in asked}
            yield replace(rate, measure=measure, unit=unit, samples=values, higher_is_better=False)


MEASURES: tuple[tuple[str, str, Callable[[Result], float]], ...] = (
    ("CPU of the peer", "us a request", lambda result: result.peer_cpu_us),
    ("median latency", "us", lambda result: result.p50_us),
    ("99th percentile of latency", "us", lambda result: result.p99_us),
    (
        "CPU of the generator",
        "us a request",
        lambda result: result.cpu_seconds / result.count * 1e6,
    ),
)


def consumer_heartbeats(plan: Plan) -> Iterator[Workload]:
    """Measures workload (a)."""
    yield from measure_loads(workloads.consumer_heartbeats(plan), plan)


def classic_heartbeats(plan: Plan) -> Iterator[Workload]:
    """Measures workload (b)."""
    yield from measure_loads(workloads.classic_heartbeats(plan), plan)


def commits(plan: Plan) -> Iterator[Workload]:
    """Measures workload (c)."""
    yield from measure_loads(workloads.commits(plan), plan)


def fetches(plan: Plan) -> Iterator[Workload]:
    """Measures workload (d)."""
    yield from measure_loads(workloads.fetches(plan), plan)
