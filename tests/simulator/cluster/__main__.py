"""`python -m tests.simulator.cluster --seeds 1000`, or `--seed N -v` for the story of one."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.simulator.cluster.simulation import simulate_cluster
from tests.simulator.simulation import SimulationFailed


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--seed", type=int)
    parser.add_argument("-v", action="store_true")
    args = parser.parse_args()
    first, count = (args.first, args.seeds) if args.seed is None else (args.seed, 1)
    sums: Counter[str] = Counter()
    started, slowest = time.monotonic(), 0
    for seed in range(first, first + count):
        try:
            result = simulate_cluster(seed, verbose=args.v)
        except SimulationFailed as failure:
            print(failure)
            return 1
        sums.update(steps=result.steps, writes=result.writes, reads=result.reads)
        sums.update(moves=result.moves)
        slowest = max(slowest, result.settled_ms)
    took_s = time.monotonic() - started
    print(f"{count} seeds in {took_s:.0f} s: {dict(sums)}, settled after {slowest} ms at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
