"""The calls that the host of a unit gets."""

from __future__ import annotations

import asyncio

from groupd.coordinator.cluster.units import LOADS_AT_ONCE, HeldUnits
from groupd.coordinator.runtime.clock import SystemClock
from groupd.storage.cluster import UnitState
from groupd.storage.units import PARTITIONS, Unit


class Host:
    """Serves nothing to its end until `go_on`."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.go_on = asyncio.Event()

    async def serve(self, unit: Unit, epoch: int) -> None:
        self.calls.append(("serve", unit.number))
        await self.go_on.wait()

    async def give_up(self, unit: Unit) -> None:
        self.calls.append(("give up", unit.number))

    def drop(self, unit: Unit) -> None:
        self.calls.append(("drop", unit.number))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_unit_that_waits_for_its_turn_is_given_up_like_any_other() -> None:
    """It is owned, so requests may have opened something of it."""
    host = Host()
    held = HeldUnits({PARTITIONS: host}, SystemClock(), lambda: None)
    last = Unit(PARTITIONS, LOADS_AT_ONCE)
    held.take([UnitState(Unit(PARTITIONS, n), 1, 1, 1) for n in range(LOADS_AT_ONCE + 1)])
    await settle()
    assert ("serve", last.number) not in host.calls
    assert held.owns(last)
    held.give_up([last])
    host.go_on.set()
    await settle()
    assert host.calls[-1] == ("give up", last.number)
    assert ("serve", last.number) not in host.calls
    assert [one.unit for one in held.releasable] == [last]
