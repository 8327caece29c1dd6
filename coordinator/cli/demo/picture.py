"""The live picture of the demo, drawn with rich."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table

from groupd.coordinator.cli.demo.watch import Snapshot

LOG_LINES = 8


def picture(shot: Snapshot, log: list[tuple[float, str]], elapsed_s: float) -> RenderableType:
    """Members with epochs and partitions, offsets with lag, and the last events."""
    title = (
        f"group demo: {shot.state}   group epoch {shot.group_epoch}   "
        f"assignment epoch {shot.assignment_epoch}   {elapsed_s:.0f} s"
    )
    events = "\n".join(f"{at:6.1f} s  {text}" for at, text in log[-LOG_LINES:])
    return Group(Panel(_members(shot), title=title), _offsets(shot), Panel(events, title="events"))


def _members(shot: Snapshot) -> Table:
    table = Table(expand=True, box=None)
    for column in ("member", "epoch", "owns", "target"):
        table.add_column(column)
    for member in shot.members:
        table.add_row(
            member["client_id"],
            str(member["member_epoch"]),
            _partitions(member["owned"]),
            _partitions(member["target"]),
        )
    return table


def _offsets(shot: Snapshot) -> Table:
    table = Table(expand=True, box=None)
    table.add_column("partition")
    for partition in sorted(shot.ends):
        table.add_column(str(partition), justify="right")
    table.add_row("committed", *(str(shot.committed.get(p, "-")) for p in sorted(shot.ends)))
    table.add_row("end", *(str(shot.ends[p]) for p in sorted(shot.ends)))
    lags = (shot.ends[p] - shot.committed.get(p, 0) for p in sorted(shot.ends))
    table.add_row("lag", *(str(lag) for lag in lags))
    return table


def _partitions(topics: dict[str, list[int]]) -> str:
    return " ".join(str(p) for partitions in topics.values() for p in partitions) or "-"
