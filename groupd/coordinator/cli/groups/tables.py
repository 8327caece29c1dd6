"""Prints groups, offsets and changes: as JSON lines for programs, as tables for people."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from groupd.coordinator.cli.parse import show_time
from groupd.coordinator.history.changes import (
    Author,
    Change,
    CommittedOffset,
    LoggedGroupEvent,
    OffsetChange,
    who_moved,
)
from groupd.coordinator.plain_text import span_text

WIDTH = 120
"""The width of a table that is not printed to a terminal."""

GAP = "   "
LEAST = 8
"""No column becomes narrower than this."""
CUT = ".."
INDENT = " " * 4
NOT_KNOWN = "not known yet"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, wide: bool = False) -> None:
    """Prints a header, a rule and the rows. Numbers are aligned right. `wide`: no line is cut."""
    shown = [[_one_line(cell) for cell in row] for row in rows]
    for line in drawn(columns, shown, None if wide else output_width()):
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
    return value if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)


def ago(time_ms: int | None, now_ms: int) -> str:
    return "-" if time_ms is None else f"{span_text(max(0, now_ms - time_ms))} ago"


def lasting(seconds: float | None) -> str:
    """A length of time for people."""
    return "-" if seconds is None else span_text(int(seconds * 1000))


def judged(row: Mapping[str, Any]) -> dict[str, object]:
    """The cells of the oldest record's waiting time and of the judgement, by column. If the admin
    port does not know a value yet, the cell says so. It is "-" if Kafka does not tell it, or if no
    offset is committed."""
    if "judgement" not in row or row.get("committed_offset", 0) is None:
        return {"lag time": "-", "judgement": "-"}
    age = row["lag_seconds"]
    return {
        "lag time": NOT_KNOWN if row["lag"] and age is None else lasting(age),
        "judgement": row["judgement"] or NOT_KNOWN,
    }


def output_width() -> int:
    """The number of columns of the terminal; `WIDTH` if there is none."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() else WIDTH


def drawn(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """The lines of a table, of at most `width` characters unless there are too many columns."""
    by_column = [[name, *(row[index] for row in rows)] for index, name in enumerate(columns)]
    wanted = [max(map(len, cells)) for cells in by_column]
    widths = wanted if width is None else _fitted(wanted, width - len(GAP) * (len(columns) - 1))
    right = [_are_numbers(cells[1:]) for cells in by_column]
    lines = [_line(cells, widths, right) for cells in ([*columns], *rows)]
    rule = "─" * (sum(widths) + len(GAP) * (len(columns) - 1))
    return [lines[0], rule, *lines[1:]]


def cut(text: str, width: int) -> str:
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
        (cut(*pair) for pair in zip(cells, widths, strict=True)), widths, right, strict=True
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
    print(json.dumps(fields, separators=(",", ":"), ensure_ascii=False), flush=False)


def offset_fields(group_id: str, offset: CommittedOffset) -> dict[str, Any]:
    return {
        "group": group_id,
        "topic": offset.topic,
        "partition": offset.partition,
        **_point(offset),
    }


def _point(offset: CommittedOffset) -> dict[str, Any]:
    return {
        "offset": offset.offset,
        "leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commit_time_ms": offset.commit_time_ms,
        "log_offset": offset.log_offset,
        "topic_id": str(UUID(bytes=offset.topic_id)),
    }


def change_fields(group_id: str, change: Change) -> dict[str, Any]:
    common = {
        "kind": change.kind.value,
        "time_ms": change.time_ms,
        "time": show_time(change.time_ms),
        "log_offset": change.log_offset,
        "group": group_id,
    }
    if isinstance(change, LoggedGroupEvent):
        event = {"member_id": change.member_id, "epoch": change.epoch}
        return {"type": "event", **common, **event, "details": dict(change.details)}
    return {
        "type": "offset",
        **common,
        "topic": change.topic,
        "partition": change.partition,
        "from": None if change.before is None else _point(change.before),
        "to": None if change.after is None else _point(change.after),
        "by": _author_fields(change.author),
        "cause": change.cause,
    }


def _author_fields(author: Author) -> dict[str, Any]:
    return {
        "actor": author.actor.value,
        "member_id": author.member_id,
        "instance_id": author.instance_id,
        "client_id": author.client_id,
        "client_host": author.client_host,
        "epoch": author.epoch,
        "producer_id": author.producer_id,
        "producer_epoch": author.producer_epoch,
    }


def change_line(change: Change) -> str:
    """Describes a change in one line: the time, the offset in the log, the partition or the event,
    the change, and who made it."""
    where = f"@{change.log_offset}"
    if isinstance(change, LoggedGroupEvent):
        facts = [change.member_id] if change.member_id else []
        facts += [f"epoch={change.epoch}"] if change.epoch >= 0 else []
        facts += [f"{key}={value}" for key, value in change.details.items()]
        words = " ".join([f"* {change.kind.value}", *facts])
        return f"{show_time(change.time_ms)}  {where:>8}  {words}"
    place = f"{change.topic}-{change.partition}"
    line = f"{show_time(change.time_ms)}  {where:>8}  {place}  {change.kind.value:<8} "
    return f"{line}{_step(change)}  by {who_moved(change)}"


def _step(change: OffsetChange) -> str:
    before, after = change.before, change.after
    step = f"{'none' if before is None else before.offset} -> "
    step += "none" if after is None else str(after.offset)
    if before is not None and after is not None and before.offset != after.offset:
        step += f" ({after.offset - before.offset:+d})"
    return step
