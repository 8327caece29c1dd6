"""Keeps each figure in a file as soon as it is measured, and shows them as a table."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tests.bench.pipeline.cpu import CLUSTER, DAEMON, DRIVER, EXECUTORS, PYTHON, WORKERS

_PARTS = (
    (PYTHON, "Python"),
    (DRIVER, "JVM"),
    (EXECUTORS, "executor JVMs"),
    (WORKERS, "Python workers"),
    (CLUSTER, "master and workers"),
    (DAEMON, "groupd"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One measurement. `size`: as it was asked for; the generator may write a record more. `cpu`:
    seconds by role. `load`: the machine's, when it began and when it ended. `code`: the commit."""

    size: int
    way: str
    records: int
    seconds: float
    cpu: Mapping[str, float]
    peak_mib: int
    largest_mib: int
    load: tuple[float, float]
    code: str
    at: str

    @property
    def cpu_seconds(self) -> float:
        return sum(self.cpu.values())

    @property
    def rate(self) -> float:
        """Records per CPU second."""
        return self.records / self.cpu_seconds


class Results:
    """The results of one directory. `resumed`: with those that are there already."""

    def __init__(self, file: Path, *, resumed: bool) -> None:
        self._file = file
        self._found: dict[tuple[int, str], Result] = {}
        if resumed and file.exists():
            names = {field.name for field in fields(Result)}
            for one in json.loads(file.read_text())["results"]:
                result = Result(**{name: one[name] for name in names})
                self._found[result.size, result.way] = result

    def __contains__(self, one: tuple[int, str]) -> bool:
        return one in self._found

    def add(self, result: Result, facts: str) -> None:
        self._found[result.size, result.way] = result
        done = [
            {**asdict(one), "records_per_cpu_second": round(one.rate)} for one in self.in_order()
        ]
        unfinished = self._file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps({"on": facts, "results": done}, indent=1) + "\n")
        os.replace(unfinished, self._file)

    def in_order(self) -> list[Result]:
        """The results by size, those of one size as they came."""
        return sorted(self._found.values(), key=lambda one: one.size)


def table(results: list[Result]) -> str:
    """The results as a Markdown table."""
    head = ("records", "way", "records per CPU second", "CPU seconds", "of these", "seconds")
    lines = [f"| {' | '.join((*head, 'peak memory', 'largest process', 'load'))} |"]
    lines.append("|---:|---|---:|---:|---|---:|---:|---:|---:|")
    lines += [
        f"| {one.records:,} | {one.way} | {_rounded(one.rate):,} | {one.cpu_seconds:,.1f} "
        f"| {_parts(one)} | {one.seconds:,.1f} | {one.peak_mib:,} MiB | {one.largest_mib:,} MiB "
        f"| {one.load[0]:.0f} to {one.load[1]:.0f} |"
        for one in results
    ]
    return "\n".join(lines)


def _parts(one: Result) -> str:
    told = [(name, one.cpu[role]) for role, name in _PARTS if one.cpu.get(role, 0.0) >= 0.05]
    return ", ".join(f"{name} {seconds:,.1f}" for name, seconds in told)


def _rounded(rate: float) -> int:
    """The rate to three digits: it is not more exact than that."""
    digits = max(0, len(str(int(rate))) - 3)
    return int(round(rate, -digits))
