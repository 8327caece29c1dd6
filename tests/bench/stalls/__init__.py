"""What keeps the event loop from its work: one huge group and many small ones, and the longest
piece of work in one go while something large is done; meanwhile a member of a small group sends
one heartbeat after the other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.figures import Workload
from tests.bench.plan import Plan
from tests.bench.stalls import requests
from tests.bench.stalls.store import Sizes, fill, small
from tests.support.metrics import samples

QUICK = Sizes(huge=500, members=1000, offsets=10_000)
READY_TIMEOUT_S = 300
CHORE_TIMEOUT_S = 240.0
CLEANER_RESTS_S = 2.0
LONG_SESSIONS: Mapping[str, int | str] = {
    "group.consumer.session.timeout.ms": 3_600_000,
    "group.consumer.max.session.timeout.ms": 3_600_000,
    "group.consumer.assignment.interval.ms": 0,
    "log.cleaner.enable": "false",
}
CHORES: Mapping[str, int | str] = {
    "group.consumer.assignment.interval.ms": 0,
    "log.cleaner.backoff.ms": 200,
    "groupd.history.retention.ms": 1,
    "offsets.retention.minutes": 1,
    "offsets.retention.check.interval.ms": 2000,
}
"""Settings with which all sessions begin at the start and end at once; the log is cleaned
before."""
SESSION_MS = 30_000
GROUPS = "kafka_server_group_coordinator_metrics_group_count"
AFTER_S = 1.5
"""A phase is watched for so long after its own request has been answered."""
QUICK_CASE = (QUICK, 15_000, 0.4)
"""Sizes, session timeout, and how long a phase is watched."""


@dataclass(slots=True)
class Phase:
    """The figures of a phase. `longest`: (milliseconds of processor, what) of work in one go;
    `beats_ms`: how long the heartbeats of the small group's member took."""

    name: str
    longest: list[tuple[float, str]] = field(default_factory=list)
    beats_ms: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def stall_ms(self) -> float:
        return max((ms for ms, _ in self.longest), default=0.0)

    def p99_ms(self) -> float:
        if len(self.beats_ms) < 2:
            return max(self.beats_ms, default=0.0)
        return statistics.quantiles(self.beats_ms, n=100, method="inclusive")[-1]


def measure(plan: Plan) -> Iterator[Workload]:
    for phase in phases(*(QUICK_CASE if plan.quick else (Sizes(), SESSION_MS, AFTER_S))):
        yield Workload(f"{phase.name}: longest piece of work", "ms", {"groupd": [phase.stall_ms]})
        if phase.beats_ms:
            p99 = {"groupd": [phase.p99_ms()]}
            yield Workload(f"{phase.name}: p99 of another group's heartbeats", "ms", p99)


def phases(sizes: Sizes, session_ms: int, after_s: float) -> Iterator[Phase]:
    sessions = {
        "group.consumer.session.timeout.ms": session_ms,
        "group.consumer.min.session.timeout.ms": session_ms,
    }
    with tempfile.TemporaryDirectory(prefix="groupd-stalls-") as directory:
        path = Path(directory)
        asyncio.run(fill(path / "data", sizes))
        watch = Watch(path / "work")
        started = time.monotonic()
        with watched_daemon(path, LONG_SESSIONS) as (kafka, admin):
            yield watch.phase("start and load", started)
            client = requests.Client(kafka)
            with Beats(kafka, small(0)) as beats:
                yield from _work(watch, beats, client, admin, after_s)
        with (
            watched_daemon(path, {**CHORES, **sessions}) as (kafka, admin),
            Beats(kafka, small(0)) as beats,
        ):
            yield from _chores(watch, beats, admin)


def _chores(watch: Watch, beats: Beats, admin: str) -> Iterator[Phase]:
    """The phases of what the daemon does by itself; the member of the small group beats on."""

    def until(name: str, ended: Callable[[], bool]) -> Phase:
        started = time.monotonic()
        beats.taken()
        while not ended() and time.monotonic() - started < CHORE_TIMEOUT_S:
            time.sleep(0.5)
        phase = watch.phase(name, started)
        phase.beats_ms, phase.seconds = beats.taken(), time.monotonic() - started
        return phase

    def cleaned() -> bool:
        """Whether nothing has changed for a while: the history is cut after the compacted log is
        made."""
        before = _metric(admin, "groupd_cleaner_records_read_total")
        time.sleep(CLEANER_RESTS_S)
        return before > 0 and _metric(admin, "groupd_cleaner_records_read_total") == before

    yield until("log cleaning and history truncation", cleaned)
    yield until(
        "sessions of all members end, offsets expire, groups go",
        lambda: _metric(admin, GROUPS, protocol="consumer") <= 1,
    )


def _work(
    watch: Watch, beats: Beats, client: requests.Client, admin: str, after_s: float
) -> Iterator[Phase]:
    def during(name: str, work: Callable[[], object]) -> Phase:
        started = time.monotonic()
        beats.taken()
        work()
        seconds = time.monotonic() - started
        time.sleep(after_s)
        phase = watch.phase(name, started)
        phase.beats_ms, phase.seconds = beats.taken(), seconds
        return phase

    yield during("nothing", lambda: time.sleep(after_s))
    yield during("/metrics", lambda: _get(admin, "/metrics"))
    yield during("/groups", lambda: _get(admin, "/groups"))
    yield during("/groups/huge", lambda: _get(admin, "/groups/huge"))
    yield during("ListGroups", client.list_groups)
    yield during("DescribeGroups of the huge group", client.describe)
    for name, path in (("all groups", "/live/groups"), ("the huge group", "/live/groups/huge")):
        yield during(
            f"the console's first event about {name}", lambda path=path: _event(admin, path)
        )  # type: ignore[misc]
    yield during("a round over the lag of all groups", lambda: _round(admin))
    yield during("OffsetFetch of all", client.fetch_all)
    yield during("a member joins the huge group", client.join)
    yield during("a member leaves the huge group", client.leave)


def _get(admin: str, path: str) -> bytes:
    with urllib.request.urlopen(f"http://{admin}{path}", timeout=60) as reply:
        body: bytes = reply.read()
        return body


def _event(admin: str, path: str) -> None:
    """Reads the first event of a stream."""
    with urllib.request.urlopen(f"http://{admin}{path}", timeout=60) as reply:
        assert reply.readline() == b"event: snapshot\n"
        reply.readline()


def _round(admin: str) -> None:
    """Waits until a round that began after now is over."""

    def number() -> int:
        return int(json.loads(_get(admin, "/groups/huge/lag"))["round"])

    until = number() + 2
    while number() < until:
        time.sleep(1)


def _metric(admin: str, name: str, **labels: str) -> float:
    """The value of a sample; 0 if there is none yet."""
    found = samples(f"http://{admin}", name)
    return next((sample.value for sample in found if sample.labels == labels), 0.0)


@contextmanager
def watched_daemon(
    path: Path, settings: Mapping[str, int | str]
) -> Iterator[tuple[tuple[str, int], str]]:
    """A started daemon; its two addresses."""
    command = [sys.executable, "-m", "tests.bench.stalls.watched", str(path / "work"), "serve"]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "warning"]
    command += ["--data-dir", str(path / "data")]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert process.stdout is not None
        fields = dict(part.split("=", 1) for part in process.stdout.readline().split()[2:])
        host, _, port = fields["kafka"].rpartition(":")
        yield (host, int(port)), fields["admin"]
    finally:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


class Watch:
    """Reads what the daemon notes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def phase(self, name: str, started: float) -> Phase:
        """Everything since `started`, on the monotonic clock of the machine."""
        found = []
        for line in self._path.read_text().splitlines():
            at, ms, what = line.split(" ", 2)
            if float(at) >= started:
                found.append((float(ms), what))
        return Phase(name, sorted(found, reverse=True)[:5])


class Beats:
    """Heartbeats of a member of a small group, one after the other, on a thread of their own."""

    def __init__(self, kafka: tuple[str, int], group: str) -> None:
        self._client = requests.Client(kafka)
        self._frame = requests.heartbeat(group, 0)
        self._ended = threading.Event()
        self._ms: list[float] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Beats:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def taken(self) -> list[float]:
        """The milliseconds of each heartbeat since the last call."""
        taken, self._ms = self._ms, []
        return taken

    def _run(self) -> None:
        while not self._ended.wait(0.001):
            started = time.perf_counter()
            self._client.ask(self._frame)
            self._ms.append((time.perf_counter() - started) * 1000)
