"""What goes wrong in a simulation of share groups: what goes wrong with its nodes, and members that
come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.cluster.faults import NodeFaults
from tests.simulator.cluster.process import LEASE_MS

if TYPE_CHECKING:
    from tests.simulator.shares.simulation import ShareSimulation


class ShareFaults(NodeFaults):
    def __init__(self, simulation: ShareSimulation) -> None:
        super().__init__(
            simulation.world,
            simulation.database,
            simulation.node_ids,
            simulation.nodes,
            simulation.gone,
            every_ms=(50, 2 * simulation.world.random.choice([400, 2000, 6000])),
            longest_ms=2 * LEASE_MS,
            losses=[0.0, 0.05, 0.2],
            delays_ms=[2, 50, 300],
        )
        self._simulation = simulation
        self.kinds = [
            self.kill,
            self.stop,
            self.freeze,
            self.cut,
            self.lose,
            self.slow,
            self.jump,
            self.database_away,
            self.drain,
            self.drain,
            self.churn,
            self.churn,
            self.churn,
        ]

    def churn(self) -> None:
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
