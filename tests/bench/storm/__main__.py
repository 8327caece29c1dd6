"""`python -m tests.bench.storm`: join storms of all peers in turn, as Markdown."""

from __future__ import annotations

import argparse

from tests.bench.figures import machine, table
from tests.bench.peers.processes import STARTERS
from tests.bench.plan import Plan
from tests.bench.storm.workloads import measure


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.storm", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="of every workload and peer")
    parser.add_argument("--peers", default=",".join(STARTERS), help="some of them")
    parser.add_argument("--quick", action="store_true", help="small and once; means nothing")
    options = parser.parse_args()
    print(machine() + "\n")
    for workload in measure(
        Plan(options.runs, 0.0, tuple(options.peers.split(",")), options.quick)
    ):
        print(table(workload), flush=True)


if __name__ == "__main__":
    main()
