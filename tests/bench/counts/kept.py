"""The numbers that are kept, and how far a change may be from them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.bench.counts.rows import Allocations
from tests.bench.counts.trace import Calls

FILE = Path(__file__).with_name("kept.json")
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
MARGINS: Mapping[str, tuple[int, float]] = {"peak": (800, 0.05), "blocks": (2, 0.05)}
"""By what is counted: how much more or less it may be, whichever is more, absolute or as a part."""
CALLS_MARGIN = 2, 0.0
"""Calls are exact, so this is for what a small correction costs, not for noise."""

Numbers = Mapping[str, int]
"""The numbers of one row, by what they count."""


def numbers(calls: Calls, allocations: Allocations) -> Numbers:
    """See `Calls`, as far as they are known, and `Allocations`; but not the bytes that are left,
    which depend on when a table grows."""
    found = {"calls": calls.own, "libraries": calls.others, "down": calls.down, "up": calls.up}
    found |= {"peak": allocations.peak, "blocks": allocations.blocks}
    return {name: number for name, number in found.items() if number is not None}


def read() -> dict[str, Numbers]:
    """The numbers by row."""
    rows: dict[str, Numbers] = json.loads(FILE.read_text())["rows"]
    return rows


def python() -> str:
    """The version of Python that they are of: others inline what this one calls."""
    version: str = json.loads(FILE.read_text())["python"]
    return version


def write(rows: Mapping[str, Numbers]) -> None:
    lines = ",\n".join(f"{json.dumps(row)}: {json.dumps(found)}" for row, found in rows.items())
    FILE.write_text(f'{{"python": "{PYTHON}", "rows": {{\n{lines}\n}}}}\n')


def differences(row: str, before: Numbers, now: Numbers) -> Iterator[str]:
    """Yields a line for each number that differs from the kept one by more than its margin."""
    for what in {**before, **now}:
        old, new = before.get(what), now.get(what)
        if old is None or new is None:
            yield f"{row}: {what}: {old} -> {new}: one of them is missing; {WRITE}"
            continue
        absolute, part = MARGINS.get(what, CALLS_MARGIN)
        margin = max(absolute, old * part)
        if new > old + margin:
            yield f"{row}: {what}: {old} -> {new}: more than before. {RAISE}"
        elif new < old - margin:
            yield f"{row}: {what}: {old} -> {new}: fewer than before, well done: {WRITE}"


WRITE = "keep it with `python -m tests.bench.counts --write`"
RAISE = (
    "`python -m tests.bench.counts --tree ROW` shows the calls. If the change is worth it, "
    f"{WRITE}, and say why in a line of CHANGELOG.md"
)


def table(rows: Mapping[str, tuple[Numbers, Numbers]]) -> str:
    """Rows with the numbers kept and those of today."""
    columns = list(dict.fromkeys(what for pair in rows.values() for part in pair for what in part))
    lines = [f"{'':20}" + "".join(f" {what:>16}" for what in columns)]
    for row, (before, now) in rows.items():
        cells = (_cell(before.get(what), now.get(what)) for what in columns)
        lines.append(f"{row:20}" + "".join(f" {cell:>16}" for cell in cells))
    return "\n".join(lines)


def _cell(old: int | None, new: int | None) -> str:
    if old == new:
        return "-" if new is None else str(new)
    return f"{old} -> {new}"
