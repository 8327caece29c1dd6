"""One broker with honest clients, and attacks on it one after the other."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

import msgspec

from tests.attack.attack import Attack
from tests.attack.honest import Report
from tests.attack.honest_clients import SESSION_MS
from tests.attack.measures import Memory, back_to, resident
from tests.attack.peers import Running
from tests.attack.results import BACK_S, BACK_WITHIN, Row
from tests.attack.scene import PREPARE_S, Got
from tests.bench.peers.lines import LineProcess
from tests.support.raw import RawConnection

READY_S = 90.0
HONEST_END_S = 240.0
LATE_S = 30.0
"""An attacker that still runs so long after its time is killed."""
QUIET_S = 1.0
STOPPED_S = SESSION_MS / 1000 + 1.5
"""A shorter stop ends no session."""
PIECES = 40


class Arena:
    """The honest clients are at work as long as it is open."""

    def __init__(self, running: Running, name: str, *, readers: bool = True) -> None:
        self._running = running
        self._name = name
        self._stack = ExitStack()
        victim = msgspec.json.encode(running.victim).decode()
        self._victim = victim
        commands = [["tests.attack.honest", victim]]
        if readers:
            commands.append(["tests.attack.readers", running.victim.bootstrap])
        self._clients = [LineProcess([sys.executable, "-m", *command]) for command in commands]
        for process in self._clients:
            self._stack.callback(process.close)
        for process in self._clients:
            if (said := process.read(READY_S)) != "ready":
                self.close()
                raise RuntimeError(f"honest clients are {said}")

    def close(self) -> None:
        self._stack.close()

    def attack(self, attacks: Sequence[Attack], seconds: float, *, settle: bool) -> Row:
        """Runs all of them at once, for one row. `settle`: wait until the memory is back."""
        with _attackers(attacks, self._victim) as attackers:
            _prepared(attackers)
            time.sleep(QUIET_S)
            return self._row(attacks, attackers, seconds, settle)

    def one_by_one(self, attacks: Sequence[Attack], seconds: float) -> Iterator[Row]:
        """Prepares all of them, then runs one after the other and yields a row for each."""
        with _attackers(attacks, self._victim) as attackers:
            _prepared(attackers)
            time.sleep(QUIET_S)
            for attack, attacker in zip(attacks, attackers, strict=True):
                lasts = max(seconds, STOPPED_S) if attack.stands_still else seconds
                yield self._row([attack], [attacker], lasts, settle=False)

    def _row(
        self,
        attacks: Sequence[Attack],
        attackers: Sequence[LineProcess],
        seconds: float,
        settle: bool,
    ) -> Row:
        row = Row("+".join(attack.name for attack in attacks), self._name, seconds)
        row.stands_still = any(attack.stands_still for attack in attacks)
        try:
            self._measure(row, attackers, seconds, settle)
        except (RuntimeError, OSError) as error:
            row.failed = str(error)
        if not self._running.alive():
            row.failed, row.answers = "it died", False
        return row

    def _measure(
        self, row: Row, attackers: Sequence[LineProcess], seconds: float, settle: bool
    ) -> None:
        pid = self._running.victim.pids[0]
        row.before = resident(pid)
        logged, began = self._running.logged_bytes(), time.monotonic()
        memory = Memory(pid)
        for client in self._clients:
            client.ask("begin")
        for process in attackers:
            process.send(f"begin {seconds}")
        for process in attackers:
            row.got = row.got.plus(_ended(process, seconds + LATE_S))
        try:
            self._hear(row)
        finally:
            memory.end()
            row.peak, row.together = memory.largest, memory.together
        row.logged = self._running.logged_bytes() - logged
        row.pieces = _named(self._running.pieces(began), row.got)
        row.answers = self._running.alive() and self._answers()
        row.after = resident(pid)
        if settle and row.answers:
            row.after, row.back_s = back_to(pid, int(row.before * BACK_WITHIN), BACK_S)

    def _hear(self, row: Row) -> None:
        """Adds to the row what the honest clients report."""
        for client in self._clients:
            client.send("end")
        report = msgspec.json.decode(self._clients[0].read(HONEST_END_S), type=Report)
        row.waits, row.requests = report.waits, report.requests
        row.fenced, row.lost, row.ledger = report.fenced, report.lost, report.ledger
        for client in self._clients[1:]:
            lost = [(name, why) for name, why in json.loads(client.read(HONEST_END_S))]
            if row.stands_still and lost:
                # Theirs is the decision: without an answer for a session's time they leave.
                row.got.note += f"; {len(lost)} consumers of librdkafka gave up by themselves"
            else:
                row.fenced += lost

    def _answers(self) -> bool:
        try:
            with RawConnection(self._running.victim.address[1]) as connection:
                return connection.works()
        except OSError:
            return False


def _named(pieces: Sequence[tuple[float, float, str]], got: Got) -> list[tuple[float, str]]:
    """The longest piece of work during each request that has a name, and the longest of others."""
    longest: dict[str, tuple[float, str]] = {}
    for at, ms, what in pieces:
        name = next(
            (name for since, took, name in got.asked if since <= at <= since + took), what[:40]
        )
        longest.setdefault(name, (ms, f"{name}: {what}"))
    return sorted(longest.values(), reverse=True)[:PIECES]


def _ended(process: LineProcess, within_s: float) -> Got:
    try:
        return msgspec.json.decode(process.read(within_s), type=Got)
    except RuntimeError:
        return Got(note="the attacker had to be killed")


def _prepared(attackers: Sequence[LineProcess]) -> None:
    for process in attackers:
        process.read(PREPARE_S + LATE_S)


@contextmanager
def _attackers(attacks: Sequence[Attack], victim: str) -> Iterator[list[LineProcess]]:
    """A process for each attack, gone afterwards."""
    command = [sys.executable, "-m", "tests.attack.attacker"]
    processes = [LineProcess([*command, attack.name, victim]) for attack in attacks]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            with suppress(subprocess.TimeoutExpired, OSError):
                process.close()
