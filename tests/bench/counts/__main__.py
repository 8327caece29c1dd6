"""Counts the Python calls of one request of each row, and what it allocates, beside the numbers
that are kept.

With --tree ROW shows the calls of one request instead, indented; with --write keeps the numbers.
"""

from __future__ import annotations

import argparse

from tests.bench.counts import kept
from tests.bench.counts.rows import JOINS, ROWS, allocate, count
from tests.bench.counts.trace import tree

NAMES = [row.name for row in (*ROWS, *JOINS)]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.counts", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--tree", choices=NAMES, metavar="ROW", help=f"one of {', '.join(NAMES)}")
    what.add_argument("--write", action="store_true", help=f"into {kept.FILE.name}")
    options = parser.parse_args()
    rows = [row for row in (*ROWS, *JOINS) if row.name == options.tree] or ROWS
    calls, allocations = count(rows), allocate(rows)
    if options.tree:
        print(tree(calls[options.tree].all) + "\n")
    found = {row.name: kept.numbers(calls[row.name], allocations[row.name]) for row in rows}
    if options.write:
        kept.write(found)
    before = kept.read()
    print(kept.table({name: (before.get(name, {}), now) for name, now in found.items()}))


if __name__ == "__main__":
    main()
