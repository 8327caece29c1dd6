"""One run: the parts put together, the two phases, and what a failure looks like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.storage.log import StoredBatch
from tests.simulator.chaos import Chaos
from tests.simulator.checks import Checks
from tests.simulator.client import Client
from tests.simulator.convergence import leaked, unsettled
from tests.simulator.disk import Disk
from tests.simulator.ledger import Ledger
from tests.simulator.logs import captured_log
from tests.simulator.network import Network
from tests.simulator.options import Options, draw
from tests.simulator.population import populate
from tests.simulator.process import Process
from tests.simulator.shadow import Shadow
from tests.simulator.topics import Topics
from tests.simulator.world import Violation, World

POLL_MS = 500
LINGER_POLLS = 4
"""How often in a row the system must be found settled."""

CALM_CHANGES = 3
"""Changes one at a time once all is settled: nothing else makes good what one of them misses."""

FORGET_MS = 10_000
STORY_LINES = 60


class SimulationFailed(AssertionError):
    """`str()` has all that is needed to repeat the run."""


@dataclass(frozen=True, slots=True)
class Result:
    steps: int
    looks: int
    virtual_ms: int
    settled_after_ms: int
    digest: str


class Simulation:
    def __init__(self, options: Options, *, verbose: bool = False) -> None:
        self.options = options
        self.config = options.config()
        self.world = World(options.seed, verbose=verbose)
        self.healed = False
        self.tenures = 0
        self.plans = 0
        self.wall_offset_ms = 1_800_000_000_000
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.topics = Topics(self.world, options.topics, options.partitions_max)
        self.shadow = Shadow(self.config)
        self.disk = Disk(self.world, options)
        self.network = Network(self.world, options)
        self.ledger = Ledger(self)
        self.checks = Checks(self)
        self.process: Process | None = None
        self.log_capture = captured_log()
        self.clients: list[Client] = []
        self.group_ids: list[str] = []
        self.disk.on_durable = self.world.watched(self._on_durable)
        self.disk.crash = self._crash_at_append
        self.shadow.on_record = self.ledger.note
        self.network.before = self.world.watched(self.ledger.before)
        self.network.released = self.world.watched(self.ledger.released)
        self.network.out_of_order = self._taint
        self.world.after_step = self.checks.after_step
        self.chaos = Chaos(self)

    # Life of the process

    def start_process(self) -> None:
        if self.process is not None and self.process.alive:
            return
        self.world.trace("broker starts")
        self.process = Process(
            self.world,
            self.options,
            self.config,
            self.disk,
            self.topics.image,
            self.group_configs,
            self.wall_offset_ms,
        )
        self.network.process = self.process
        if self.options.topic_change_every_ms and not self.healed and self.world.chance(0.3):
            # The change comes while the shards load.
            delay_ms = self.world.between(0, 2 * self.options.append_max_ms)
            self.world.after(delay_ms, self.chaos.change_topics)

    def crash(self, why: str) -> None:
        if self.process is None or not self.process.alive:
            return
        self.world.trace("broker crashes", why)
        self._gone(self.process)

    def _crash_at_append(self) -> None:
        if not self.healed:
            self.crash("during an append")

    def stop_process(self) -> None:
        process = self.process
        if process is None or not process.alive:
            return
        self.world.trace("broker stops")

        def stopped() -> None:
            why = leaked(self, -1)
            if why:
                self.world.failure = Violation(f"not answered at the stop: {why}")
            if process.alive:
                self._gone(process)

        process.stop(stopped)

    def _gone(self, process: Process) -> None:
        process.kill()
        self.network.broken(process)
        if self.options.compaction:
            for name in sorted(self.disk.logs):
                self.disk.compact(name)
        self.world.after(self.world.between(0, 3000), self.start_process)

    def change_topics(self, delta: MetadataDelta | None) -> None:
        if delta is not None and self.process is not None and self.process.alive:
            self.process.on_metadata(delta)

    # What clients ask

    def revocation_ms(self, client: Client) -> int:
        """How long the application takes to give up partitions."""
        if self.healed:
            return self.world.between(0, 50)
        if self.world.chance(0.03):
            return self.options.rebalance_timeout_ms + 2000
        return self.world.between(0, self.options.revocation_ms)

    # Phases

    def run(self) -> Result:
        try:
            return self._run()
        except SimulationFailed:
            raise
        except Exception as error:
            raise SimulationFailed(self._report(error)) from error

    def _run(self) -> Result:
        self.start_process()
        populate(self)
        self.chaos.begin()
        self.world.run_until(self.options.fault_phase_ms)
        self._heal()
        settled_ms = self._converge()
        for _ in range(CALM_CHANGES):
            self.chaos.change_one_thing()
            self._converge()
        self._let_go()
        return Result(
            self.world.steps,
            self.checks.looks,
            self.world.now_ms,
            settled_ms,
            self.world.digest(),
        )

    def _heal(self) -> None:
        self.world.trace("---- all faults are over")
        self.healed = self.disk.healed = self.network.healed = True
        self.start_process()
        self.chaos.end()

    def _converge(self) -> int:
        """Virtual ms until everything was settled, and stayed so."""
        options = self.options
        start_ms = self.world.now_ms
        patience_ms = (
            60_000
            + 3 * options.session_timeout_ms
            + 5 * options.rebalance_timeout_ms
            + 2 * options.request_timeout_ms
        )
        settled, why = 0, ""
        while settled < LINGER_POLLS:
            if self.world.now_ms - start_ms > patience_ms:
                raise Violation(f"not settled {patience_ms} ms after the last fault: {why}")
            self.world.run_until(self.world.now_ms + POLL_MS)
            why = unsettled(self)
            settled = 0 if why else settled + 1
        why = leaked(self, FORGET_MS)
        if why:
            raise Violation(why)
        return self.world.now_ms - start_ms

    def _let_go(self) -> None:
        """All clients vanish; nothing may be left waiting."""
        for client in self.clients:
            client.die()
        for connection in list(self.network.connections):
            self.network.close(connection)
        self.world.run_until(self.world.now_ms + FORGET_MS)
        assert self.process is not None
        if len(self.process.waiting):
            raise Violation(f"{len(self.process.waiting)} requests are left without a client")

    def _on_durable(self, log_name: str, batch: StoredBatch) -> None:
        self.world.note_bytes(batch.payload)
        self.shadow.apply(log_name, batch)

    def _taint(self, client_name: str) -> None:
        for client in self.clients:
            if client.name == client_name:
                client.tainted = True

    def _report(self, error: Exception) -> str:
        seed = self.options.seed
        mixed = " --mixed" if self.options.mixed_groups else ""
        story = "\n".join(self.world.story(STORY_LINES))
        return (
            f"{type(error).__name__}: {error}\n\nlast steps:\n{story}\n\n"
            f"options:\n{self.options.describe()}\n\n"
            f"seed {seed} failed: {type(error).__name__}: {str(error)[:300]}\n"
            f"repeat with: python -m tests.simulator --seed {seed}{mixed} -v"
        )


def simulate(seed: int, *, mixed_groups: bool = False, verbose: bool = False) -> Result:
    """Run one seed. Raises SimulationFailed."""
    options = draw(seed, mixed_groups=mixed_groups)
    return Simulation(options, verbose=verbose).run()
