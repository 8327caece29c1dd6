"""Makes HTML from Python values, and the elements that several parts of the page use. Every string
is escaped, without exception.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

from msgspec import Struct

from groupd.pipeline.report.model import Report, ReportFinding

# Any client may choose group names, client ids and metadata, so the page must never run them.

_VOID = frozenset({"meta", "input", "br"})
_RAW = frozenset({"script", "style"})
_NOT_IN_SCRIPTS = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


class Element(Struct, frozen=True):
    """Finished HTML."""

    html: str


def tag(name: str, /, *children: Any, **attributes: Any) -> Element:
    """`<name attributes>children</name>`. In the name of an attribute a trailing underscore is
    dropped and other underscores become hyphens. None and False omit the attribute, True gives it
    no value."""
    head = f"<{name}{_attributes(attributes)}>"
    if name in _VOID:
        return Element(head)
    return Element(f"{head}{_children(children)}</{name}>")


def own_text(name: str, text: str, **attributes: Any) -> Element:
    """An element with a script or style of our own. Raises ValueError if the text could end it
    early."""
    if name not in _RAW or f"</{name}" in text.lower():
        raise ValueError(f"no text for a {name}")
    return Element(f"<{name}{_attributes(attributes)}>{text}</{name}>")


def data(value: Any, **attributes: Any) -> Element:
    """JSON that no browser runs and that cannot end its element."""
    # Not msgspec, which writes null for a number that JSON does not have.
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character, escaped in _NOT_IN_SCRIPTS.items():
        text = text.replace(character, escaped)
    return own_text("script", text, type="application/json", **attributes)


def _attributes(attributes: dict[str, Any]) -> str:
    parts = []
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        label = name.rstrip("_").replace("_", "-")
        parts.append(f" {label}" if value is True else f' {label}="{escape(str(value))}"')
    return "".join(parts)


def _children(children: Any) -> str:
    if children is None:
        return ""
    if isinstance(children, Element):
        return children.html
    if isinstance(children, str):
        return escape(children)
    if isinstance(children, int | float):
        return str(children)
    return "".join(_children(child) for child in children)


_SYMBOLS = {"critical": "◆ critical", "warning": "■ warning", "info": "● info", "good": "● fine"}
_SECTIONS = {
    "rebalances": "rebalances",
    "rebalance_moves": "ownership",
    "ownership": "ownership",
    "members": "lanes",
    "member_epochs": "lanes",
}
"""The part of a group's section that shows the rows of a table; the other tables are about
offsets."""

_OFFSETS_SECTION = "lag"
_SPARK_WIDTH, _SPARK_HEIGHT = 132, 20
_FACTS_MAX = 6
_TEXT_MAX = 120
_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


def section_ids(report: Report) -> dict[str, str]:
    """The id of each group's section. Ids are generated, because a group name may be anything."""
    return {detail.row.name: f"g{number}" for number, detail in enumerate(report.details, 1)}


def time_text(at_ms: int | None, *, seconds: bool = False) -> str:
    """An instant as text, in UTC."""
    if at_ms is None:
        return "–"
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def duration_text(ms: int | None) -> str:
    """A length of time in its two largest units: `2 d 3 h`."""
    if ms is None:
        return "–"
    for number, (size, unit) in enumerate(_UNITS):
        if ms >= size:
            whole, rest = divmod(ms, size)
            text = f"{whole} {unit}"
            if size > 1000 and rest >= _UNITS[number + 1][0]:
                text += f" {rest // _UNITS[number + 1][0]} {_UNITS[number + 1][1]}"
            return text
    return "0 ms"


def count_text(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def short_number(value: int) -> str:
    """A number in short form, for figures read at a glance."""
    for size, unit in ((1_000_000_000, " G"), (1_000_000, " M"), (10_000, " k")):
        if value >= size:
            return f"{value / (1000 if unit == ' k' else size):.3g}{unit}"
    return f"{value:,}"


def badge(severity: str | None, text: str = "") -> Element:
    """The severity as a symbol, a word and a colour."""
    known = severity if severity in _SYMBOLS else "info"
    label = _SYMBOLS[known]
    return tag("span", f"{label.split()[0]} {text}" if text else label, class_=f"badge {known}")


def scrolled(
    label: str, head: Sequence[str], rows: Iterable[Element], *, numbers: Collection[int] = ()
) -> Element:
    """A table in a box that scrolls if the table is too wide; the page's script then adds a note
    above it. `label`: the name for screen readers. `numbers`: the columns that are aligned
    right."""
    titles = [
        tag("th", title, scope="col", class_="number" if column in numbers else None)
        for column, title in enumerate(head)
    ]
    table = tag("table", tag("thead", tag("tr", titles)), tag("tbody", rows), class_="auto")
    return tag(
        "div", table, class_="table-box scroll", tabindex="0", role="region", aria_label=label
    )


def spark(values: Sequence[float | None]) -> Element | None:
    """A small line chart without axes. It has a gap where nothing is known."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    top = max(known) or 1
    path = []
    for number, value in enumerate(values):
        if value is None:
            continue
        x = number * _SPARK_WIDTH / (len(values) - 1)
        y = _SPARK_HEIGHT - 2 - value / top * (_SPARK_HEIGHT - 4)
        path.append(f"{'L' if number and values[number - 1] is not None else 'M'}{x:.1f} {y:.1f}")
    return tag(
        "svg",
        tag("path", d="".join(path)),
        class_="spark",
        width=_SPARK_WIDTH,
        height=_SPARK_HEIGHT,
        role="img",
        aria_label=f"lag over time, at most {top:,.0f}",
    )


def finding_list(report: Report, findings: Iterable[ReportFinding], *, with_group: bool) -> Element:
    ids = section_ids(report)
    return tag(
        "ol",
        [_finding(one, ids.get(one.group), with_group=with_group) for one in findings],
        class_="findings",
    )


def _finding(finding: ReportFinding, section: str | None, *, with_group: bool) -> Element:
    what = [
        tag("b", finding.kind.replace("-", " ").capitalize()),
        " ",
        shortened(finding.summary, 400),
    ]
    if with_group:
        what = [tag("b", shortened(finding.group)), " · ", *what]
    return tag(
        "li",
        badge(finding.severity),
        tag("span", what, class_="what"),
        _evidence(finding, section),
        tag("span", _about(finding), class_="meta"),
        class_=finding.severity,
    )


def _evidence(finding: ReportFinding, section: str | None) -> Element:
    if section is None:
        return tag("span")
    return tag(
        "a",
        "Evidence",
        href=f"#{section}-{_SECTIONS.get(finding.table, _OFFSETS_SECTION)}",
        data_group=section,
        data_since=finding.since_ms,
        data_until=finding.until_ms,
        aria_label=f"Evidence: {finding.kind}, {shortened(finding.group)}",
    )


def _about(finding: ReportFinding) -> str:
    parts = []
    if finding.since_ms is not None:
        until = (
            f" – {time_text(finding.until_ms)}"
            if finding.until_ms not in (None, finding.since_ms)
            else ""
        )
        parts.append(f"{time_text(finding.since_ms)}{until}")
    if finding.topic is not None:
        place = (
            finding.topic if finding.partition is None else f"{finding.topic}-{finding.partition}"
        )
        parts.append(place)
    if finding.member:
        parts.append(f"member {shortened(finding.member)}")
    parts += [_fact(name, value) for name, value in _facts(finding)]
    return " · ".join(parts)


def _facts(finding: ReportFinding) -> list[tuple[str, Any]]:
    plain = [
        (str(name), value)
        for name, value in finding.facts.items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    ]
    return plain[:_FACTS_MAX]


def _fact(name: str, value: str | int | float) -> str:
    label = name.replace("_", " ")
    if isinstance(value, str):
        return f"{label} {shortened(value)}"
    if name.endswith("_ms"):
        return f"{label.removesuffix(' ms')} {duration_text(int(value))}"
    return f"{label} {value:,.4g}" if isinstance(value, float) else f"{label} {value:,}"


def shortened(text: str, most: int = _TEXT_MAX) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
