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
from tests.attack.measures import Memory, back_to, processor_s, resident
from tests.attack.newcomers import NEWCOMER
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
"""After the preparations."""
IDLE_S = 3.0
"""How long to measure before an attack what the honest wait when nobody attacks; in the short form
once, for `QUIET_S`."""
LEASES_WITHIN_S = 15.0
"""A node that has lost its lease shows it by then, and the others what they took over."""
STOPPED_S = SESSION_MS / 1000 + 1.5
"""A shorter stop ends no session."""
PIECES = 40


class Arena:
    """The honest clients are at work as long as it is open."""

    def __init__(self, running: Running, name: str, *, readers: bool = True) -> None:
        self._running = running
        self._name = name
        self._idle_s = 0.0
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
        with _attackers(attacks, self._victim, seconds) as attackers:
            _prepared(attackers)
            time.sleep(QUIET_S)
            self._rest(IDLE_S)
            return self._row(attacks, attackers, seconds, settle)

    def one_by_one(self, attacks: Sequence[Attack], seconds: float) -> Iterator[Row]:
        """Prepares all of them, then runs one after the other and yields a row for each."""
        with _attackers(attacks, self._victim, seconds) as attackers:
            _prepared(attackers)
            self._rest(QUIET_S)
            for attack, attacker in zip(attacks, attackers, strict=True):
                lasts = max(seconds, STOPPED_S if attack.stands_still else attack.short_s)
                yield self._row([attack], [attacker], lasts, settle=False)

    def _rest(self, seconds: float) -> None:
        """Measures how long the honest wait when nobody attacks."""
        for client in self._clients:
            client.ask("begin")
        time.sleep(seconds)
        report, _ = self._reports(at_once=True)
        self._idle_s = max((wait.seconds for wait in report.waits), default=0.0)

    def _row(
        self,
        attacks: Sequence[Attack],
        attackers: Sequence[LineProcess],
        seconds: float,
        settle: bool,
    ) -> Row:
        row = Row("+".join(attack.name for attack in attacks), self._name, seconds)
        row.stands_still = any(attack.stands_still for attack in attacks)
        row.idle_s = self._idle_s
        try:
            self._measure(row, attackers, seconds, settle)
        except (RuntimeError, OSError) as error:
            row.failed = str(error)
        if not self._running.alive():
            row.failed, row.answers = "it died", False
        if not all(attack.newcomers for attack in attacks):
            row.waits = [one for one in row.waits if not one.what.startswith(NEWCOMER)]
            row.lost = [one for one in row.lost if not one[0].startswith(NEWCOMER)]
        return row

    def _measure(
        self, row: Row, attackers: Sequence[LineProcess], seconds: float, settle: bool
    ) -> None:
        pids = self._running.victim.pids
        row.before = resident(pids)
        leases = self._running.leases()
        logged, began = self._running.logged_bytes(), time.monotonic()
        memory, used_s = Memory(pids), processor_s(pids)
        for client in self._clients:
            client.ask("begin")
        for process in attackers:
            process.send(f"begin {seconds}")
        for process in attackers:
            row.got = row.got.plus(_ended(process, seconds + LATE_S))
        try:
            self._hear(row, at_once=not settle)
            row.processor_s = processor_s(pids) - used_s
            memory.mark()
            row.peak, row.together = memory.largest, memory.together
            self._look_back(row, began, logged, settle)
        finally:
            memory.end()
            row.over_time = memory.over_time
        row.leases = self._changes(leases)

    def _look_back(self, row: Row, began: float, logged: int, settle: bool) -> None:
        """What the attack has left behind. `began`, `logged`: when it began, and the bytes of the
        log then."""
        pids = self._running.victim.pids
        row.logged = self._running.logged_bytes() - logged
        row.pieces = _named(self._running.pieces(began), row.got)
        row.answers = self._running.alive() and self._answers()
        row.after = resident(pids)
        if settle and row.answers:
            row.after, row.back_s = back_to(pids, int(row.before * BACK_WITHIN), BACK_S)

    def _changes(self, before: dict[str, object]) -> list[str]:
        """What has changed in the cluster. It waits a little, because a node that was fenced does
        not notice it at once."""
        began = time.monotonic()
        while True:
            now = self._running.leases()
            changed = [
                f"{name}: {then}, then {now.get(name)}"
                for name, then in before.items()
                if now.get(name) != then
            ]
            if not changed or time.monotonic() - began > LEASES_WITHIN_S:
                return changed
            time.sleep(1)

    def _reports(self, *, at_once: bool) -> tuple[Report, list[tuple[str, str]]]:
        """What the honest clients report, and which consumers have lost their partitions.
        `at_once`: without the second in which these may still learn that they have."""
        for client in self._clients:
            client.send("end at once" if at_once else "end")
        report = msgspec.json.decode(self._clients[0].read(HONEST_END_S), type=Report)
        lost = []
        for client in self._clients[1:]:
            lost += [(name, why) for name, why in json.loads(client.read(HONEST_END_S))]
        return report, lost

    def _hear(self, row: Row, *, at_once: bool) -> None:
        """Adds to the row what the honest clients report."""
        report, lost = self._reports(at_once=at_once)
        row.waits, row.requests = report.waits, report.requests
        row.fenced, row.lost, row.ledger = report.fenced, report.lost, report.ledger
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
def _attackers(
    attacks: Sequence[Attack], victim: str, seconds: float
) -> Iterator[list[LineProcess]]:
    """A process for each attack, gone afterwards."""
    command = [sys.executable, "-m", "tests.attack.attacker"]
    lasts = str(seconds)
    processes = [LineProcess([*command, attack.name, victim, lasts]) for attack in attacks]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            with suppress(subprocess.TimeoutExpired, OSError):
                process.close()
