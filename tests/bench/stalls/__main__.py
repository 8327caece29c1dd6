"""`python -m tests.bench.stalls`: what keeps the loop busy, as Markdown."""

from __future__ import annotations

import argparse

from tests.bench.figures import machine
from tests.bench.stalls import AFTER_S, QUICK_CASE, SESSION_MS, phases
from tests.bench.stalls.store import Sizes

WIDTH = 110


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.stalls", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small store")
    sizes = Sizes()
    parser.add_argument("--huge", type=int, default=sizes.huge, help="members of the huge group")
    parser.add_argument("--members", type=int, default=sizes.members, help="of all groups")
    parser.add_argument("--offsets", type=int, default=sizes.offsets)
    parser.add_argument("--laps", type=int, default=sizes.laps, help="how often each is committed")
    parser.add_argument("--verbose", action="store_true", help="the five longest of each")
    options = parser.parse_args()
    print(machine() + "\n")
    print("| while | longest in one go, ms | another group's heartbeats: p99, most, ms | took, s |")
    print("|---|---|---|---|")
    wanted = Sizes(options.huge, options.members, options.offsets, options.laps)
    for phase in phases(*(QUICK_CASE if options.quick else (wanted, SESSION_MS, AFTER_S))):
        most = max(phase.beats_ms, default=0)
        row = f"{phase.stall_ms:.1f} | {phase.p99_ms():.1f}, {most:.1f} | {phase.seconds:.2f}"
        print(f"| {phase.name} | {row} |", flush=True)
        if options.verbose:
            for ms, what in phase.longest:
                print(f"  {ms:8.1f} {what[:WIDTH]}", flush=True)


if __name__ == "__main__":
    main()
