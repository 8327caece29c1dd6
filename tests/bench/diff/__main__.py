"""Measures the daemon of another commit beside that of this tree: processor time and Python calls
of each row of `rows.py`. The commit gets a work tree of its own, which is removed at the end."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tests.bench.diff.rows import Sizes, rows
from tests.bench.diff.table import HEAD, line
from tests.bench.figures import machine
from tests.bench.peers.processes import measure_before
from tests.support.toolchain import ROOT

EXIT_USAGE = 2


def main() -> None:
    options = _parser().parse_args()
    commit = _git(
        "rev-parse", "--verify", "--quiet", "--end-of-options", options.base + "^{commit}"
    )
    if not options.base or commit is None:
        print(f"bench-diff: BASE={options.base}: no commit of this repository", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    # Daemons are ended and the tree is removed on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    sizes = Sizes(quick=options.quick)
    sizes = replace(
        sizes, runs=options.runs or sizes.runs, seconds=options.seconds or sizes.seconds
    )
    began = time.monotonic()
    print(f"{machine()}\nold: {commit[:8]}, new: this tree\n\n{HEAD}", flush=True)
    with work_tree(commit) as tree:
        measure_before(tree)
        for row in rows(sizes):
            if re.search(options.matching, row.name):
                print(line(row.measured(sizes.runs, tree)), flush=True)
    print(f"\n{time.monotonic() - began:.0f} s")


@contextmanager
def work_tree(commit: str) -> Iterator[Path]:
    """A work tree of the commit, for a while."""
    (ROOT / "build").mkdir(exist_ok=True)
    tree = ROOT / "build" / f"diff-{time.time_ns()}"
    try:
        if _git("worktree", "add", "--quiet", "--detach", str(tree), commit) is None:
            sys.exit(f"bench-diff: no work tree of {commit} in {tree}")
        yield tree
    finally:
        _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> str | None:
    """What git prints; None: it fails."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    return None if done.returncode else done.stdout.strip()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.diff", description=__doc__)
    parser.add_argument("base", nargs="?", default="", help="the older commit")
    parser.add_argument("--matching", default="", help="rows by name, a regular expression")
    parser.add_argument("--runs", type=int, help=f"of each row and tree ({Sizes().runs})")
    parser.add_argument("--seconds", type=float, help=f"of a steady load ({Sizes().seconds})")
    parser.add_argument("--quick", action="store_true", help="the smallest sizes, once")
    return parser


if __name__ == "__main__":
    main()
