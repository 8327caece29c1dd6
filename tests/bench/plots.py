"""Plots as SVG, written by hand: a few kinds are needed, and the same figures give the same bytes.

A plot is a row of panels, one for each measure. A panel shows bars of peers, or, where a workload
was measured at several sizes, lines over a logarithmic axis of sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from tests.bench.figures import number

WIDTH, HEIGHT_OF_LINES, BAR, TOP, LEFT, GAP = 460, 250, 26, 56, 64, 28
LEGEND_LINE, LEGEND_COLUMN = 18, 200
LABELS = 150
"""The width of the peers' names beside bars."""
LOGARITHMIC_FROM = 30
"""If the greatest value is so many times the least one, lines have a logarithmic axis of values."""
COLOURS: Mapping[str, str] = {
    "groupd": "#d55e00",
    "Apache Kafka": "#0072b2",
    "kfake": "#009e73",
    "librdkafka mock": "#cc79a7",
    "Tansu": "#b8860b",
    "C server (same frames)": "#555555",
}
OTHERS = ("#56b4e9", "#8c564b", "#7f7f7f", "#17becf")
STYLE = "font-family:system-ui,sans-serif;font-size:12px;fill:#222"


@dataclass(frozen=True, slots=True)
class Point:
    size: float
    median: float
    low: float
    high: float


Lines = Mapping[str, Sequence[Point]]
"""Points by peer, in the order in which they are to be shown."""


@dataclass(frozen=True, slots=True)
class Panel:
    heading: str
    lines: Lines

    @property
    def by_size(self) -> bool:
        return any(len(points) > 1 for points in self.lines.values())


def svg(title: str, panels: Sequence[Panel]) -> str:
    """A whole document."""
    peers = list(dict.fromkeys(peer for panel in panels for peer in panel.lines))
    drawn = [peer for peer in peers if any(panel.lines.get(peer) for panel in panels)]
    by_size = any(panel.by_size for panel in panels)
    body = HEIGHT_OF_LINES if by_size else BAR * len(peers)
    width = WIDTH * len(panels)
    columns = width // LEGEND_COLUMN
    legend = LEGEND_LINE * math.ceil(len(drawn) / columns) + 26 if by_size else 0
    height = TOP + body + legend + 14
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" style="{STYLE}">'
        ),
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _text(12, 20, title, "font-weight:600;font-size:14px"),
    ]
    for place, panel in enumerate(panels):
        left = place * WIDTH
        parts.append(_text(left + 12, 42, panel.heading, "fill:#555"))
        parts += _curves(panel, left, body) if panel.by_size else _bars(panel, left)
    if by_size:
        parts += _legend(drawn, columns, TOP + body + 40)
    return "\n".join([*parts, "</svg>", ""])


def colour(peer: str) -> str:
    known = COLOURS.get(peer)
    return known or OTHERS[sum(map(ord, peer)) % len(OTHERS)]


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}">'
        f"{escape(text)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{stroke}" stroke-width="{width}"/>'
    )


def _bars(panel: Panel, left: float) -> Iterator[str]:
    room = WIDTH - LABELS - 24 - 80
    greatest = max((p.high for points in panel.lines.values() for p in points), default=0) or 1
    x = left + 12 + LABELS
    for row, (peer, points) in enumerate(panel.lines.items()):
        middle = TOP + row * BAR + BAR / 2
        weight = "font-weight:600" if row == 0 else ""
        yield _text(x - 8, middle + 4, peer, weight, "end")
        if not points:
            yield _text(x, middle + 4, "cannot", "fill:#888")
            continue
        (point,) = points
        length = room * point.median / greatest
        yield (
            f'<rect x="{x:.1f}" y="{middle - 8:.1f}" width="{length:.1f}" height="16" '
            f'fill="{colour(peer)}"/>'
        )
        low, high = x + room * point.low / greatest, x + room * point.high / greatest
        yield _line(low, middle, high, middle, "#222")
        label = max(length, room * point.high / greatest)
        yield _text(x + label + 6, middle + 4, number(point.median), weight)


def _curves(panel: Panel, left: float, height: float) -> Iterator[str]:
    points = [point for found in panel.lines.values() for point in found]
    sizes = sorted({point.size for point in points})
    bottom, right = TOP + height, left + WIDTH - GAP
    across = _Logarithmic(sizes[0], sizes[-1], left + LEFT, right)
    values, up = _value_axis(points, bottom, TOP + 6)
    for value in values:
        yield _line(left + LEFT, up(value), right, up(value), "#e3e3e3")
        yield _text(left + LEFT - 6, up(value) + 4, tick(value), "fill:#555", "end")
    for size in sizes:
        yield _line(across(size), bottom, across(size), bottom + 4, "#555")
        yield _text(across(size), bottom + 17, tick(size), "fill:#555", "middle")
    yield _line(left + LEFT, bottom, right, bottom, "#555")
    for peer in reversed(list(panel.lines)):
        found = panel.lines[peer]
        if not found:
            continue
        path = " ".join(f"{across(p.size):.1f},{up(p.median):.1f}" for p in found)
        width = 2.5 if peer == next(iter(panel.lines)) else 1.6
        yield (
            f'<polyline points="{path}" fill="none" stroke="{colour(peer)}" '
            f'stroke-width="{width}"/>'
        )
        for p in found:
            x = across(p.size)
            yield _line(x, up(p.low), x, up(p.high), colour(peer))
            yield f'<circle cx="{x:.1f}" cy="{up(p.median):.1f}" r="3" fill="{colour(peer)}"/>'


class _Scale:
    """Turns values into places."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low, self._span = low, (high - low) or 1
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        return self._start + (self._end - self._start) * (value - self._low) / self._span


class _Logarithmic(_Scale):
    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        super().__init__(math.log10(low), math.log10(high), start, end)

    def __call__(self, value: float) -> float:
        return super().__call__(math.log10(value))


def _value_axis(
    points: Sequence[Point], bottom: float, top: float
) -> tuple[Sequence[float], _Scale]:
    """The ticks of an axis, and its scale: from nothing, or logarithmic where values are far
    apart."""
    least, greatest = min(p.low for p in points), max(p.high for p in points)
    if least > 0 and greatest / least >= LOGARITHMIC_FROM:
        decades = range(math.floor(math.log10(least)), math.ceil(math.log10(greatest)) + 1)
        ticks = [10.0**decade for decade in decades]
        return ticks, _Logarithmic(ticks[0], ticks[-1], bottom, top)
    step = nice(greatest / 4)
    ticks = [step * i for i in range(math.ceil(greatest / step) + 1)]
    return ticks, _Scale(0, ticks[-1], bottom, top)


def nice(value: float) -> float:
    """The least product of 1, 2 or 5 and a power of ten that is not below `value`."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= value * 0.999)


def tick(value: float) -> str:
    """A short text for a value: 20k, 1.5M, 0.05."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _legend(peers: Sequence[str], columns: int, y: float) -> Iterator[str]:
    for at, peer in enumerate(peers):
        x = 16 + at % columns * LEGEND_COLUMN
        line = y + at // columns * LEGEND_LINE
        yield f'<rect x="{x}" y="{line - 9:.1f}" width="14" height="9" fill="{colour(peer)}"/>'
        yield _text(x + 20, line, peer, "font-weight:600" if at == 0 else "")
