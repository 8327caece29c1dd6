"""The section of one group: facts, findings, the places for its charts, and its rebalances."""

from __future__ import annotations

from typing import Any

from groupd.pipeline.report.model import GroupDetail, RebalanceBar, Report
from groupd.pipeline.report.pieces import (
    Element,
    count_text,
    data,
    duration_text,
    finding_list,
    scrolled,
    tag,
    time_text,
)

_SLOW_MS = 60_000


def group_section(report: Report, detail: GroupDetail, section: str) -> Element:
    """The section; its script draws the charts from the JSON at its end."""
    row = detail.row
    mine = [finding for finding in report.findings if finding.group == row.name]
    return tag(
        "section",
        tag(
            "div",
            tag("h2", row.name),
            tag("span", class_="range"),
            tag("button", "Whole time", class_="reset", type="button", hidden=True),
            class_="head",
        ),
        tag("p", [_fact(label, value) for label, value in _facts(detail)], class_="facts"),
        finding_list(report, mine, with_group=False) if mine else None,
        _figure(section, "lag", "Lag", _lag_key(detail), f"Lag of {row.name} over time"),
        _figure(section, "rate", "Consumption", _RATE_KEY, f"Records a second of {row.name}"),
        _figure(
            section,
            "lanes",
            "Members and rebalances",
            _LANES_KEY,
            f"Members of {row.name} over time",
        ),
        _figure(
            section,
            "ownership",
            "Who reads which partition",
            _OWNERSHIP_KEY,
            f"Partitions of {row.name} and their readers",
        ),
        _rebalances(section, detail),
        [tag("p", note, class_="soft") for note in detail.notes],
        data(_json(report, detail), id=f"{section}-data"),
        class_="card group",
        id=section,
        data_data=f"{section}-data",
        data_name=row.name,
        aria_label=row.name,
    )


def _facts(detail: GroupDetail) -> list[tuple[str, str]]:
    row = detail.row
    topics = sorted({topic for topic, _ in detail.places})
    return [
        ("protocol", row.protocol),
        ("state", row.state),
        ("members", count_text(row.members)),
        ("partitions", count_text(len(detail.places))),
        (
            "topics",
            ", ".join(topics[:4]) + (f" and {len(topics) - 4} more" if len(topics) > 4 else ""),
        ),
        ("rebalances", count_text(row.rebalances)),
        ("lag", count_text(row.lag)),
    ]


def _fact(label: str, value: str) -> Element:
    return tag("span", f"{label} ", tag("b", value))


def _key(sign: str, text: str) -> Element:
    return tag(
        "span", tag("i", class_=f"sign {sign}".strip(), aria_hidden="true"), text, class_="entry"
    )


_LANES_KEY = [
    _key("", "in the group"),
    _key("waiting", "waiting for partitions"),
    _key("revoking", "giving some up"),
    _key("left", "left or removed"),
    _key("fenced", "fenced: expired or too slow"),
]
_RATE_KEY = [tag("span", "records a second, by committed offsets")]
_OWNERSHIP_KEY = [
    tag("span", "a colour a member, as above"),
    _key("nobody", "read by nobody"),
]


def _lag_key(detail: GroupDetail) -> list[Element]:
    if not any(value is not None for value in detail.lag.total):
        return [tag("span", "not known: the input has no end offsets of these topics")]
    thin = len(detail.lag.lines)
    others = f" (the {thin} with most of {thin + detail.lag.others})" if detail.lag.others else ""
    return [
        tag("span", f"records behind: all partitions, and each as a thin line{others}"),
        _key("found", "finding"),
    ]


def _figure(section: str, kind: str, title: str, key: list[Element], label: str) -> Element:
    return tag(
        "figure",
        tag("figcaption", title, key),
        tag(
            "div",
            class_="place",
            data_title=title,
            data_label=f"{label}. The table below says the same.",
        ),
        id=f"{section}-{kind}",
        data_chart=kind,
    )


_HEAD = (
    "Epoch",
    "Started",
    "Took",
    "Why",
    "Members",
    "Moved",
    "Needless",
    "Longest unread",
    "Outcome",
)


def _rebalances(section: str, detail: GroupDetail) -> Element:
    rows = [_rebalance(one) for one in detail.rebalances]
    return tag(
        "div",
        tag("h3", f"Rebalances ({count_text(detail.row.rebalances)})"),
        scrolled(f"Rebalances of {detail.row.name}", _HEAD, rows, numbers=(0, 2, 4, 5, 6, 7))
        if rows
        else tag("p", "None in this time.", class_="soft"),
        id=f"{section}-rebalances",
    )


def _rebalance(one: RebalanceBar) -> Element:
    members = f"{count_text(one.members_before)} → {count_text(one.members_after)}"
    slow = (one.unowned_max_ms or 0) > _SLOW_MS or (one.duration_ms or 0) > _SLOW_MS
    return tag(
        "tr",
        tag("td", one.epoch, class_="number"),
        tag("td", time_text(one.started_ms, seconds=True), class_="time"),
        tag("td", duration_text(one.duration_ms), class_="number"),
        tag("td", one.trigger, title=one.why),
        tag("td", members, class_="number"),
        tag("td", count_text(one.moved), class_="number"),
        tag("td", count_text(one.needless), class_="number"),
        tag("td", duration_text(one.unowned_max_ms), class_="number"),
        tag("td", one.status),
        class_="bad" if slow else None,
    )


def _json(report: Report, detail: GroupDetail) -> dict[str, Any]:
    """The data, as groupd/coordinator/console/web/src/report/data.ts describes it."""
    lanes: dict[int, str] = {}
    for life in detail.lives:
        lanes.setdefault(life.lane, life.label)
    return {
        "lag": _series(detail.lag),
        "rate": _series(detail.rate),
        "lanes": [lanes[lane] for lane in sorted(lanes)],
        "lives": [
            {
                "id": life.member_id,
                "lane": life.lane,
                "host": life.client_host,
                "joined": life.joined_ms,
                "ended": life.ended_ms,
                "endedBy": life.ended_by,
                "spans": [
                    [span.since_ms, span.until_ms, span.state, span.epoch, span.partitions]
                    for span in life.spans
                ],
            }
            for life in detail.lives
        ],
        "places": detail.places,
        "holdings": [[one.place, one.life, one.since_ms, one.until_ms] for one in detail.holdings],
        "marks": detail.rebalance_marks,
        "rebalances": [
            {
                "epoch": one.epoch,
                "since": one.started_ms,
                "ms": one.duration_ms,
                "trigger": one.trigger,
            }
            for one in detail.rebalances
        ],
        "findings": [
            {
                "severity": finding.severity,
                "topic": finding.topic,
                "partition": finding.partition,
                "since": finding.since_ms,
                "until": finding.until_ms,
                "table": finding.table,
            }
            for finding in report.findings
            if finding.group == detail.row.name
        ],
    }


def _series(series: Any) -> dict[str, Any]:
    return {"total": series.total, "lines": series.lines, "others": series.others}
