"""What goes wrong in a simulation of share groups: nodes, their way to the database, their clocks,
units that move, and members that come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.cluster.process import LEASE_MS
from tests.simulator.shares.node import Node

if TYPE_CHECKING:
    from tests.simulator.shares.simulation import ShareSimulation


class ShareFaults:
    """One fault after the other from `begin` on, until the simulation is healed."""

    def __init__(self, simulation: ShareSimulation) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._every_ms = self._world.random.choice([400, 2000, 6000])

    def begin(self) -> None:
        world = self._world
        if self._simulation.healed:
            return
        world.after(world.between(50, 2 * self._every_ms), self.begin)
        world.random.choice(
            [
                self._kill,
                self._stop,
                self._freeze,
                self._cut,
                self._lose,
                self._slow,
                self._jump,
                self._database_away,
                self._drain,
                self._drain,
                self._churn,
                self._churn,
                self._churn,
            ]
        )()

    def _some(self) -> Node | None:
        alive = list(self._simulation.nodes.values())
        return self._world.random.choice(alive) if alive else None

    def _kill(self) -> None:
        if (node := self._some()) is not None:
            self._world.trace("is killed", node.node_id)
            self._simulation.gone(node)

    def _stop(self) -> None:
        node = self._some()
        if node is not None and node.serving and not node.stopping:
            self._world.trace("stops", node.node_id)
            node.stop(lambda: self._simulation.gone(node))

    def _freeze(self) -> None:
        if (node := self._some()) is not None:
            for_ms = self._world.between(10, 2 * LEASE_MS)
            self._world.trace("is frozen", node.node_id, for_ms)
            node.loop.freeze(for_ms)

    def _cut(self) -> None:
        if (node := self._some()) is not None:
            for_ms = self._world.between(100, 2 * LEASE_MS)
            self._world.trace("is cut off", node.node_id, for_ms)
            node.session.cut = True
            self._world.after(for_ms, lambda: setattr(node.session, "cut", False))

    def _lose(self) -> None:
        if (node := self._some()) is not None:
            node.session.lost_chance = self._world.random.choice([0.0, 0.05, 0.2])
            self._world.trace("loses", node.node_id, node.session.lost_chance)

    def _slow(self) -> None:
        if (node := self._some()) is not None:
            node.session.slow_ms = self._world.random.choice([2, 50, 300])
            self._world.trace("is slow", node.node_id, node.session.slow_ms)

    def _jump(self) -> None:
        if (node := self._some()) is not None:
            node.clock.wall_jump_ms += self._world.between(-10_000, 10_000)
            self._world.trace("wall clock jumps", node.node_id)

    def _database_away(self) -> None:
        if self._simulation.database.up:
            for_ms = self._world.between(100, 2 * LEASE_MS)
            self._world.trace("database is away", for_ms)
            self._simulation.database.up = False
            self._world.after(for_ms, lambda: setattr(self._simulation.database, "up", True))

    def _drain(self) -> None:
        """Let units move."""
        row = self._simulation.database.tables.nodes.get(
            self._world.random.choice(self._simulation.node_ids)
        )
        if row is not None:
            row.draining = not row.draining
            self._world.trace("drains" if row.draining else "resumes", row.facts.node_id)
            self._simulation.database.changed()

    def _churn(self) -> None:
        """Something happens to a member."""
        world = self._world
        member = world.random.choice(self._simulation.members)
        if not member.running:
            member.start()
            return
        what = world.random.choice(["die", "leave", "freeze", "reconnect"])
        if what == "freeze":
            member.freeze(world.between(100, 2 * self._simulation.lock_ms))
        elif what == "die":
            member.die()
        elif what == "leave":
            member.leave()
        else:
            member.reconnect()
