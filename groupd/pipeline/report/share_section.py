"""The section about share groups: tables only, so nothing of it needs the page's script."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from groupd.pipeline.report.model import Report, ShareRange, ShareRow
from groupd.pipeline.report.pieces import (
    Element,
    count_text,
    duration_text,
    scrolled,
    spark,
    tag,
    time_text,
)

SECTION = "share-groups"
_Cells = Mapping[str, Callable[[Any], Any]]
"""The columns of a table by title: each makes the content of a cell from a row."""

_PARTITIONS: Mapping[str, Callable[[ShareRow], Any]] = {
    "Group": lambda row: row.group,
    "Partition": lambda row: f"{row.topic}-{row.partition}",
    "Accepted": lambda row: count_text(row.accepted),
    "Released": lambda row: count_text(row.released),
    "Archived": lambda row: count_text(row.archived),
    "Redelivered": lambda row: count_text(row.redelivered),
    "Most deliveries": lambda row: count_text(row.most_deliveries),
    "Start offset": lambda row: count_text(row.start_offset),
    "Stands still": lambda row: duration_text(row.still_ms),
    "Lag": lambda row: count_text(row.lag),
    "Redelivered over time": lambda row: spark(row.trend),
}
_RANGES: Mapping[str, Callable[[ShareRange], Any]] = {
    "Group": lambda one: one.group,
    "Partition": lambda one: f"{one.topic}-{one.partition}",
    "Offsets": lambda one: _offsets(one.first_offset, one.last_offset),
    "Deliveries": lambda one: one.deliveries,
    "In the end": lambda one: one.outcome,
    "Last answer": lambda one: time_text(one.last_ms),
}


def share_section(report: Report) -> Element | None:
    """The section; None if the log has no state of share groups."""
    part = report.shares
    if not part.rows:
        return None
    left_out = f"{part.left_out:,} share-partitions with fewer redeliveries are not listed."
    return tag(
        "section",
        tag("h2", "Share groups"),
        tag(
            "p",
            "What share groups did with their records. Released records are delivered again; "
            "archived ones were rejected, given up or are not in the topic. "
            "The start offset moves when the records before it have ended.",
            class_="soft",
        ),
        _table("Share-partitions", _PARTITIONS, part.rows, range(2, 10)),
        tag("p", left_out, class_="soft") if part.left_out else None,
        tag("h3", "Records that were delivered most often"),
        _table("Records", _RANGES, part.ranges, (2, 3))
        if part.ranges
        else tag("p", "No record was delivered more than once.", class_="soft"),
        class_="card",
        id=SECTION,
        aria_label="Share groups",
    )


def _table(label: str, cells: _Cells, rows: Iterable[Any], numbers: Collection[int]) -> Element:
    numbered = ("number" if column in numbers else None for column in range(1, len(cells)))
    classes = ("group-name", *numbered)

    def line(row: Any) -> Element:
        each = zip(cells.values(), classes, strict=True)
        return tag("tr", [tag("td", cell(row), class_=kind) for cell, kind in each])

    return scrolled(label, list(cells), map(line, rows), numbers=numbers)


def _offsets(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} – {last}"
