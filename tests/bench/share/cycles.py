"""Workload (u): consumers of one share group, a connection each, acquire records and acknowledge
them with the next ShareFetch, over and over. A cycle is counted when its acknowledgement is
confirmed. Every record is delivered once, or the run does not count.

The records are there before. When a group has acknowledged nearly all of them, a new group begins,
and the clock stands still meanwhile.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.bench.figures import Workload, interleaved
from tests.bench.load.generator import LoadFailed, Result, consume
from tests.bench.load.measure import FAILURES, QUICK_WARMUP_S, WARMUP_S
from tests.bench.peers.processes import GROUPD, NoPeer, Peer, running
from tests.bench.plan import Plan
from tests.bench.share.group import PARTITIONS, SETTINGS, TOPIC, produce, share_members

KAFKA, KFAKE = "Apache Kafka", "kfake"
PEERS = (GROUPD, KAFKA, KFAKE)
"""The others know no share groups."""
RECORDS = {1: 100_000, 500: 1_000_000}
"""The records of the topic, by how many are asked for at once."""
CONSUMERS = (1, 100)
JVM_WARMUP_S = 30.0
"""A cycle passes much more code than the requests of the other loads, and there are fewer in a
second. After so long with a hundred consumers the JVM has compiled it; after three seconds a cycle
takes three times as long."""
QUICK_RECORDS = 100_000
QUICK_CONSUMERS = (10,)


@dataclass(frozen=True, slots=True)
class Load:
    """`at_once`: how many records a consumer asks for; `records`: those of the topic."""

    at_once: int
    consumers: int
    records: int
    durable: bool

    @property
    def name(self) -> str:
        what = "1 record" if self.at_once == 1 else f"{self.at_once} records"
        who = "1 consumer" if self.consumers == 1 else f"{self.consumers} consumers"
        where = "durable" if self.durable else "in memory"
        return f"Share group, {what} at a time, {who}, {where}"


@dataclass(slots=True)
class Run:
    """The sums of all groups of a run."""

    cycles: int = 0
    records: int = 0
    seconds: float = 0.0
    peer_cpu_s: float = 0.0
    generator_cpu_s: float = 0.0

    def add(self, one: Result) -> None:
        self.cycles += one.count
        self.records += one.acknowledged
        self.seconds += one.seconds
        self.peer_cpu_s += one.peer_cpu_us * one.count / 1e6
        self.generator_cpu_s += one.cpu_seconds


@dataclass(slots=True)
class Measured:
    """Runs one load of one peer at a time; keeps all that was seen."""

    load: Load
    plan: Plan
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def run(self, name: str) -> float:
        """Cycles a second. Raises one of FAILURES if it cannot."""
        if name == KFAKE and self.load.durable:
            raise NoPeer("keeps the state of share groups only when it is closed")
        with (
            tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
            running(
                name,
                Path(directory),
                {TOPIC: PARTITIONS},
                durable=self.load.durable,
                settings=SETTINGS,
            ) as peer,
        ):
            produce(peer.address, self.load.records)
            consumers = self.load.consumers if self.plan.quick else max(CONSUMERS)
            self._consume(peer, "warm-up", consumers, self._warmup_s(name))
            run = self._consume(peer, "timed", self.load.consumers, self.plan.seconds)
        if not run.cycles:
            raise LoadFailed("no record was acknowledged")
        self.runs.setdefault(name, []).append(run)
        return run.cycles / run.seconds

    def _warmup_s(self, name: str) -> float:
        if self.plan.quick:
            return QUICK_WARMUP_S
        return JVM_WARMUP_S if name == KAFKA else WARMUP_S

    def _consume(self, peer: Peer, kind: str, consumers: int, seconds: float) -> Run:
        """One group after the other, until the seconds are over. The last records are left: nothing
        would be there for the requests that acknowledge them, which would wait for more."""
        found, number = Run(), 0
        while found.seconds < seconds:
            number += 1
            members = share_members(peer.address, f"{kind}-{number}", consumers)
            one = consume(
                peer.address,
                [member.fetch(self.load.at_once) for member in members],
                records=self.load.records - 2 * consumers * self.load.at_once,
                seconds=seconds - found.seconds,
                peer_cpu_s=peer.cpu_seconds,
            )
            found.add(one)
        return found


MEASURES: tuple[tuple[str, str, Callable[[Run], float]], ...] = (
    ("records", "records a second", lambda run: run.records / run.seconds),
    ("CPU of the peer", "us a cycle", lambda run: run.peer_cpu_s / run.cycles * 1e6),
    ("CPU of the generator", "us a cycle", lambda run: run.generator_cpu_s / run.cycles * 1e6),
)


def loads(quick: bool) -> list[Load]:
    return [
        Load(at_once, consumers, QUICK_RECORDS if quick else records, durable)
        for durable in (True, False)
        for at_once, records in RECORDS.items()
        for consumers in (QUICK_CONSUMERS if quick else CONSUMERS)
    ]


def measure_cycles(plan: Plan) -> Iterator[Workload]:
    """Measures each load: cycles a second, records a second, and processor time for a cycle."""
    peers = plan.among(PEERS)
    for load in loads(plan.quick):
        if not peers or not plan.wants(load.name):
            continue
        measured = Measured(load, plan)
        notes: dict[str, str] = {}
        rate = Workload(
            load.name,
            "cycles a second",
            interleaved(plan.runs, peers, measured.run, notes, FAILURES),
            notes,
            higher_is_better=True,
        )
        yield rate
        for measure, unit, value in MEASURES:
            values = {peer: [value(run) for run in measured.runs.get(peer, [])] for peer in peers}
            yield replace(
                rate,
                measure=measure,
                unit=unit,
                samples=values,
                higher_is_better=measure == "records",
            )
