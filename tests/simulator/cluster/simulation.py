"""One run: nodes and their database, faults, clients, and what must always hold."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from groupd.coordinator.cluster.view import plan
from groupd.storage.units import (
    Unit,
)
from tests.simulator.cluster.database import Appended, Database
from tests.simulator.cluster.faults import NodeFaults
from tests.simulator.cluster.process import KIND, LEASE_MS, Process
from tests.simulator.logs import captured_log
from tests.simulator.simulation import SimulationFailed
from tests.simulator.world import Violation, World

FAULTS_MS = 60_000
PATIENCE_MS = 10 * LEASE_MS
"""How long it may take until everything is served once the faults are over. What began before that
may last for three leases: a process stands still, or the catalogue is read."""

POLL_MS, LINGER_POLLS = 100, 20
"""How often is looked, and how often in a row all must be served."""

ASK_EVERY_MS = 25


@dataclass(frozen=True, slots=True)
class Result:
    steps: int
    writes: int
    reads: int
    moves: int
    settled_ms: int
    digest: str


class ClusterSimulation:
    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.seed = seed
        self.world = World(seed, verbose=verbose)
        self.unit_count = self.world.between(3, 12)
        self.units = [Unit(KIND, number) for number in range(self.unit_count)]
        self.database = Database(self.world, LEASE_MS)
        self.processes: dict[int, Process] = {}
        self.node_ids = list(range(1, self.world.between(2, 5) + 1))
        self.faults = self._faults()
        self.acknowledged: dict[Unit, list[str]] = {unit: [] for unit in self.units}
        """What each unit has acknowledged, by offset; "" where nobody was told."""
        self.forgotten_until_ms = -1
        """Until then nodes may answer with what a promotion has lost."""
        self.writes = self.reads = 0
        self.changes: deque[tuple[int, int]] = deque()
        """Changes of the catalogue that nodes need not know yet: (when, version)."""
        self.due_version = 0
        self.lossy = self.world.chance(0.3)
        self.world.after_step = self.check
        self.log = captured_log()

    # Checks

    def check(self) -> None:
        """After every event: of each unit at most one process answers."""
        for unit in self.units:
            answering = [
                one.node_id for one in self.processes.values() if one.would_answer(unit) is not None
            ]
            if len(answering) > 1:
                raise Violation(f"{unit} is served by nodes {answering}")
        for process in self.processes.values():
            if process.loop.failures:
                raise Violation(f"node {process.node_id}: {process.loop.failures}")
        due = self._due_version()
        for process in self.processes.values():
            if process.catalogue.applied < due and process.node.may_answer():
                raise Violation(f"node {process.node_id} answers without change {due}")
        if self.log.errors:
            raise Violation(f"logged: {self.log.errors[0]}")

    def _due_version(self) -> int:
        """The newest change of the catalogue that is older than a lease."""
        while self.changes and self.changes[0][0] + LEASE_MS <= self.world.now_ms:
            self.due_version = self.changes.popleft()[1]
        return self.due_version

    def _change(self) -> None:
        if self.database.up:
            self.database.tables.catalogue += 1
            self.changes.append((self.world.now_ms, self.database.tables.catalogue))
        self.world.after(self.world.between(10, 9000), self._change)

    def _told(self, unit: Unit, offset: int, value: str, appended: Appended) -> None:
        if not appended.owned:
            raise Violation(f"{unit}: {value} was acknowledged outside of its owner's epoch")
        before = appended.timeline != self.database.tables.timeline
        if before and self.lossy and not self._in_log(unit, offset, value):
            return  # it was appended to the server that is gone
        known = self.acknowledged[unit]
        known.extend([""] * (offset + 1 - len(known)))
        if known[offset] not in ("", value):
            raise Violation(f"{unit} at {offset}: {known[offset]} and {value} are acknowledged")
        known[offset] = value
        self.writes += 1

    def _in_log(self, unit: Unit, offset: int, value: str) -> bool:
        log = self.database.tables.logs.get(unit)
        entries = [] if log is None else log.entries
        return offset < len(entries) and entries[offset][1] == value

    def _check_read(self, unit: Unit, expected: list[str], found: list[str]) -> None:
        self.reads += 1
        if self.world.now_ms < self.forgotten_until_ms:
            return
        for offset, value in enumerate(expected):
            if value and (offset >= len(found) or found[offset] != value):
                raise Violation(
                    f"{unit}: read {len(found)} values; {value} at {offset} was acknowledged before"
                )

    def check_logs(self) -> None:
        """Everything that was acknowledged is in the logs."""
        for unit, values in self.acknowledged.items():
            for offset, value in enumerate(values):
                if value and not self._in_log(unit, offset, value):
                    raise Violation(f"{unit}: {value} at {offset} is lost")

    # Clients

    def _ask(self) -> None:
        """A request of a client that may know an old owner."""
        world = self.world
        unit = self.units[world.between(0, len(self.units) - 1)]
        alive = list(self.processes.values())
        if alive:
            serving = [one for one in alive if one.would_answer(unit) is not None]
            process = serving[0] if serving and world.chance(0.8) else world.random.choice(alive)
            delay_ms = world.between(0, 20)
            if world.chance(0.4):
                value = f"{unit.number}.{world.steps}"

                def told(offset: int, appended: Appended) -> None:
                    self.world.watched(self._told)(unit, offset, value, appended)

                world.after(delay_ms, process.loop.enter, process.write, unit, value, told)
            else:
                expected = list(self.acknowledged[unit])
                timeline = self.database.tables.timeline

                def read(found: list[str]) -> None:
                    if timeline == self.database.tables.timeline or not self.lossy:
                        self.world.watched(self._check_read)(unit, expected, found)

                world.after(delay_ms, process.loop.enter, process.read, unit, read)
        world.after(ASK_EVERY_MS, self._ask)

    # Faults

    def _start_node(self) -> None:
        for node_id in self.node_ids:
            if node_id not in self.processes:
                self.world.trace("starts", node_id)
                process = Process(self.world, self.database, node_id, self.unit_count)
                process.session.slow_ms = self.world.between(1, 60)
                process.slow_chance = 0.0 if self.faults.healed else process.slow_chance
                self.processes[node_id] = process
                return

    def _gone(self, process: Process) -> None:
        process.kill()
        if self.processes.get(process.node_id) is process:
            del self.processes[process.node_id]

    def _faults(self) -> NodeFaults:
        faults = NodeFaults(
            self.world,
            self.database,
            self.node_ids,
            self.processes,
            self._gone,
            every_ms=(50, 3000),
            longest_ms=3 * LEASE_MS,
            losses=[0.0, 0.1, 0.4],
            delays_ms=[2, 50, 300, 1500],
        )
        faults.kinds = [
            self._start_node,
            faults.kill,
            faults.stop,
            faults.freeze,
            faults.freeze,
            faults.cut,
            faults.lose,
            faults.slow,
            faults.jump,
            faults.database_away,
            self._promote,
            faults.drain,
        ]
        return faults

    def _promote(self) -> None:
        if self.world.chance(0.5):
            return
        self.world.trace("a standby is promoted")
        self.database.promote(lossy=self.lossy)
        if self.world.chance(0.5):
            self.faults.cut()  # somebody does not see the new server yet
        if self.lossy:
            # What was lost is lost; nobody may know of it one lease later.
            self.forgotten_until_ms = self.world.now_ms + LEASE_MS
            self.changes.clear()
            self.due_version = min(self.due_version, self.database.tables.catalogue)
            for unit, values in self.acknowledged.items():
                self.acknowledged[unit] = [
                    value if self._in_log(unit, offset, value) else ""
                    for offset, value in enumerate(values)
                ]

    def _copy(self) -> None:
        self.database.copy()
        self.world.after(self.world.between(20, 400), self._copy)

    # Phases

    def run(self) -> Result:
        try:
            return self._run()
        except Exception as error:
            story = "\n".join(self.world.story(60))
            raise SimulationFailed(
                f"{type(error).__name__}: {error}\n\nlast steps:\n{story}\n\nseed {self.seed} "
                f"failed; repeat with: python -m tests.simulator.cluster --seed {self.seed} -v"
            ) from error

    def _run(self) -> Result:
        for _ in self.node_ids:
            self._start_node()
        self._copy()
        self._ask()
        self._change()
        self.world.after(self.world.between(0, 5000), self.faults.begin)
        self.world.run_until(FAULTS_MS)
        self._heal()
        settled_ms = self._settle()
        self.check_logs()
        moves = sum(row.epoch for row in self.database.tables.units.values())
        return Result(
            self.world.steps, self.writes, self.reads, moves, settled_ms, self.world.digest()
        )

    def _heal(self) -> None:
        self.world.trace("---- all faults are over")
        self.faults.heal()
        for process in self.processes.values():
            process.slow_chance = 0.0
        for _ in self.node_ids:
            self._start_node()

    def _settle(self) -> int:
        start_ms, polls = self.world.now_ms, 0
        while polls < LINGER_POLLS:
            why = self._unsettled()
            polls = 0 if why else polls + 1
            if self.world.now_ms - start_ms > PATIENCE_MS:
                raise Violation(f"not settled: {why}")
            self.world.run_until(self.world.now_ms + POLL_MS)
        return self.world.now_ms - start_ms - LINGER_POLLS * POLL_MS

    def _unsettled(self) -> str:
        for unit in self.units:
            if not any(one.would_answer(unit) is not None for one in self.processes.values()):
                return f"nobody serves {unit}"
        for process in self.processes.values():
            if process.loop.frozen_until_ms > self.world.now_ms:
                return f"node {process.node_id} is frozen"
            if process.node.view.timeline != str(self.database.tables.timeline):
                return f"node {process.node_id} does not know of the promotion"
            if process.node.not_ready:
                return f"node {process.node_id}: {process.node.not_ready}"
        state = self.database.state(-1)
        assert state.units is not None
        wanted = plan(state.nodes, state.units)
        for one in state.units:
            if one.owner != wanted[one.unit]:
                return f"{one.unit} is owned by {one.owner}, not {wanted[one.unit]}"
        return ""


def simulate_cluster(seed: int, *, verbose: bool = False) -> Result:
    """Run one seed. Raises SimulationFailed."""
    return ClusterSimulation(seed, verbose=verbose).run()
