"""The section about share groups: tables only, so nothing of it needs the page's script."""

from __future__ import annotations

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
_HEAD = (
    "Group",
    "Partition",
    "Accepted",
    "Released",
    "Archived",
    "Redelivered",
    "Most deliveries",
    "Start offset",
    "Stands still",
    "Lag",
    "Redelivered over time",
)
_RANGES_HEAD = ("Group", "Partition", "Offsets", "Deliveries", "In the end", "Last answer")


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
        scrolled("Share-partitions", _HEAD, map(_row, part.rows), numbers=range(2, 10)),
        tag("p", left_out, class_="soft") if part.left_out else None,
        tag("h3", "Records that were delivered most often"),
        scrolled("Records", _RANGES_HEAD, map(_range, part.ranges), numbers=(2, 3))
        if part.ranges
        else tag("p", "No record was delivered more than once.", class_="soft"),
        class_="card",
        id=SECTION,
        aria_label="Share groups",
    )


def _row(row: ShareRow) -> Element:
    numbers = (row.accepted, row.released, row.archived, row.redelivered, row.most_deliveries)
    return tag(
        "tr",
        tag("td", row.group, class_="group-name"),
        tag("td", f"{row.topic}-{row.partition}"),
        [tag("td", count_text(value), class_="number") for value in (*numbers, row.start_offset)],
        tag("td", duration_text(row.still_ms), class_="number"),
        tag("td", count_text(row.lag), class_="number"),
        tag("td", spark(row.trend)),
    )


def _range(one: ShareRange) -> Element:
    last = "" if one.last_offset == one.first_offset else f" – {one.last_offset}"
    return tag(
        "tr",
        tag("td", one.group, class_="group-name"),
        tag("td", f"{one.topic}-{one.partition}"),
        tag("td", f"{one.first_offset}{last}", class_="number"),
        tag("td", one.deliveries, class_="number"),
        tag("td", one.outcome),
        tag("td", time_text(one.last_ms), class_="time"),
    )
