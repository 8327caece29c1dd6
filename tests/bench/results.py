"""What was measured, in `docs/benchmarks.json`: it grows with every workload, so an interrupted run
keeps what it has, and a later run of a few workloads replaces just those.

A file has a line for each run of the suite and a line for each workload. Of a peer it keeps the
median, the spread and the number of runs, to four digits.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka

from tests.bench.figures import Workload, machine, spread
from tests.bench.peers.processes import TANSU
from tests.support.toolchain import ORACLE_LIB, ROOT

KFAKE_MODULES = Path(__file__).parent / "peers" / "kfake" / "go.mod"
IN_THE_TREE = ROOT / "docs" / "benchmarks.json"


class Figure(NamedTuple):
    """The figure of one peer: the median of its runs, and their spread (`figures.spread`)."""

    median: float
    low: float
    high: float
    runs: int


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the suite. `version`: groupd's commit."""

    command: str
    machine: str
    date: str
    quick: bool
    version: str
    peers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """A workload without its single runs: see `figures.Workload`. `part`: the letters of its part;
    `figures`: a peer that cannot do it has none, but a note."""

    part: str
    name: str
    measure: str
    unit: str
    higher_is_better: bool
    picture: str
    size: float
    figures: Mapping[str, Figure | None]
    notes: Mapping[str, str]
    run: Run

    @property
    def title(self) -> str:
        return f"{self.name}: {self.measure}" if self.measure else self.name


def measured(part: str, workload: Workload, run: Run) -> Measured:
    return Measured(
        part,
        workload.name,
        workload.measure,
        workload.unit,
        workload.higher_is_better,
        workload.figure,
        workload.size,
        {peer: _figure(samples) for peer, samples in workload.samples.items()},
        dict(workload.notes or {}),
        run,
    )


def _figure(samples: Any) -> Figure | None:
    if not samples:
        return None
    low, high = spread(samples)
    rounded = (float(f"{value:.4g}") for value in (statistics.median(samples), low, high))
    return Figure(*rounded, len(samples))


@dataclass(slots=True)
class Results:
    """The workloads in the order in which they were first measured."""

    measured: list[Measured] = field(default_factory=list)

    def add(self, new: Measured) -> None:
        """Adds it, in the place of an older one of that title."""
        for at, old in enumerate(self.measured):
            if (old.part, old.title) == (new.part, new.title):
                self.measured[at] = new
                return
        self.measured.append(new)

    def save(self, path: Path) -> None:
        """Writes all of it or nothing."""
        runs: list[Run] = []
        workloads = []
        for one in self.measured:
            if one.run not in runs:
                runs.append(one.run)
            workloads.append({**asdict(one), "run": runs.index(one.run)})
        document = (
            f'{{"runs": [\n{_lines([asdict(run) for run in runs])}\n],\n'
            f'"workloads": [\n{_lines(workloads)}\n]}}\n'
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(document)
        beside.replace(path)


def _lines(objects: list[dict[str, Any]]) -> str:
    return ",\n".join(json.dumps(one, ensure_ascii=False) for one in objects)


def load(path: Path) -> Results:
    """The results in a file that `save` wrote; if there is no file, none."""
    if not path.is_file():
        return Results()
    document = json.loads(path.read_text())
    runs = [Run(**run) for run in document["runs"]]
    return Results([_measured(kept, runs) for kept in document["workloads"]])


def _measured(kept: dict[str, Any], runs: list[Run]) -> Measured:
    figures = {peer: Figure(*one) if one else None for peer, one in kept["figures"].items()}
    return Measured(**{**kept, "figures": figures, "run": runs[kept["run"]]})


def this_run(command: str, *, quick: bool) -> Run:
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return Run(command, machine(), now, quick, _version(), peer_versions())


def _version() -> str:
    """The commit, with a mark if sources have changed since; results in docs/ are no source."""
    commit = _git("describe", "--always", "--tags")
    return f"{commit}-dirty" if _git("status", "--porcelain", "--", ".", ":!docs") else commit


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def peer_versions() -> dict[str, str]:
    """The versions of the peers that are installed here."""
    found = {"librdkafka mock": f"librdkafka {confluent_kafka.libversion()[0]}"}
    for jar in ORACLE_LIB.glob("kafka_*.jar"):
        found["Apache Kafka"] = jar.stem.partition("-")[2]
    kfake = re.search(r"pkg/kfake (\S+)", KFAKE_MODULES.read_text())
    found["kfake"] = kfake[1] if kfake else "unknown"
    if os.access(TANSU, os.X_OK):
        done = subprocess.run([TANSU, "--version"], capture_output=True, text=True, check=False)
        found["Tansu"] = done.stdout.strip().removeprefix("tansu ")
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
