"""`python -m tests.bench.recovery [--quick] [--runs N] [--peers ...]`: prints the tables."""

from __future__ import annotations

import argparse

from tests.bench.figures import machine, table
from tests.bench.peers.processes import STARTERS
from tests.bench.plan import Plan
from tests.bench.recovery import restart, startup


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", nargs="*", default=list(STARTERS), choices=list(STARTERS))
    parser.add_argument("--only", choices=("startup", "restart"))
    asked = parser.parse_args()
    plan = Plan(runs=asked.runs, peers=tuple(asked.peers), quick=asked.quick)
    print(machine() + "\n")
    for name, part in (("startup", startup), ("restart", restart)):
        if asked.only in (None, name):
            for workload in part.measure(plan):
                print(table(workload), flush=True)


if __name__ == "__main__":
    main()
