"""`groupd groups watch`: shows a daemon's groups in a terminal, and refreshes them."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from msgspec import Struct
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from groupd.coordinator.admin.http_messages import path_of
from groupd.coordinator.cli.admin_port import AdminPort, NoAnswer, nodes_of, pages
from groupd.coordinator.cli.command_errors import fail
from groupd.coordinator.cli.groups.flags import Row
from groupd.coordinator.cli.groups.listing import group_cells, member_cells, wait_text
from groupd.coordinator.cli.groups.share import SHARE, poison_lines, share_waits
from groupd.coordinator.cli.parse import now_ms
from groupd.coordinator.cli.tables import table_lines
from groupd.coordinator.lag.judgement import SEVERITY
from groupd.coordinator.lag.rows import judgement_text
from groupd.coordinator.plain_text import span_text

JUDGEMENTS = [judgement_text(one) for one in reversed(SEVERITY)]
"""The worst judgement comes first. None = not known yet."""
_COLOURS = {"stalled": "red", "stopped": "magenta", "rewound": "cyan", "behind": "yellow"}
_WIDE = 110
"""From this width on, a frame shows why a group rebalanced."""
_OF_GROUPS = ("group_id", "state", "members", "lag", "lag time", "judgement")
_OF_REBALANCES = ("last rebalance", "cause")
_OF_MEMBERS = ("member", "client", "state", "epoch", "owns", "lag", "last commit")
_FRAME_LINES = 6
"""The lines of a frame that are not rows: its title, the header and the rule of the table, and the
lines below the table."""
_LINES_MAX = 5
"""How many waits and deadlines of a group are shown at most."""


class FrameSize(Struct, frozen=True):
    """The space for a frame, in characters."""

    columns: int
    lines: int


def groups_frame(rows: Sequence[Row], at_ms: int, size: FrameSize, trouble: str = "") -> Group:
    """All groups, the worst first. `trouble`: why groups may be missing."""
    ordered = sorted(rows, key=_worst_first)
    names = [*_OF_GROUPS, *(_OF_REBALANCES if size.columns >= _WIDE else ())]
    cells = [group_cells(row, at_ms) for row in ordered[: size.lines - _FRAME_LINES]]
    bad = sum(row.get("judgement") in _COLOURS for row in rows)
    title = f"{_counted(len(rows), 'group')}, {bad} to look at"
    table = _table(names, cells, size.columns)
    return _frame(title, [*table, *_more(len(rows) - len(cells))], trouble)


def group_frame(found: Row, offsets: Row, size: FrameSize) -> Group:
    """One group: its members, what it waits for, and its next deadlines."""
    at_ms = offsets["now_ms"]
    lag = {member["member_id"]: member for member in offsets["members"]}
    waits, share = [wait_text(entry) for entry in found["blocked"]], found.get("share")
    again = [] if share is None else poison_lines(share)
    waits += [] if share is None else share_waits(share)
    due = sorted(found["deadlines"], key=lambda one: (one["in_ms"], one["member_id"]))
    below = [
        *_lines("waits for", waits),
        *_lines("delivered again and again", again),
        *_lines("deadlines", [_deadline(one) for one in due]),
    ]
    room = max(1, size.lines - _FRAME_LINES - len(below))
    members = found["members"]
    cells = [member_cells(member, lag, at_ms) for member in members[:room]]
    known = [row["lag"] for row in offsets["partitions"] if row["lag"] is not None]
    total = f", lag {sum(known)}" if known else ""
    count = _counted(len(members), "member")
    title = f"{found['group_id']}: {found['type']}, {found['state']}, {count}{total}"
    table = _table(_OF_MEMBERS, cells, size.columns) if members else []
    return _frame(title, [*table, *_more(len(members) - len(cells)), *below])


def trouble_frame(trouble: str) -> Group:
    """A frame while nothing is known yet."""
    return _frame("groupd", [], trouble)


def _worst_first(row: Row) -> tuple[int, int, str]:
    judgement = row.get("judgement")
    place = JUDGEMENTS.index(judgement) if judgement in JUDGEMENTS else 0
    return place, -(row.get("lag") or 0), row["group_id"]


def _frame(title: str, lines: Sequence[Text], trouble: str = "") -> Group:
    return Group(_line(title, "bold"), *lines, *([_line(trouble, "red")] if trouble else []))


def _table(names: Sequence[str], cells: Sequence[Mapping[str, object]], columns: int) -> list[Text]:
    rows = [[str(row[name]) for name in names] for row in cells]
    head, rule, *lines = table_lines(names, rows, columns)
    colours = [_COLOURS.get(str(row.get("judgement")), "") for row in cells]
    # `Text` is used because a group id may look like rich's markup.
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


def _deadline(entry: Row) -> str:
    owner = entry["member_id"] or "-".join(map(str, entry.get("of", ())))
    who = f" of {owner}" if owner else ""
    return f"{entry['kind']}{who} in {span_text(max(0, entry['in_ms']))}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


# The command ------------------------------------------------------------------------------------

# Without a terminal, one frame is printed as text.

EVERY_S = 2.0
ANSWER_S = 2.0
"""How long an answer may take. Keys are not read while the command waits for it."""
PAGES_MAX = 5
"""How many pages of groups a node is asked for: the command asks again soon."""

Frame = Callable[[FrameSize], Group]


def watch(group: str | None, admin: AdminPort) -> None:
    """Draws frames until the user ends the command."""
    draw = _all_groups(nodes_of(admin)) if group is None else _one_group(admin, group)
    console = Console()
    if not (console.is_terminal and sys.stdin.isatty()):
        try:
            console.print(draw(FrameSize(console.width, 10_000)))
        except NoAnswer as error:
            fail(str(error))
        return
    with _interrupts() as interrupts, _unbuffered_keys():
        _draw_again_and_again(console, draw, interrupts)


def _draw_again_and_again(console: Console, draw: Frame, interrupts: int) -> None:
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                frame = draw(FrameSize(console.width, console.height))
            except NoAnswer as error:
                frame = trouble_frame(str(error))
            live.update(frame, refresh=True)
            if _wants_end(interrupts, EVERY_S):
                return


def _all_groups(nodes: list[AdminPort]) -> Frame:
    def draw(size: FrameSize) -> Group:
        rows: list[Any] = []
        troubles = []
        for node in nodes:
            try:
                for page in islice(pages(node, "/groups", ANSWER_S), PAGES_MAX):
                    rows += page
            except NoAnswer as error:
                troubles.append(str(error))
        if len(troubles) == len(nodes):
            raise NoAnswer(troubles[0])
        return groups_frame(rows, now_ms(), size, "; ".join(troubles))

    return draw


def _one_group(admin: AdminPort, group: str) -> Frame:
    path = path_of(("groups", group))

    def draw(size: FrameSize) -> Group:
        found = next(pages(admin, path, ANSWER_S))
        if found["type"] == SHARE:
            found["share"] = next(pages(admin, f"{path}/share", ANSWER_S))
        offsets = next(pages(admin, f"{path}/offsets", ANSWER_S))
        return group_frame(found, offsets, size)

    return draw


@contextmanager
def _unbuffered_keys() -> Iterator[None]:
    """In this context keys are read at once and not echoed."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:
        tty.setcbreak(keyboard)
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


@contextmanager
def _interrupts() -> Iterator[int]:
    """Yields a file descriptor that can be read once there was a SIGINT. KeyboardInterrupt in the
    middle of drawing might be lost, because Python drops exceptions that are raised while it frees
    objects."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    waked = signal.set_wakeup_fd(writable)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield readable
    finally:
        signal.signal(signal.SIGINT, before)
        signal.set_wakeup_fd(waked)
        os.close(readable)
        os.close(writable)


def _wants_end(interrupts: int, within_s: float) -> bool:
    """Waits for an interrupt or a key, and returns whether the user wants to end the command. Keys
    other than q are ignored. The end of the input counts as q."""
    until = time.monotonic() + within_s
    keyboard = sys.stdin.fileno()
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([keyboard, interrupts], [], [], left)
        if interrupts in ready:
            return True
        if ready:
            keys = os.read(keyboard, 64)
            if not keys or b"q" in keys.lower():
                return True
    return False
