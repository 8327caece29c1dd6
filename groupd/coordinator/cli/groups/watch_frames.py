"""What `groupd groups watch` draws: all groups, or one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from rich.console import Group
from rich.text import Text

from groupd.coordinator.cli.groups.listing import group_cells
from groupd.coordinator.cli.groups.live import member_cells, wait_text
from groupd.coordinator.cli.groups.tables import drawn
from groupd.coordinator.lag.judgement import SEVERITY
from groupd.coordinator.lag.rows import judgement_text
from groupd.coordinator.plain_text import span_text

Shown = Mapping[str, Any]

JUDGEMENTS = [judgement_text(one) for one in reversed(SEVERITY)]
"""The worst comes first; None = not known yet."""
_COLOURS = {"stalled": "red", "stopped": "magenta", "rewound": "cyan", "behind": "yellow"}
_WIDE = 110
"""From this width on, a frame shows why a group rebalanced."""
_OF_GROUPS = ("group_id", "state", "members", "lag", "lag time", "judgement")
_OF_REBALANCES = ("last rebalance", "cause")
_OF_MEMBERS = ("member", "client", "state", "epoch", "owns", "lag", "last commit")
_FRAME_LINES = 6
"""Lines of a frame that are no rows: its title, the head and the rule of the table, the lines
below."""
_LINES_MAX = 5
"""How many waits and deadlines of a group are shown."""


class FrameSize(Struct, frozen=True):
    """The room for a frame, in characters."""

    columns: int
    lines: int


def groups_frame(rows: Sequence[Shown], at_ms: int, size: FrameSize, trouble: str = "") -> Group:
    """All groups, those first that somebody should look at. `trouble`: why it may not be all."""
    ordered = sorted(rows, key=_worst_first)
    names = [*_OF_GROUPS, *(_OF_REBALANCES if size.columns >= _WIDE else ())]
    cells = [group_cells(row, at_ms) for row in ordered[: size.lines - _FRAME_LINES]]
    bad = sum(row.get("judgement") in _COLOURS for row in rows)
    title = f"{_counted(len(rows), 'group')}, {bad} to look at"
    table = _table(names, cells, size.columns)
    return _frame(title, [*table, *_more(len(rows) - len(cells))], trouble)


def group_frame(found: Shown, offsets: Shown, size: FrameSize, trouble: str = "") -> Group:
    """One group: its members, what it waits for, and its next deadlines."""
    at_ms = offsets["now_ms"]
    lag = {member["member_id"]: member for member in offsets["members"]}
    waits = [wait_text(entry) for entry in found["blocked"]]
    due = sorted(found["deadlines"], key=lambda one: (one["in_ms"], one["member_id"]))
    below = [*_lines("waits for", waits), *_lines("deadlines", [_deadline(one) for one in due])]
    room = max(1, size.lines - _FRAME_LINES - len(below))
    members = found["members"]
    cells = [member_cells(member, lag, at_ms) for member in members[:room]]
    known = [row["lag"] for row in offsets["partitions"] if row["lag"] is not None]
    total = f", lag {sum(known)}" if known else ""
    count = _counted(len(members), "member")
    title = f"{found['group_id']}: {found['type']}, {found['state']}, {count}{total}"
    table = _table(_OF_MEMBERS, cells, size.columns) if members else []
    return _frame(title, [*table, *_more(len(members) - len(cells)), *below], trouble)


def trouble_frame(trouble: str) -> Group:
    """Nothing is known yet."""
    return _frame("groupd", [], trouble)


def _worst_first(row: Shown) -> tuple[int, int, str]:
    judgement = row.get("judgement")
    place = JUDGEMENTS.index(judgement) if judgement in JUDGEMENTS else 0
    return place, -(row.get("lag") or 0), row["group_id"]


def _frame(title: str, lines: Sequence[Text], trouble: str) -> Group:
    return Group(_line(title, "bold"), *lines, *([_line(trouble, "red")] if trouble else []))


def _table(names: Sequence[str], cells: Sequence[Mapping[str, object]], columns: int) -> list[Text]:
    rows = [[str(row[name]) for name in names] for row in cells]
    head, rule, *lines = drawn(names, rows, columns)
    colours = [_COLOURS.get(str(row.get("judgement")), "") for row in cells]
    # Text, because an id may look like rich's markup.
    shown = [_line(line, colour) for line, colour in zip(lines, colours, strict=True)]
    return [_line(head, "dim"), _line(rule, "dim"), *shown]


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _lines(title: str, lines: Sequence[str]) -> list[Text]:
    shown = [_line(f"  {line}") for line in lines[:_LINES_MAX]]
    if not shown:
        return []
    return [_line(f"{title}:", "dim"), *shown, *_more(len(lines) - len(shown))]


def _more(count: int) -> list[Text]:
    return [_line(f"  ... and {count} more", "dim")] if count > 0 else []


def _deadline(entry: Shown) -> str:
    owner = entry["member_id"] or "-".join(map(str, entry.get("of", ())))
    who = f" of {owner}" if owner else ""
    return f"{entry['kind']}{who} in {span_text(max(0, entry['in_ms']))}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
