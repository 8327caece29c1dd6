"""python -m tests.simulator --seed N -v      one seed, with its whole story
python -m tests.simulator --seeds 10000    many seeds, spread over processes"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice

from tests.simulator.simulation import Result, SimulationFailed, simulate

CHUNK = 20
REPORT_EVERY = 200


def _run_chunk(first: int, count: int, mixed: bool) -> tuple[int, list[tuple[int, str]]]:
    """(steps, failures) of `count` seeds."""
    steps, failures = 0, []
    for seed in range(first, first + count):
        try:
            steps += simulate(seed, mixed_groups=mixed).steps
        except SimulationFailed as failure:
            failures.append((seed, str(failure)))
    return steps, failures


def _run_many(options: argparse.Namespace) -> int:
    started, steps, done, failed = time.monotonic(), 0, 0, []
    end = options.first + options.seeds
    chunks: Iterator[int] = iter(range(options.first, end, CHUNK))
    with ProcessPoolExecutor(options.jobs) as pool:
        running = {}

        def more(count: int) -> None:
            for first in islice(chunks, count):
                size = min(CHUNK, end - first)
                running[pool.submit(_run_chunk, first, size, options.mixed)] = size

        more(2 * options.jobs)
        while running:
            future = next(iter(running))
            size = running.pop(future)
            part, failures = future.result()
            steps, done = steps + part, done + size
            failed += failures
            for _, report in failures:
                print(report, end="\n\n", flush=True)
            if done % REPORT_EVERY < size or not running:
                seconds = time.monotonic() - started
                print(
                    f"{done} seeds, {len(failed)} failed, {steps} steps, "
                    f"{steps / seconds:.0f} steps/s, {seconds:.0f} s",
                    flush=True,
                )
            if not failed or options.keep_going:
                more(1)
    if failed:
        print("failed seeds:", *sorted(seed for seed, _ in failed))
    return 1 if failed else 0


def _run_one(options: argparse.Namespace) -> int:
    started = time.monotonic()
    try:
        result: Result = simulate(options.seed, mixed_groups=options.mixed, verbose=options.verbose)
    except SimulationFailed as failure:
        print(failure)
        return 1
    print(f"seed {options.seed}: {result} in {time.monotonic() - started:.2f} s")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one seed")
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--mixed", action="store_true", help="both protocols in every group")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    parser.add_argument("-v", "--verbose", action="store_true", help="print every step")
    options = parser.parse_args()
    return _run_many(options) if options.seed is None else _run_one(options)


if __name__ == "__main__":
    sys.exit(main())
