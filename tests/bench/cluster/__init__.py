"""A cluster over one PostgreSQL: take-over, hand-over, rolling restart, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.cluster import cost, death, handover, rolling
from tests.bench.figures import Workload
from tests.bench.plan import Plan


def measure(plan: Plan) -> Iterator[Workload]:
    yield from death.measure(plan)
    yield from handover.measure(plan)
    yield from rolling.measure(plan)
    yield from cost.measure(plan)
