"""The units that this node owns: each is served, and later given up, with one call at a time.

A unit is *held* from its acquisition until its release is confirmed. A unit that was given up is
only served again after it was acquired anew.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

import structlog
from msgspec import Struct

from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.ownership import UnitServer
from groupd.storage.cluster import UnitState
from groupd.storage.units import OwnedUnit, Unit

log = structlog.get_logger("groupd.cluster")

LOADS_AT_ONCE = 16
"""How many units are loaded at a time, their logs opened together. The others wait for their
turn."""


class _HeldUnit(Struct):
    """A unit of this node. `task`: the last call for it. `served`: its server has loaded it.
    `suspended`: the lease is over, so the unit is owned but not served. `leaving`: it is being
    given up. `given_up`: nothing is under way for it any more."""

    epoch: int
    task: asyncio.Task[None] | None = None
    served: bool = False
    suspended: bool = False
    leaving: bool = False
    given_up: bool = False


class HeldUnits:
    """All units that this node holds. `changed()` is called when all units are served, and when one
    was given up."""

    def __init__(
        self, servers: Mapping[str, UnitServer], clock: Clock, changed: Callable[[], None]
    ) -> None:
        self.taken: Counter[str] = Counter()
        """How many units of each kind were acquired since the start."""
        self.given: Counter[str] = Counter()
        """How many units of each kind were given up or dropped since the start."""
        self.last_load_ms = 0
        """How long the last load of a unit took."""
        self._servers = servers
        self._clock = clock
        self._changed = changed
        self._held: dict[Unit, _HeldUnit] = {}
        self._turns = asyncio.Semaphore(LOADS_AT_ONCE)

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, unit: Unit) -> bool:
        return unit in self._held

    def owns(self, unit: Unit) -> bool:
        """Whether this node may answer for the unit, apart from the lease: it is held and not being
        given up."""
        held = self._held.get(unit)
        return held is not None and not held.leaving

    def epoch(self, unit: Unit) -> int | None:
        """The epoch at which the unit is held; None if it is not."""
        held = self._held.get(unit)
        return None if held is None else held.epoch

    @property
    def counts(self) -> Counter[str]:
        """How many units of each kind this node owns."""
        return Counter(unit.kind for unit, held in self._held.items() if not held.leaving)

    @property
    def loading(self) -> int:
        """How many units are owned and not served yet."""
        return sum(not held.served and not held.leaving for held in self._held.values())

    @property
    def releasable(self) -> list[OwnedUnit]:
        """The units that were given up and are not released yet."""
        return [OwnedUnit(unit, held.epoch) for unit, held in self._held.items() if held.given_up]

    def take(self, owned: Sequence[UnitState]) -> None:
        """Serve the units of `owned` that are not held yet."""
        for one in owned:
            held = self._held.get(one.unit)
            if held is not None and held.epoch == one.epoch:
                continue
            assert held is None or held.given_up, f"{one} while {held.epoch} is served"
            held = self._held[one.unit] = _HeldUnit(one.epoch)
            self.taken[one.unit.kind] += 1
            held.task = self._start("serve", one.unit, self._serve(one.unit, held))

    def give_up(self, units: Collection[Unit]) -> None:
        """Give up the units of `units` that are held."""
        for unit in units:
            held = self._held.get(unit)
            if held is not None and not held.leaving:
                held.leaving = True
                self.given[unit.kind] += 1
                held.task = self._start("give-up", unit, self._give_up(unit, held, held.task))

    def give_up_all(self) -> None:
        self.give_up(list(self._held))

    def forget(self, units: Collection[Unit]) -> None:
        """Remove these units: they are released."""
        for unit in units:
            del self._held[unit]

    def suspend(self) -> None:
        """The lease is over: serve nothing and drop what is in memory, until `resume` or
        `drop_all`. Units that are being given up are not affected."""
        for unit, held in self._held.items():
            if not held.leaving and not held.suspended:
                held.suspended, held.served = True, False
                self._drop(unit, held)

    def resume(self) -> None:
        """The lease is renewed, and no other node has had the units: load them again."""
        for unit, held in self._held.items():
            if held.suspended and not held.leaving:
                held.suspended = False
                held.task = self._start("serve", unit, self._serve(unit, held))

    def drop_all(self) -> None:
        """The lease is lost: drop everything at once."""
        held, self._held = self._held, {}
        for unit, one in held.items():
            if not one.leaving:
                self.given[unit.kind] += 1
            self._drop(unit, one)

    def _drop(self, unit: Unit, held: _HeldUnit) -> None:
        if held.task is not None:
            held.task.cancel()
        try:
            self._servers[unit.kind].drop(unit)
        except Exception:
            log.exception("a unit cannot be dropped", unit=_name(unit))

    def _start(self, what: str, unit: Unit, call: Awaitable[None]) -> asyncio.Task[None]:
        async def run() -> None:
            await call

        return asyncio.get_running_loop().create_task(run(), name=f"{what} {_name(unit)}")

    async def _serve(self, unit: Unit, held: _HeldUnit) -> None:
        async with self._turns:
            if held.leaving:
                return
            started_ms = self._clock.monotonic_ms()
            try:
                await self._servers[unit.kind].serve(unit, held.epoch)
            except Exception:
                log.exception("a unit cannot be served", unit=_name(unit))
            self.last_load_ms = self._clock.monotonic_ms() - started_ms
        held.served = True
        if not self.loading:
            self._changed()

    async def _give_up(
        self, unit: Unit, held: _HeldUnit, before: asyncio.Task[None] | None
    ) -> None:
        if before is not None:
            try:
                await asyncio.wait([before])
            except asyncio.CancelledError:
                before.cancel()  # the unit was dropped while it was still being loaded
                raise
        host = self._servers[unit.kind]
        try:
            # Also for a unit that is still waiting to be loaded: a unit that is owned may be used
            # before it is served. Logs that were opened then must be closed when the unit comes
            # back.
            await host.give_up(unit)
        except Exception:
            # The next owner opens the log anew and so fences the writes of this one.
            log.exception("a unit cannot be given up in order", unit=_name(unit))
            host.drop(unit)
        held.given_up = True
        self._changed()


def _name(unit: Unit) -> str:
    return f"{unit.kind}-{unit.number}"
