"""`python -m tests.bench`: the benchmark suite, groupd and its peers side by side in one run.

Every workload is printed as soon as it is measured, and kept in docs/benchmarks.json. With --quick
the smallest sizes run once, to see that everything works: such figures mean nothing, and are kept
in build/bench/quick.json. --render writes the generated part of docs/benchmarks.md and its
pictures.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench import results
from tests.bench.figures import machine, table
from tests.bench.page import write_page
from tests.bench.parts import PARTS, chosen
from tests.bench.peers.cserver import C_SERVER
from tests.bench.peers.processes import STARTERS
from tests.bench.plan import Plan
from tests.support.toolchain import ROOT

QUICK_SECONDS = 0.3
QUICK_RESULTS = ROOT / "build" / "bench" / "quick.json"
PEERS = (*STARTERS, C_SERVER)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.render:
        write_page(results.load(options.out or results.IN_THE_TREE), options.docs)
        return
    try:
        parts = list(chosen(options.only))
        plan = _plan(options)
    except ValueError as error:
        sys.exit(str(error))
    # Peers are ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    given = sys.argv[1:] if arguments is None else arguments
    run = results.this_run(shlex.join(["python", "-m", "tests.bench", *given]), quick=plan.quick)
    path = options.out or (QUICK_RESULTS if plan.quick else results.IN_THE_TREE)
    kept = results.load(path)
    print(machine() + "\n")
    began = time.monotonic()
    for part in parts:
        print(f"# {part.letters}: {part.title} (after {time.monotonic() - began:.0f} s)\n")
        for workload in part.measure(plan):
            print(table(workload), flush=True)
            kept.add(results.measured(part.letters, workload, run))
            kept.save(path)
    print(f"{time.monotonic() - began:.0f} s; kept in {path}")


def _plan(options: argparse.Namespace) -> Plan:
    """The plan that the options ask for. Raises ValueError."""
    peers = tuple(name for name in options.peers.split(",") if name)
    if unknown := set(peers) - set(PEERS):
        raise ValueError(f"no peer {', '.join(sorted(unknown))}: there are {', '.join(PEERS)}")
    usual = Plan(runs=1, seconds=QUICK_SECONDS) if options.quick else Plan()
    return Plan(
        runs=options.runs or usual.runs,
        seconds=options.seconds or usual.seconds,
        peers=peers,
        quick=options.quick,
        matching=options.matching,
    )


def _parser() -> argparse.ArgumentParser:
    letters = "; ".join(f"{part.letters}: {part.title}" for part in PARTS)
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, once")
    parser.add_argument("--only", default="", help=f"parts by letter, as in a,c ({letters})")
    parser.add_argument("--matching", default="", help="workloads by name, a regular expression")
    parser.add_argument("--peers", default="", help=f"some of {', '.join(PEERS)}")
    parser.add_argument("--runs", type=int, help=f"of each workload and peer ({Plan().runs})")
    parser.add_argument("--seconds", type=float, help=f"of a steady load ({Plan().seconds})")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep the results there instead")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where the page is")
    parser.add_argument("--render", action="store_true", help="measure nothing, write the page")
    return parser


if __name__ == "__main__":
    main()
