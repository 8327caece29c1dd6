"""Prints rows: as tables for people, as JSON lines for programs."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import json

WIDTH = 120
"""The width of a table that is not printed to a terminal."""

GAP = "   "
LEAST = 8
"""No column becomes narrower than this."""
CUT = ".."
INDENT = " " * 4


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, wide: bool = False) -> None:
    """Prints a header, a rule and the rows. Numbers are aligned right. `wide`: no line is cut."""
    shown = [[_one_line(cell) for cell in row] for row in rows]
    for line in table_lines(columns, shown, None if wide else output_width()):
        print(line)


def table_of(
    rows: Sequence[Mapping[str, object]], *, wide: bool = False, empty: Sequence[str] = ()
) -> None:
    """Prints rows by column, without columns that are "-" in every row. `empty`: the columns of a
    table without rows; if empty, such a table is not printed."""
    columns = [name for name in rows[0] if any(row[name] != "-" for row in rows)] if rows else empty
    if columns:
        table(columns, [[row[name] for name in columns] for row in rows], wide=wide)


def or_dash(value: object) -> object:
    """Returns the value, "-" for None and ""."""
    if value is None or value == "":
        return "-"
    if isinstance(value, str | int):
        return value
    return json.format(json.encode(value), indent=0).decode()


def output_width() -> int:
    """The number of columns of the terminal; `WIDTH` if there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None
) -> list[str]:
    """The lines of a table, of at most `width` characters unless there are too many columns."""
    by_column = [[name, *(row[index] for row in rows)] for index, name in enumerate(columns)]
    wanted = [max(map(len, cells)) for cells in by_column]
    widths = wanted if width is None else _fitted(wanted, width - len(GAP) * (len(columns) - 1))
    right = [_are_numbers(cells[1:]) for cells in by_column]
    lines = [_line(cells, widths, right) for cells in ([*columns], *rows)]
    rule = "─" * (sum(widths) + len(GAP) * (len(columns) - 1))
    return [lines[0], rule, *lines[1:]]


def shortened(text: str, width: int) -> str:
    """Shortens `text` to `width` characters: its beginning and its end stay."""
    if len(text) <= width:
        return text
    left = width - len(CUT)
    tail = left // 2
    return text[: left - tail] + CUT + text[len(text) - tail :]


def wrapped(line: str, width: int | None) -> list[str]:
    """Wraps the line to `width`; further lines are indented. `width` None: it is not wrapped."""
    if width is None:
        return [line]
    return textwrap.wrap(line, width, subsequent_indent=INDENT, break_on_hyphens=False)


def _fitted(wanted: list[int], width: int) -> list[int]:
    """Column widths that fit into `width`. The widest columns shrink first, but not below
    `LEAST`."""
    cap = max(wanted, default=0)
    while cap > LEAST and sum(min(one, cap) for one in wanted) > width:
        cap -= 1
    widths = [min(one, cap) for one in wanted]
    for index, one in enumerate(wanted):
        # The last step may have taken too many characters: give them back.
        spare = width - sum(widths)
        if spare > 0:
            widths[index] = min(one, widths[index] + spare)
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = zip(
        (shortened(*pair) for pair in zip(cells, widths, strict=True)), widths, right, strict=True
    )
    return GAP.join(
        cell.rjust(width) if stands_right else cell.ljust(width)
        for cell, width, stands_right in placed
    ).rstrip()


def _one_line(cell: object) -> str:
    return " ".join(str(cell).split())


def _are_numbers(cells: Sequence[str]) -> bool:
    found = [cell for cell in cells if cell != "-"]
    return bool(found) and all(cell.lstrip("-+").isdecimal() for cell in found)


def json_line(fields: Mapping[str, Any]) -> None:
    print(json.encode(fields).decode())
