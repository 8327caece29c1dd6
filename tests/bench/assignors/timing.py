"""Rounds of `assign`: groupd's in this process, Kafka's in a JVM."""

from __future__ import annotations

import gc
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from groupd.coordinator.core.assignors.loader import BUILT_IN
from tests.bench.assignors.grid import Group, Point
from tests.bench.peers.lines import LineProcess

ROOT = Path(__file__).parents[3]
JARS = ROOT / "tests" / "oracle" / "target" / "lib"
CLASSES = Path(__file__).parent / "java" / "target"
KAFKA, GROUPD = "Apache Kafka", "groupd"


@dataclass(frozen=True, slots=True)
class Rounds:
    """`count` warm-up rounds, then as many that are measured, each at least `ms` long."""

    count: int
    ms: int


@dataclass(frozen=True, slots=True)
class Times:
    """Average milliseconds of a call in each round: on the clock, and of processor."""

    wall: list[float]
    cpu: list[float]


def groupd(point: Point, rounds: Rounds) -> Times:
    """Times groupd's assignor. As in the daemon, the cycle collector does not look at what is
    loaded."""
    assignor = BUILT_IN[point.assignor]()
    group = Group(point, assignor)
    gc.collect()
    gc.freeze()
    try:
        times = Times([], [])
        for index in range(2 * rounds.count):
            started, cpu, calls = time.perf_counter(), time.process_time(), 0
            while calls == 0 or (time.perf_counter() - started) * 1000 < rounds.ms:
                assignor.assign(group.spec, group.topics)
                calls += 1
            if index >= rounds.count:
                times.wall.append((time.perf_counter() - started) * 1000 / calls)
                times.cpu.append((time.process_time() - cpu) * 1000 / calls)
        return times
    finally:
        gc.unfreeze()


class Jvm:
    """Kafka's classes in a process of their own, warm from one point to the next."""

    def __init__(self) -> None:
        path = os.pathsep.join((f"{JARS}/*", str(CLASSES)))
        self._process = LineProcess(["java", "-Xmx2g", "-cp", path, "AssignorBench"])

    def time(self, point: Point, rounds: Rounds) -> Times:
        numbers = [
            float(word)
            for word in self._process.ask(
                f"{point.words()} {rounds.count} {rounds.count} {rounds.ms}"
            ).split()
        ]
        return Times(numbers[::2], numbers[1::2])

    def close(self) -> None:
        self._process.close()


def missing() -> str:
    """Why Kafka's assignors cannot run here; empty if they can."""
    if shutil.which("java") is None:
        return "there is no java"
    if not (CLASSES / "AssignorBench.class").is_file() or not JARS.is_dir():
        return "not built: run `make bench-assignors`"
    return ""


@contextmanager
def jvm() -> Iterator[Jvm]:
    process = Jvm()
    try:
        yield process
    finally:
        process.close()
