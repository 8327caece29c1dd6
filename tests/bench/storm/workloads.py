"""Workloads (e) and (f): 1,000 and 5,000 members join one group at once, over a connection each;
one of 1,000 leaves. Times until all is stable, and until the partitions of the one that left are
owned again.

The same intervals everywhere: heartbeats every second, no initial delay of classic groups, and the
consumer protocol once with the default assignment interval of a second and once without one (kfake
and others compute a target for every join anyway). Each run has a fresh broker, which a smaller
group has warmed up, and a topic of two partitions for every member.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.figures import Workload, interleaved
from tests.bench.peers.processes import STARTERS, NoPeer, Peer, running
from tests.bench.plan import Plan
from tests.bench.storm.members import PARTITIONS_EACH, TOPIC, Storm, StormFailed, storm

HEARTBEAT_MS = 1000
SIZES = (1_000, 5_000)
LEAVING_SIZE = 1_000
LEAVES = 5
QUICK_SIZE = 50
QUICK_LEAVES = 1
TIMEOUT_S = 120
QUICK_TIMEOUT_S = 4
WARM_UP = 200
CANNOT = (StormFailed, NoPeer, RuntimeError)


@dataclass(frozen=True, slots=True)
class Case:
    """A storm to measure. `interval_ms`: the assignment interval; None: the classic protocol, which
    has none."""

    members: int
    interval_ms: int | None
    leaves: int

    @property
    def protocol(self) -> str:
        return "classic" if self.interval_ms is None else "consumer"

    @property
    def name(self) -> str:
        kind = f"{self.protocol} protocol"
        if self.interval_ms is not None:
            kind += f", assignment interval {self.interval_ms:,} ms"
        return f"{self.members:,} members, {kind}"

    @property
    def titles(self) -> tuple[str, ...]:
        """The titles: the time until all are stable, what the peer used for it, and, where a member
        leaves, the time that this takes."""
        titles = f"Join storm, {self.name}", f"Join storm, {self.name}: CPU of the peer"
        return (*titles, f"One leaves, {self.name}") if self.leaves else titles

    def settings(self) -> dict[str, str]:
        beat = str(HEARTBEAT_MS)
        return {
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.heartbeat.interval.ms": beat,
            "group.consumer.min.heartbeat.interval.ms": beat,
            "group.consumer.assignment.interval.ms": str(self.interval_ms or 0),
        }


@dataclass(slots=True)
class Measured:
    """The other figures of one case, by peer; the time itself is kept elsewhere."""

    case: Case
    warm_up: int
    cpu_ms: dict[str, list[float]] = field(default_factory=dict)
    owned_ms: dict[str, list[float]] = field(default_factory=dict)

    def run(self, name: str) -> float:
        """Milliseconds until all were stable. Raises one of CANNOT."""
        topics = {TOPIC: self.case.members * PARTITIONS_EACH}
        with (
            tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory,
            running(
                name, Path(directory), topics, durable=False, settings=self.case.settings()
            ) as peer,
        ):
            found = self._storm(peer)
        self.cpu_ms.setdefault(name, []).append(found.peer_cpu_ms)
        times = [leave.owned_ms for leave in found.leaves]
        self.owned_ms.setdefault(name, []).extend(times)
        return found.stable_ms

    def _storm(self, peer: Peer) -> Storm:
        case = self.case
        partitions = case.members * PARTITIONS_EACH
        if self.warm_up:
            storm(
                peer,
                case.protocol,
                self.warm_up,
                interval_ms=HEARTBEAT_MS,
                partitions=partitions,
                group="warm-up",
            )
        return storm(
            peer,
            case.protocol,
            case.members,
            interval_ms=HEARTBEAT_MS,
            leaves=case.leaves,
            timeout_s=TIMEOUT_S if self.warm_up else QUICK_TIMEOUT_S,
        )


def cases(quick: bool = False) -> list[Case]:
    if quick:
        return [Case(QUICK_SIZE, interval_ms, QUICK_LEAVES) for interval_ms in (1000, None)]
    return [
        Case(members, interval_ms, LEAVES if members == LEAVING_SIZE else 0)
        for members in SIZES
        for interval_ms in (1000, 0, None)
    ]


def measure(plan: Plan) -> Iterator[Workload]:
    """Measures of every case the time to stable, the coordinator's CPU, and where somebody leaves,
    the time until the partitions are owned again."""
    peers = plan.among(STARTERS)
    for case in cases(plan.quick):
        if not any(map(plan.wants, case.titles)):
            continue
        measured = Measured(case, 0 if plan.quick else WARM_UP)
        notes: dict[str, str] = {}
        runs = 1 if plan.quick else plan.runs
        samples = interleaved(runs, peers, measured.run, notes, CANNOT)
        cpu = {peer: measured.cpu_ms.get(peer, []) for peer in peers}
        owned = {peer: measured.owned_ms.get(peer, []) for peer in peers}
        tables = ("ms until stable", samples), ("ms in all", cpu), ("ms until all is owned", owned)
        for title, (unit, values) in zip(case.titles, tables, strict=False):
            yield Workload(title, unit, values, notes)
