"""`python -m tests.bench.assignors`: groupd's assignors and Kafka's, as Markdown."""

from __future__ import annotations

import argparse
import statistics

from tests.bench.assignors import measure
from tests.bench.assignors.timing import GROUPD, KAFKA
from tests.bench.figures import Workload, machine
from tests.bench.plan import Plan


def _ratio(workload: Workload) -> str:
    mine, theirs = workload.samples[GROUPD], workload.samples[KAFKA]
    if not theirs:
        return f"{statistics.median(mine):.2f} | | "
    a, b = statistics.median(mine), statistics.median(theirs)
    return f"{a:.2f} | {b:.2f} | {f'{a / b:.2f}' if b else ''}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.assignors", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest groups, once")
    parser.add_argument("--all", action="store_true", help="the whole grid: hours")
    parser.add_argument("--seconds", type=float, default=5.0, help="of every group, measured")
    parser.add_argument("--matching", default="", help="groups by name, a regular expression")
    options = parser.parse_args()
    print(machine() + "\n")
    print("| ms a call | groupd | Kafka | ratio | groupd, CPU | Kafka, CPU | ratio |")
    print("|---|---|---|---|---|---|---|")
    plan = Plan(seconds=options.seconds, quick=options.quick, matching=options.matching)
    workloads = measure(plan, everything=options.all)
    for wall in workloads:
        cpu = next(workloads)
        print(f"| {wall.name} | {_ratio(wall)} | {_ratio(cpu)} |", flush=True)


if __name__ == "__main__":
    main()
