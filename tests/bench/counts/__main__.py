"""Counts the Python calls of one request of each row, beside the numbers that are kept.

With --tree ROW shows the calls of one request instead, indented; with --write keeps the numbers.
"""

from __future__ import annotations

import argparse

from tests.bench.counts import kept
from tests.bench.counts.rows import ROWS, count
from tests.bench.counts.trace import tree

NAMES = [row.name for row in ROWS]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.counts", description=__doc__)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--tree", choices=NAMES, metavar="ROW", help=f"one of {', '.join(NAMES)}")
    what.add_argument("--write", action="store_true", help=f"into {kept.FILE.name}")
    options = parser.parse_args()
    found = count([row for row in ROWS if options.tree in (None, row.name)])
    if options.tree:
        print(tree(found[options.tree].all))
    if options.write:
        kept.write({name: kept.numbers(calls) for name, calls in found.items()})
    before = kept.read()
    print(kept.table({name: (before.get(name, {}), kept.numbers(found[name])) for name in found}))


if __name__ == "__main__":
    main()
