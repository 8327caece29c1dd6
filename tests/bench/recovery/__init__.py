"""Recovery, start-up and memory: workloads (g) and (h)."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figures import Workload
from tests.bench.plan import Plan
from tests.bench.recovery import restart, startup


def measure(plan: Plan) -> Iterator[Workload]:
    yield from startup.measure(plan)
    yield from restart.measure(plan)
