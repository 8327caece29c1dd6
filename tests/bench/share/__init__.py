"""Share groups (KIP-932): cycles of acquiring and acknowledging records, and what many records in
flight cost."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figures import Workload
from tests.bench.plan import Plan
from tests.bench.share.cycles import measure_cycles
from tests.bench.share.in_flight import measure_in_flight


def measure(plan: Plan) -> Iterator[Workload]:
    yield from measure_cycles(plan)
    yield from measure_in_flight(plan)
