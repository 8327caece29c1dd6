"""The table of `bench-diff`: a line for each row, as soon as it is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench.figures import number

NAME, CELL = 58, 8


@dataclass(frozen=True, slots=True)
class Measured:
    """A row. `old`, `new`: processor time in `unit`, one figure for each run, none if the tree
    cannot do it; `calls`: functions of groupd for a request, old and new; None: not counted, a tree
    without them cannot do it. `note`: why a tree cannot."""

    name: str
    unit: str
    old: Sequence[float]
    new: Sequence[float]
    calls: tuple[int | None, int | None] | None = None
    note: str = ""


def _row(name: str, cells: Sequence[str], note: str = "") -> str:
    old, new, ratio, unit, *calls = cells
    shown = (f"{name:{NAME}}", *map(_right, (old, new, ratio)), f" {unit:12}", *map(_right, calls))
    return f"{''.join(shown)}  {note}".rstrip()


def _right(cell: str) -> str:
    return f"{cell:>{CELL}}"


HEAD = _row("processor time; calls", ("old", "new", "ratio", "", "old", "new", "ratio"))


def line(row: Measured) -> str:
    """One line. A ratio is new by old: less than 1 is better."""
    times = _pair(*(median(figures) if figures else None for figures in (row.old, row.new)))
    calls = ("-", "-", "-") if row.calls is None else _pair(*row.calls)
    return _row(row.name, (*times, row.unit, *calls), row.note)


def _pair(old: float | None, new: float | None) -> tuple[str, str, str]:
    return _cell(old), _cell(new), f"{new / old:.2f}" if old and new is not None else "-"


def _cell(value: float | None) -> str:
    if value is None:
        return "cannot"
    return str(value) if isinstance(value, int) else number(value)
