"""A report made by hand, and what its page says when it is parsed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from groupd.pipeline.report.model import (
    EpochSpan,
    GroupDetail,
    GroupRow,
    HoldingBar,
    LifeBar,
    RebalanceBar,
    Report,
    ReportFinding,
    Series,
    SharePart,
    ShareRange,
    ShareRow,
)

START_MS = 1_768_003_200_000
STEP_MS = 600_000
STEPS = 12
END_MS = START_MS + STEPS * STEP_MS
HOSTILE = "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>'\"&<!--"


def at(minutes: int) -> int:
    return START_MS + minutes * 60_000


def detail(name: str, severity: str | None = "critical", note: str = "") -> GroupDetail:
    """Two members, one of whom expires after an hour; four partitions."""
    row = GroupRow(
        name, severity, 2, "two things", "consumer", "Stable", 1, 3, 70, 500, [1.0, None, 5.0]
    )
    lag = [float(step * 10) for step in range(STEPS)]
    topic = f"orders{note}"
    lives = [
        LifeBar(
            f"id-a{note}",
            0,
            f"worker-a{note}",
            f"/10.0.0.1{note}",
            at(0),
            None,
            None,
            [EpochSpan(at(0), at(60), "stable", 3, 2), EpochSpan(at(60), None, "waiting", 4, 2)],
        ),
        LifeBar(
            f"id-b{note}",
            1,
            f"worker-b{note}",
            "/10.0.0.2",
            at(1),
            at(60),
            f"expired{note}",
            [EpochSpan(at(1), at(60), "stable", 3, 2)],
        ),
    ]
    return GroupDetail(
        row,
        Series(lag, [(topic, 1, lag)], 3),
        Series([None, *lag[1:]], [(topic, 1, lag)], 3),
        lives,
        [(topic, number) for number in range(4)],
        [
            HoldingBar(0, 0, at(0), None),
            HoldingBar(1, 1, at(1), at(60)),
            HoldingBar(1, 0, at(62), None),
        ],
        [
            RebalanceBar(
                4,
                at(60),
                120_000,
                "completed",
                "expiry",
                f"id-b expired{note}",
                2,
                1,
                2,
                0,
                120_000,
            )
        ],
        [(at(0), at(1)), (at(60), at(62))],
        [f"a note{note}"],
    )


def findings(name: str, note: str = "") -> list[ReportFinding]:
    return [
        ReportFinding(
            name,
            "stuck-partition",
            "critical",
            f"orders-1 stands{note}",
            f"orders{note}",
            1,
            None,
            at(30),
            at(90),
            "offsets",
            {"lag": 500, f"who{note}": note, "ratio": 0.25},
        ),
        ReportFinding(
            name,
            "rebalance-storm",
            "warning",
            "3 rebalances",
            None,
            None,
            f"id-b{note}",
            at(60),
            None,
            "rebalances",
        ),
    ]


def report(
    names: Sequence[str] = ("billing",), *, note: str = "", rows: int | None = None
) -> Report:
    """`note` is part of every text that somebody else chose; `rows`: groups in the list."""
    details = [detail(name, note=note) for name in names]
    found = [one for name in names for one in findings(name, note)]
    listed = [one.row for one in details]
    listed += [
        GroupRow(f"g-{number}", None, 0, "", "classic", "Empty", 0, 0, None, None)
        for number in range(len(listed), rows or 0)
    ]
    return Report(
        f"a log{note}", START_MS, END_MS, END_MS, STEPS, {"groups": len(listed), "commits": 48_000},
        {"critical": len(names), "warning": len(names)}, found, 0, listed, 0, details,
        shares(note),
    )  # fmt: skip


def shares(note: str = "") -> SharePart:
    """Two share-partitions, and records of one of them."""
    rows = [
        ShareRow(f"jobs{note}", f"orders{note}", 0, 40, 3, 1, 4, 5, 38, 90_000, 7, (0.0, 4.0)),
        ShareRow(f"jobs{note}", f"orders{note}", 1, 40, 0, 0, 0, 1, None, None, None),
    ]
    ranges = [
        ShareRange(f"jobs{note}", f"orders{note}", 0, 38, 38, 5, "archived", START_MS),
        ShareRange(f"jobs{note}", f"orders{note}", 0, 39, 44, 2, "accepted", START_MS),
    ]
    return SharePart(rows, 12, ranges)


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, text, and JSON by id."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.json: dict[str, Any] = {}
        self.unclosed: list[str] = []
        self._script: str | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.elements.append((tag, attributes))
        if tag not in ("meta", "input"):
            self.unclosed.append(tag)
        if tag == "script" and attributes.get("type") == "application/json":
            self._script = attributes["id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = self.unclosed[-1] if self.unclosed else ""
        if self._script is not None and inside == "script":
            self.json[self._script] = json.loads(data)
            self._script = None
        elif inside not in ("script", "style"):
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [a["id"] or "" for _, a in self.elements if "id" in a]
