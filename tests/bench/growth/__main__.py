"""`python -m tests.bench.growth`: prints the tables of this part."""

from __future__ import annotations

import argparse

from tests.bench.figures import machine, table
from tests.bench.growth import measure
from tests.bench.plan import Plan


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.growth", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="of every size and peer")
    parser.add_argument("--peers", default="", help="some of them")
    parser.add_argument("--quick", action="store_true", help="small sizes, once")
    options = parser.parse_args()
    peers = tuple(filter(None, options.peers.split(",")))
    print(machine() + "\n")
    for workload in measure(Plan(options.runs, peers=peers, quick=options.quick)):
        print(table(workload), flush=True)


if __name__ == "__main__":
    main()
