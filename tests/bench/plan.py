"""What a part of the benchmark suite is asked for, and what it gives: `measure(Plan)` yields a
`figures.Workload` for every table as soon as it is measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.bench.figures import Workload


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure. `runs` of every peer in turn; `seconds` of a steady load; `peers`: those
    that are wanted, by their names in `peers.processes.STARTERS`; `quick`: the smallest sizes,
    once, so that CI sees that everything works: such figures mean nothing; `matching`: a regular
    expression for the names of the workloads that are wanted; parts look at it where a workload
    takes time."""

    runs: int = 5
    seconds: float = 5.0
    peers: tuple[str, ...] = ()
    quick: bool = False
    matching: str = ""

    def among(self, known: Iterable[str]) -> list[str]:
        """Those of `known` that are wanted: all of them unless `peers` says which."""
        return [peer for peer in known if not self.peers or peer in self.peers]

    def wants(self, workload: str) -> bool:
        return re.search(self.matching, workload) is not None


Part = Callable[[Plan], Iterator[Workload]]
