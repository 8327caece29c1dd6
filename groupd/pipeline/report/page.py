"""Renders a `Report` as a page: tables and text are made here, charts by the page's own script,
which is built from the components of the console (groupd/coordinator/console/web/src/report).

The page loads nothing from elsewhere. A content policy with the hashes of its script and style
makes sure that nothing else can run, whatever the name of a group is.
"""

from __future__ import annotations

import base64
import hashlib

from groupd.coordinator.console.built import built_files
from groupd.pipeline.errors import JobFailed
from groupd.pipeline.report.group_section import group_section
from groupd.pipeline.report.model import SEVERITIES, GroupRow, Report
from groupd.pipeline.report.pieces import (
    Element,
    badge,
    count_text,
    data,
    duration_text,
    finding_list,
    own_text,
    scrolled,
    section_ids,
    short_number,
    spark,
    tag,
    time_text,
)
from groupd.pipeline.report.share_section import SECTION, share_section

_STYLE, _SCRIPT = "report.css", "report.js"


def render(report: Report) -> str:
    """The whole page as text, to be written in UTF-8. Raises JobFailed if its parts are not
    built."""
    style, script = page_parts()
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", f"Consumer groups: {report.source}"),
        own_text("style", style),
    )
    times = {"start": report.start_ms, "end": report.end_ms, "steps": report.steps}
    body = tag(
        "body",
        tag("a", "Skip to the overview", href="#overview", class_="skip"),
        _header(report),
        tag("div", _navigation(report), _main(report), class_="layout"),
        data(times, id="report-data"),
        own_text("script", script),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en").html + "\n"


def page_parts() -> tuple[str, str]:
    """The style and the script of the page. Raises JobFailed if they are not built."""
    built = built_files()
    if _STYLE not in built or _SCRIPT not in built:
        raise JobFailed(
            "this installation cannot make the page: it was made without npm. Install npm and then "
            "groupd again (in a checkout: `make report`), or install groupd from a wheel"
        )
    return built[_STYLE].decode(), built[_SCRIPT].decode()


def _policy(style: str, script: str) -> str:
    return f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _header(report: Report) -> Element:
    where = f"{report.source} · {time_text(report.start_ms)} – {time_text(report.end_ms)} UTC"
    return tag(
        "header",
        tag("span", _logo(), "groupd", class_="brand"),
        tag("span", where, class_="where", title=where),
        tag("button", "Theme: auto", id="theme", type="button", class_="quiet"),
        class_="top",
    )


def _logo() -> Element:
    return tag(
        "svg",
        tag("path", d="M2 3h5v4H2zM9 3h5v4H9zM2 9h5v4H2z"),
        tag("path", d="M9 9h5v4H9z", class_="faint"),
        width=18,
        height=18,
        viewBox="0 0 16 16",
        aria_hidden="true",
    )


def _navigation(report: Report) -> Element:
    ids = section_ids(report)
    parts = [("Overview", "overview")]
    if report.shares.rows:
        parts.append(("Share groups", SECTION))
    items = [
        tag(
            "li",
            tag(
                "a",
                tag("span", class_=f"dot {detail.row.severity or ''}"),
                tag("span", detail.row.name, class_="name", title=detail.row.name),
                tag("span", detail.row.findings or "", class_="count"),
                href=f"#{ids[detail.row.name]}",
            ),
            data_name=detail.row.name,
        )
        for detail in report.details
    ]
    return tag(
        "nav",
        tag(
            "input",
            id="filter",
            type="search",
            placeholder="Filter groups",
            aria_label="Filter groups",
        ),
        tag("ul", [tag("li", tag("a", label, href=f"#{at}")) for label, at in parts], items),
        aria_label="Groups",
    )


def _main(report: Report) -> Element:
    ids = section_ids(report)
    return tag(
        "main",
        _overview(report),
        share_section(report),
        [group_section(report, detail, ids[detail.row.name]) for detail in report.details],
        tag(
            "footer",
            f"Made {time_text(report.made_ms)} UTC by groupd-pipeline report. All times are UTC. "
            "Drag over a chart to zoom, double-click to go back; with the keyboard: arrows, +, - "
            "and 0.",
        ),
    )


def _overview(report: Report) -> Element:
    tiles = [
        _tile(label, short_number(value), title=count_text(value))
        for label, value in report.counts.items()
    ]
    for severity in SEVERITIES[:2]:
        found = report.severities.get(severity, 0)
        tiles.append(_tile(f"{severity} findings", str(found), tone=severity if found else ""))
    covered, end = duration_text(report.end_ms - report.start_ms), time_text(report.end_ms)
    return tag(
        "section",
        tag("h1", "Consumer groups"),
        tag(
            "p",
            f"{covered} of {report.source}, up to {end} UTC.",
            class_="soft",
        ),
        tag(
            "noscript",
            tag("p", "Charts need JavaScript; the tables and findings do not.", class_="notice"),
        ),
        tag("div", tiles, class_="headline"),
        tag("h2", "Findings, the worst first"),
        finding_list(report, report.findings, with_group=True)
        if report.findings
        else tag("p", "Nothing was found that needs attention.", class_="soft"),
        _left_out(report.findings_left_out, "findings of lesser weight are not listed"),
        tag("h2", "Groups"),
        _groups(report),
        _left_out(
            report.groups_left_out,
            f"groups are in the input and not on this page, which shows {len(report.groups)}: "
            "those with the worst findings, then those with the most lag (--groups, --top)",
        ),
        id="overview",
    )


def _tile(label: str, value: str, *, tone: str = "", title: str | None = None) -> Element:
    return tag(
        "div",
        tag("div", label, class_="tile-label"),
        tag("div", value, class_="tile-value", title=title),
        class_=f"tile {tone}".strip(),
    )


def _left_out(how_many: int, text: str) -> Element | None:
    return tag("p", f"{how_many:,} {text}.", class_="soft") if how_many else None


def _groups(report: Report) -> Element:
    ids = section_ids(report)
    head = (
        "Group",
        "Findings",
        "Protocol",
        "State",
        "Members",
        "Rebalances",
        "Lag",
        "Most",
        "Lag over time",
    )
    rows = [_group_line(row, ids.get(row.name)) for row in report.groups]
    return scrolled("Groups", head, rows, numbers=range(4, 8))


def _group_line(row: GroupRow, section: str | None) -> Element:
    name = row.name if section is None else tag("a", row.name, href=f"#{section}")
    found = badge(row.severity, str(row.findings)) if row.severity else badge("good", "none")
    return tag(
        "tr",
        tag("td", name, class_="group-name"),
        tag("td", found),
        tag("td", row.protocol),
        tag("td", row.state),
        [
            tag("td", count_text(value), class_="number")
            for value in (row.members, row.rebalances, row.lag, row.lag_max)
        ],
        tag("td", spark(row.trend)),
        data_name=row.name,
    )
