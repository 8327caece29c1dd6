"""What was measured, as a JSON file that grows with every workload: an interrupted run keeps what
it has, and a later run of a few workloads replaces just those.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import confluent_kafka

from tests.bench.figures import Workload, machine
from tests.bench.peers.processes import TANSU
from tests.support.toolchain import ORACLE_LIB, ROOT

KFAKE_MODULES = Path(__file__).parent / "peers" / "kfake" / "go.mod"


@dataclass(frozen=True, slots=True)
class Run:
    """One call of the suite."""

    command: str
    machine: str
    date: str
    quick: bool
    version: str
    peers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Measured:
    """A workload, the letters of its part, and the run that it is from."""

    part: str
    workload: Workload
    run: Run


@dataclass(slots=True)
class Results:
    """In the order in which they were first measured."""

    measured: list[Measured] = field(default_factory=list)

    def add(self, new: Measured) -> None:
        """In the place of an older one of that title."""
        for at, old in enumerate(self.measured):
            if (old.part, old.workload.title) == (new.part, new.workload.title):
                self.measured[at] = new
                return
        self.measured.append(new)

    def save(self, path: Path) -> None:
        """All or nothing."""
        runs: list[Run] = []
        workloads = []
        for one in self.measured:
            if one.run not in runs:
                runs.append(one.run)
            kept = asdict(one.workload)
            workloads.append({"part": one.part, "run": runs.index(one.run), **kept})
        document = {"runs": [asdict(run) for run in runs], "workloads": workloads}
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(document, indent=1) + "\n")
        beside.replace(path)


def load(path: Path) -> Results:
    """Of a file that `save` wrote; none = nothing yet."""
    if not path.is_file():
        return Results()
    document = json.loads(path.read_text())
    runs = [Run(**run) for run in document["runs"]]
    return Results([_measured(kept, runs) for kept in document["workloads"]])


def _measured(kept: dict[str, Any], runs: list[Run]) -> Measured:
    fields = dict(kept)
    return Measured(fields.pop("part"), run=runs[fields.pop("run")], workload=Workload(**fields))


def this_run(command: str, *, quick: bool) -> Run:
    now = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    return Run(command, machine(), now, quick, _version(), peer_versions())


def _version() -> str:
    command = ["git", "describe", "--always", "--dirty", "--tags"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def peer_versions() -> dict[str, str]:
    """Of those that are here."""
    found = {"librdkafka mock": f"librdkafka {confluent_kafka.libversion()[0]}"}
    for jar in ORACLE_LIB.glob("kafka_*.jar"):
        found["Apache Kafka"] = jar.stem.partition("-")[2]
    kfake = re.search(r"pkg/kfake (\S+)", KFAKE_MODULES.read_text())
    found["kfake"] = kfake[1] if kfake else "unknown"
    if os.access(TANSU, os.X_OK):
        done = subprocess.run([TANSU, "--version"], capture_output=True, text=True, check=False)
        found["Tansu"] = done.stdout.strip().removeprefix("tansu ")
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
