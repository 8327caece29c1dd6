"""Medians, spread and ratios, as Markdown."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Samples = Mapping[str, Sequence[float]]
"""The measured values by peer; the list is empty if the peer cannot do it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The values of every peer. `notes`: by peer, such as why it has no figure. `measure`:
    which thing was measured, where there are several; workloads of one name share a table.
    `figure`: the plot that this is a point of, at `size` (of one measure); without it there is a
    plot of its own."""

    name: str
    unit: str
    samples: Samples
    notes: Mapping[str, str] | None = None
    measure: str = ""
    figure: str = ""
    size: float = 0
    higher_is_better: bool = False

    @property
    def title(self) -> str:
        return f"{self.name}: {self.measure}" if self.measure else self.name


def spread(samples: Sequence[float]) -> tuple[float, float]:
    """The tenth and the ninetieth percentile; of few samples the least and the greatest."""
    if len(samples) < 10:
        return min(samples), max(samples)
    tenths = statistics.quantiles(samples, n=10, method="inclusive")
    return tenths[0], tenths[-1]


def table(workload: Workload) -> str:
    """Markdown: peer, median, spread, how many times the first peer's median, number of runs."""
    reference = next(iter(workload.samples))
    lines = [
        f"**{workload.title}**, {workload.unit}",
        "",
        f"| peer | median | spread | times {reference} | runs |",
        "|---|---|---|---|---|",
    ]
    base = statistics.median(workload.samples[reference]) if workload.samples[reference] else None
    for peer, samples in workload.samples.items():
        note = (workload.notes or {}).get(peer, "")
        if not samples:
            lines.append(f"| {peer} | {note or 'cannot do this'} | | | 0 |")
            continue
        median, (low, high) = statistics.median(samples), spread(samples)
        ratio = f"{median / base:.2f}" if base and peer != reference else ""
        cells = (number(median), f"{number(low)} to {number(high)}", ratio, str(len(samples)))
        lines.append(f"| {peer}{f' ({note})' if note else ''} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def interleaved(
    runs: int,
    peers: Sequence[str],
    measure: Callable[[str], float | None],
    notes: dict[str, str] | None = None,
    cannot: tuple[type[Exception], ...] = (),
) -> dict[str, list[float]]:
    """`measure` of every peer, `runs` times over, each time beginning with another one, so that
    what the machine does meanwhile hits all. None, or one of the exceptions `cannot`, whose first
    line is then the peer's note: it cannot do that, and is not asked again."""
    samples: dict[str, list[float]] = {peer: [] for peer in peers}
    asked = list(peers)
    for run in range(runs):
        shift = run % len(asked) if asked else 0
        for peer in asked[shift:] + asked[:shift]:
            try:
                value = measure(peer)
            except cannot as error:
                value = None
                if notes is not None:
                    notes[peer] = f"cannot: {str(error).partition(chr(10))[0]}"
            if value is None:
                asked.remove(peer)
            else:
                samples[peer].append(value)
    return samples


def machine() -> str:
    """One line: processor, cores, memory, kernel, Python, load at this moment, date."""
    text = Path("/proc/cpuinfo").read_text()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 1024 / 1024
    return (
        f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Linux {platform.release()}, Python {platform.python_version()}, "
        f"load {os.getloadavg()[0]:.1f}, {time.strftime('%d %B %Y', time.gmtime()).lstrip('0')}"
    )
