"""Server-side assignors on the grid of docs/spec/assignors.md#11, against Kafka's own code in
a JVM, side by side: the average time of a call that makes the whole assignment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

from tests.bench.assignors.grid import Point, points
from tests.bench.assignors.timing import GROUPD, KAFKA, Rounds, Times, groupd, jvm, missing
from tests.bench.figures import Workload
from tests.bench.plan import Plan

ROUNDS = 5
QUICK = Rounds(1, 30)


def measure(plan: Plan, *, everything: bool = False) -> Iterator[Workload]:
    """A workload for each point of the grid. By default these are the groups that the bar is about
    and the growth to them; `everything`: all. `plan.seconds` are for the measured rounds of one
    point."""
    rounds = QUICK if plan.quick else Rounds(ROUNDS, int(plan.seconds * 1000 / ROUNDS))
    lacking = missing() if plan.among([KAFKA]) else "not asked for"
    with ExitStack() as stack:
        kafka = None if lacking else stack.enter_context(jvm())
        for point in _chosen(plan, everything):
            if not plan.wants(point.name):
                continue
            times = {GROUPD: groupd(point, rounds)}
            if kafka is not None:
                times[KAFKA] = kafka.time(point, rounds)
            yield from _workloads(point, times, lacking)


def _chosen(plan: Plan, everything: bool) -> Iterator[Point]:
    if plan.quick:
        return points((100,), (5,), (10,), (False,))
    if everything:
        return points()
    return _subset()


def _subset() -> Iterator[Point]:
    yield from points((10_000,), (10,), (10, 100, 1000), (False,))
    yield from points((100, 1000), (10,), (100,), (False,))


def _workloads(point: Point, times: dict[str, Times], lacking: str) -> Iterator[Workload]:
    notes = {KAFKA: lacking} if lacking else None
    wall = {peer: of.wall for peer, of in times.items()}
    cpu = {peer: of.cpu for peer, of in times.items()}
    if lacking:
        wall[KAFKA] = cpu[KAFKA] = []
    yield Workload(point.name, "ms a call", wall, notes)
    yield Workload(f"{point.name}: CPU", "ms of a processor a call", cpu, notes)
