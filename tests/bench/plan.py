"""What a part of the benchmark suite is asked for, and what it gives: `measure(Plan)` yields a
`figures.Workload` for every table as soon as it is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.bench.figures import Workload


@dataclass(frozen=True, slots=True)
class Plan:
    """`runs` of every peer in turn; `seconds` of a steady load; `peers`: those that are wanted, by
    their names in `peers.processes.STARTERS`; `quick`: the smallest sizes, once, so that CI sees
    that everything works: such figures mean nothing."""

    runs: int = 5
    seconds: float = 5.0
    peers: tuple[str, ...] = ()
    quick: bool = False


Part = Callable[[Plan], Iterator[Workload]]
