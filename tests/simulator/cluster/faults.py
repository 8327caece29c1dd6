"""What goes wrong in a cluster: nodes end or stand still, their way to the database and their
clocks fail, the database is away, and units move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tests.simulator.cluster.database import Database, Session
from tests.simulator.cluster.process import NodeClock
from tests.simulator.loop import VirtualLoop
from tests.simulator.world import World


class FaultyNode(Protocol):
    """A life of a node. `stopping`: it ends in order. `stop(stopped)`: begin that; `stopped()` is
    called at its end."""

    node_id: int
    session: Session
    loop: VirtualLoop
    clock: NodeClock
    stopping: bool

    def stop(self, stopped: Callable[[], None]) -> None: ...


class NodeFaults:
    """One fault after the other from `begin` on, until `heal`. `nodes`: those that run, by id.
    `gone(node)` ends the life of a node. `longest_ms`: no node is frozen or cut off for longer.
    `losses`, `delays_ms`: what the way to the database may be like."""

    def __init__(
        self,
        world: World,
        database: Database,
        node_ids: Sequence[int],
        nodes: Mapping[int, FaultyNode],
        gone: Callable[[Any], None],
        *,
        every_ms: tuple[int, int],
        longest_ms: int,
        losses: Sequence[float],
        delays_ms: Sequence[int],
    ) -> None:
        self.healed = False
        self.kinds: list[Callable[[], None]] = []
        """One of these is called for each fault. Kinds that are in it twice are as likely again."""
        self._world = world
        self._database = database
        self._node_ids = node_ids
        self._nodes = nodes
        self._gone = gone
        self._every_ms = every_ms
        self._longest_ms = longest_ms
        self._losses = losses
        self._delays_ms = delays_ms

    def begin(self) -> None:
        if not self.healed:
            self._world.after(self._world.between(*self._every_ms), self.begin)
            self._world.random.choice(self.kinds)()

    def heal(self) -> None:
        """From now on there are no faults, and the effects of earlier ones are over. Nodes that are
        stopping end."""
        self.healed = self._database.up = True
        for node in list(self._nodes.values()):
            node.session.cut, node.session.lost_chance, node.session.slow_ms = False, 0.0, 5
            if node.stopping:
                self._gone(node)
        for row in self._database.tables.nodes.values():
            row.draining = False
        self._database.changed()

    def some(self) -> Any:
        """A node that runs, or None."""
        alive = list(self._nodes.values())
        return self._world.random.choice(alive) if alive else None

    def kill(self) -> None:
        if (node := self.some()) is not None:
            self._world.trace("is killed", node.node_id)
            self._gone(node)

    def stop(self) -> None:
        node = self.some()
        if node is None or node.stopping:
            return
        self._world.trace("stops", node.node_id)

        def stopped() -> None:
            self._world.trace("has stopped", node.node_id)
            self._gone(node)

        node.stop(stopped)

    def freeze(self) -> None:
        if (node := self.some()) is not None:
            for_ms = self._world.between(10, self._longest_ms)
            self._world.trace("is frozen", node.node_id, for_ms)
            node.loop.freeze(for_ms)

    def cut(self) -> None:
        if (node := self.some()) is not None:
            for_ms = self._world.between(100, self._longest_ms)
            self._world.trace("is cut off", node.node_id, for_ms)
            node.session.cut = True
            self._world.after(for_ms, lambda: setattr(node.session, "cut", False))

    def lose(self) -> None:
        if (node := self.some()) is not None:
            node.session.lost_chance = self._world.random.choice(self._losses)
            self._world.trace("loses", node.node_id, node.session.lost_chance)

    def slow(self) -> None:
        if (node := self.some()) is not None:
            node.session.slow_ms = self._world.random.choice(self._delays_ms)
            self._world.trace("is slow", node.node_id, node.session.slow_ms)

    def jump(self) -> None:
        if (node := self.some()) is not None:
            node.clock.wall_jump_ms += self._world.between(-10_000, 10_000)
            self._world.trace("wall clock jumps", node.node_id)

    def database_away(self) -> None:
        if self._database.up:
            for_ms = self._world.between(100, self._longest_ms)
            self._world.trace("database is away", for_ms)
            self._database.up = False
            self._world.after(for_ms, lambda: setattr(self._database, "up", True))

    def drain(self) -> None:
        """Let units move."""
        row = self._database.tables.nodes.get(self._world.random.choice(self._node_ids))
        if row is not None:
            row.draining = not row.draining
            self._world.trace("drains" if row.draining else "resumes", row.facts.node_id)
            self._database.changed()
