"""python -m tests.simulator.shares --seed N -v      one seed, with its whole story
python -m tests.simulator.shares --seeds 10000    many seeds, spread over processes"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.simulator.shares.simulation import Result, simulate_shares
from tests.simulator.simulation import SimulationFailed

REPORT_EVERY = 100


def _try(seed: int) -> tuple[int, Result | None, str]:
    try:
        return seed, simulate_shares(seed), ""
    except SimulationFailed as failure:
        return seed, None, str(failure)


def _run_many(options: argparse.Namespace) -> int:
    started, slowest = time.monotonic(), 0
    sums: Counter[str] = Counter()
    failed: list[int] = []
    seeds = range(options.first, options.first + options.seeds)
    # What is there before the first run is not looked through after each one.
    with ProcessPoolExecutor(options.jobs, initializer=gc.freeze) as pool:
        for done, (seed, result, report) in enumerate(pool.map(_try, seeds, chunksize=5), 1):
            if result is None:
                failed.append(seed)
                print(report, end="\n\n", flush=True)
                if not options.keep_going:
                    break
            else:
                sums.update(records=result.records, acquisitions=result.acquisitions)
                sums.update(accepts=result.accepts, steps=result.steps)
                slowest = max(slowest, result.settled_ms)
            if done % REPORT_EVERY == 0 or done == len(seeds):
                took_s = time.monotonic() - started
                print(
                    f"{done} seeds in {took_s:.0f} s, {len(failed)} failed: {dict(sums)}, settled "
                    f"after {slowest} ms at most",
                    flush=True,
                )
        pool.shutdown(cancel_futures=True)
    if failed:
        print("failed seeds:", *failed)
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator.shares", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every step")
    options = parser.parse_args()
    if options.seed is None:
        return _run_many(options)
    try:
        print(simulate_shares(options.seed, verbose=options.verbose))
    except SimulationFailed as failure:
        print(failure)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
