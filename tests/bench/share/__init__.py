"""Share groups (KIP-932): cycles of acquiring and acknowledging records, and what many records in
flight cost."""

from __future__ import annotations

from collections.abc import Iterator

from tests.bench.figures import Workload
from tests.bench.plan import Plan
from tests.bench.share.cycles import measure_cycles


def measure(plan: Plan) -> Iterator[Workload]:
    yield from measure_cycles(plan)
