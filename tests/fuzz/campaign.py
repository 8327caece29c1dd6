"""A started groupd, an honest client, storms of frames, and the verdict.

Half of the honest clients come over TLS. What they wait is told in three ways, because a machine is
seldom quiet: on the clock; without the time in which groupd's threads were ready and others had the
processors (`tests.attack.waits`); and how long groupd was at work meanwhile, in processor time. A
witness that only sleeps tells how late the machine lets anybody run.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TextIO

import msgspec

from tests.attack.doors import doors as attacked_doors
from tests.attack.honest import Report
from tests.attack.measures import resident
from tests.attack.peers import SETTINGS, WatchedDaemon
from tests.attack.peers import TOPICS as HONEST_TOPICS
from tests.attack.victim import Victim
from tests.attack.witness import Testimony
from tests.bench.peers.lines import LineProcess
from tests.fuzz import corpus, listeners
from tests.fuzz.figures import Verdict, line_of
from tests.fuzz.guide import guide
from tests.fuzz.limits import LIMITS
from tests.fuzz.seeds import PARTITIONS, TOPICS, topic_ids
from tests.fuzz.storm import Order, Storm
from tests.support.daemon import Daemon
from tests.support.metrics import samples

BAD_LINES = re.compile(
    r"Traceback|reply lost|request failed|reply cannot be sent|cannot be handled|never retrieved"
    r"|never awaited|Exception|unhandled"
)
READY_S = 90.0
HONEST_END_S = 240.0
STORM_END_S = 60.0


class Plan(msgspec.Struct, frozen=True):
    """`seconds`: how long the storms last, which come after `guided_seconds` of the guided part.
    `processes`: storms at once, each over `connections`. They end early after `frames` judged ones.
    `watched`: groupd notes in the file `work` what keeps its loop busy, on the standard loop of
    asyncio. `store`: an address, or empty for SQLite in a folder."""

    seconds: float
    frames: int = 0
    processes: int = 1
    connections: int = 12
    seed: int = 1
    watched: bool = False
    guided_seconds: float = 0.0
    store: str = ""


class Campaign:
    def __init__(self, plan: Plan, directory: Path) -> None:
        self._plan = plan
        self._directory = directory
        self._log = directory / "groupd.log"
        self.streams = directory / f"reached{corpus.SUFFIX}"
        self._read = 0
        self.verdict = Verdict()

    def run(self, out: TextIO | None = None) -> Verdict:
        plan, verdict = self._plan, self.verdict
        if plan.guided_seconds:
            verdict.reached, streams = guide(plan.guided_seconds, self._directory)
            verdict.wrong += verdict.reached.wrong
            corpus.write(self.streams, streams)
        with ExitStack() as stack:
            store = ["--store", plan.store] if plan.store else []
            daemon = (WatchedDaemon if plan.watched else Daemon)(
                self._directory,
                topics={**HONEST_TOPICS, **dict.fromkeys(TOPICS, PARTITIONS)},
                settings={**SETTINGS, **LIMITS, **listeners.settings(self._directory / "keys")},
                arguments=["--log-level", "warning", *store],
            )
            stack.callback(daemon.close)
            daemon.start()
            doors = listeners.doors(daemon, self._directory / "keys")
            victim = _victim(daemon, doors)
            honest = LineProcess(
                [sys.executable, "-m", "tests.attack.honest", msgspec.json.encode(victim).decode()]
            )
            stack.callback(honest.close)
            if (said := honest.read(READY_S)) != "ready":
                raise RuntimeError(f"the honest client is {said}")
            witness = LineProcess([sys.executable, "-m", "tests.attack.witness"])
            stack.callback(witness.close)
            honest.ask("begin")
            storms = [self._storm(daemon, doors, number) for number in range(plan.processes)]
            for storm in storms:
                stack.callback(storm.close)
                stack.callback(storm.kill)
            # Each says so when it begins.
            verdict.storms = [_line(storm, READY_S) for storm in storms]
            began = time.monotonic()
            told = began
            while (now := time.monotonic()) - began < plan.seconds and not verdict.wrong:
                for number, storm in enumerate(storms):
                    verdict.storms[number] = _line(storm, 30.0)
                self._look(daemon, now - began)
                if out is not None and now - told > 10:
                    told = now
                    print(line_of(verdict), file=out, flush=True)
                if plan.frames and verdict.judged >= plan.frames:
                    break
            verdict.seconds = time.monotonic() - began
            self._end(daemon, honest, witness, storms)
        return verdict

    def _storm(self, daemon: Daemon, doors: listeners.Doors, number: int) -> LineProcess:
        ids = {name: one.hex() for name, one in topic_ids(daemon.host, daemon.port).items()}
        seed = self._plan.seed * 1000 + number
        finds = str(self._directory / "finds")
        more = str(self.streams) if self.streams.exists() else ""
        order = Order(daemon.host, doors, seed, self._plan.connections, finds, ids, more)
        command = ["nice", "-n", "5", sys.executable, "-m", "tests.fuzz.storm"]
        return LineProcess([*command, msgspec.json.encode(order).decode()])

    def _look(self, daemon: Daemon, at: float) -> None:
        """Notes groupd's memory, whether it lives, and what is wrong in its log."""
        verdict = self.verdict
        if not verdict.resident or at - verdict.resident[-1][0] >= 1:
            verdict.resident.append((at, resident([daemon.pid])))
        if not daemon.process.running:
            verdict.wrong.append("groupd has died")
        else:
            listeners.grant(daemon)
        verdict.wrong += [one for storm in verdict.storms for one in storm.wrong]
        verdict.wrong += self._bad_lines()

    def _bad_lines(self) -> list[str]:
        with self._log.open("rb") as log:
            log.seek(self._read)
            text = log.read()
            self._read += len(text)
        lines = text.decode(errors="replace").splitlines()
        return [line for line in lines if BAD_LINES.search(line)]

    def _end(
        self,
        daemon: Daemon,
        honest: LineProcess,
        witness: LineProcess,
        storms: list[LineProcess],
    ) -> None:
        verdict = self.verdict
        for number, storm in enumerate(storms):
            storm.send("end")
            with contextlib.suppress(RuntimeError):
                verdict.storms[number] = _last_line(storm)
        if not daemon.process.running:
            return
        honest.send("end")
        verdict.honest = msgspec.json.decode(honest.read(HONEST_END_S), type=Report)
        witness.send("end")
        verdict.witness = msgspec.json.decode(witness.read(), type=Testimony)
        found = {one.name: one.value for one in samples(daemon.admin_url)}
        verdict.stalls = int(found["groupd_event_loop_stalls_total"])
        verdict.longest_stall_ms = found["groupd_event_loop_stall_seconds"] * 1000
        verdict.processor_s = found["process_cpu_seconds_total"]
        verdict.wrong += self._bad_lines()
        daemon.stop()


def _victim(daemon: Daemon, doors: listeners.Doors) -> Victim:
    address = (daemon.host, daemon.port)
    ways_in = attacked_doors([daemon])
    return Victim("groupd", (address,), (daemon.pid,), daemon.admin_port, ways_in, doors.ca)


def _line(process: LineProcess, within_s: float) -> Storm:
    return msgspec.json.decode(process.read(within_s), type=Storm)


def _last_line(process: LineProcess) -> Storm:
    """The last line before its output ends."""
    last = _line(process, STORM_END_S)
    with contextlib.suppress(RuntimeError):
        while True:
            last = _line(process, STORM_END_S)
    return last
