"""One process of the cluster: a real `ClusterNode`, and units that are as simple as can be.

A unit is a list of values. Writes are appended to its log and acknowledged then; reads are answered
from memory with what is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct, field

from groupd.coordinator.cluster.lease import NodeLease
from groupd.coordinator.cluster.node import ClusterNode
from groupd.coordinator.core.types import Instant
from groupd.storage.cluster import (
    NodeFacts,
)
from groupd.storage.log import LogError, LogFenced
from groupd.storage.units import (
    OwnedUnit,
    Unit,
)
from tests.simulator.cluster.database import Appended, Database, Session
from tests.simulator.loop import VirtualLoop
from tests.simulator.world import Timer, World

KIND = "groups"
RENEW_MS, LEASE_MS = 600, 2400
STOP_MS = 4000
REOPEN_MS = 200


class NodeClock:
    """A clock that is a little fast or slow, and counts from anywhere."""

    def __init__(self, world: World, loop: VirtualLoop) -> None:
        self.wall_jump_ms = 0
        self._world = world
        self._loop = loop
        self._base_ms = world.between(0, 10**9)
        self._rate = 1 + world.between(-20, 20) / 1000

    def monotonic_ms(self) -> int:
        return self._base_ms + int(self._world.now_ms * self._rate)

    def now(self) -> Instant:
        return Instant(self.monotonic_ms(), self.wall_ns() // 1_000_000)

    def elapsed_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000

    def wall_ns(self) -> int:
        return (self.monotonic_ms() + self.wall_jump_ms) * 1_000_000

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> Timer:
        delay_ms = max(0, monotonic_ms - self.monotonic_ms())
        timer: list[Timer] = []

        def fire() -> None:
            if not timer[0].cancelled:
                callback()

        timer.append(self._world.after(delay_ms / self._rate + 1, self._loop.enter, fire))
        return timer[0]


class ServedUnit(Struct, eq=False):
    """A unit in memory. `values`: those that are durable."""

    owned: OwnedUnit
    log_epoch: int = 0
    active: bool = False
    closed: bool = False
    values: list[str] = field(default_factory=list)
    writing: asyncio.Task[None] | None = None


class ToyHost:
    """The `UnitServer` of the units."""

    def __init__(self, session: Session, clock: NodeClock, load_ms: Callable[[], int]) -> None:
        self.units: dict[Unit, ServedUnit] = {}
        self._session = session
        self._clock = clock
        self._load_ms = load_ms

    async def serve(self, unit: Unit, epoch: int) -> None:
        served = self.units[unit] = ServedUnit(OwnedUnit(unit, epoch))
        await self.pause(self._load_ms())
        await self.load(served)

    async def load(self, served: ServedUnit) -> None:
        """Read the log until that works or the unit is closed."""
        while not served.closed:
            try:
                log_epoch, entries = await self._session.open(served.owned)
            except LogFenced:
                return
            except LogError:
                await self.pause(REOPEN_MS)
                continue
            if not served.closed:
                served.log_epoch = log_epoch
                served.values = [value for _, value in entries]
                served.active = True
            return

    async def give_up(self, unit: Unit) -> None:
        served = self.units.get(unit)
        if served is None:
            return
        served.closed, served.active = True, False
        while served.writing is not None:
            await asyncio.wait([served.writing])
        del self.units[unit]

    def drop(self, unit: Unit) -> None:
        served = self.units.pop(unit, None)
        if served is not None:
            served.closed, served.active = True, False

    async def pause(self, delay_ms: int) -> None:
        over = asyncio.Event()
        self._clock.call_at(self._clock.monotonic_ms() + delay_ms, over.set)
        await over.wait()


class Following:
    """A catalogue that takes its time to apply what has changed."""

    def __init__(self, session: Session, pause: Callable[[], Awaitable[None]]) -> None:
        self.applied = 0
        self._forgotten = 0
        self._session = session
        self._pause = pause

    async def catch_up(self) -> None:
        forgotten = self._forgotten
        version = await self._session.catalogue()
        await self._pause()
        if self._forgotten == forgotten:
            self.applied = version

    def forget(self) -> None:
        self.applied = -1
        self._forgotten += 1


class Process:
    """A life of a node, from its start to its end. `stopped` is called after an orderly stop."""

    def __init__(self, world: World, database: Database, node_id: int, units: int) -> None:
        self.world = world
        self.node_id = node_id
        self.loop = VirtualLoop(world)
        self.session = Session(world, database, self.loop, node_id)
        self.clock = NodeClock(world, self.loop)
        self.load_max_ms = 300
        self.slow_chance = 0.1
        """How often the catalogue takes longer than a lease."""
        self.host = ToyHost(self.session, self.clock, lambda: world.between(0, self.load_max_ms))
        self.stopping = False
        self.catalogue = Following(self.session, self._pause)
        self.node: ClusterNode
        self.loop.enter(self._start, units)

    def _start(self, units: int) -> None:
        lease = NodeLease(LEASE_MS, self.clock.elapsed_ns, self.clock.wall_ns)
        self.node = ClusterNode(
            self.node_id,
            self.session,
            self.catalogue,
            self.clock,
            lease,
            {KIND: self.host},
            {KIND: units},
            RENEW_MS,
        )
        started = f"node {self.node_id} from {self.world.now_ms} on"
        self.node.start(NodeFacts(self.node_id, process=started))

    async def _pause(self) -> None:
        slow = self.world.chance(self.slow_chance)
        await self.host.pause(self.world.between(0, 3000 if slow else 20))

    def would_answer(self, unit: Unit) -> ServedUnit | None:
        """The unit if a request for it were answered now."""
        served = self.host.units.get(unit)
        if served is None or not served.active or not self.node.serves(unit):
            return None
        return served

    def kill(self) -> None:
        self.loop.kill()

    def stop(self, stopped: Callable[[], None]) -> None:
        """As SIGTERM does."""
        self.stopping = True

        async def run() -> None:
            await self.node.stop(STOP_MS)
            stopped()

        self.loop.enter(lambda: self.loop.create_task(run()))

    # Requests

    def read(self, unit: Unit, reply: Callable[[list[str]], None]) -> None:
        """Nobody hears of a refusal."""
        served = self.would_answer(unit)
        if served is not None:
            reply(list(served.values))

    def write(self, unit: Unit, value: str, reply: Callable[[int, Appended], None]) -> None:
        """`reply` gets the offset, and what is known of the append."""
        served = self.would_answer(unit)
        if served is not None and served.writing is None:
            task = self.loop.create_task(self._write(served, value, reply))
            served.writing = task

    async def _write(
        self, served: ServedUnit, value: str, reply: Callable[[int, Appended], None]
    ) -> None:
        offset = len(served.values)
        try:
            appended = await self.session.append(served.owned, served.log_epoch, offset, value)
        except LogError:
            # Nobody knows what is in the log now.
            served.active = False
            served.writing = None
            if not served.closed:
                await self.host.load(served)
            return
        served.writing = None
        if self.host.units.get(served.owned.unit) is served:
            served.values.append(value)
            reply(offset, appended)
