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


async def test_a_unit_that_is_dropped_is_not_loaded_any_longer() -> None:
    """Also if it is being given up, which waits for the end of the load."""
    host = Host()
    held = HeldUnits({PARTITIONS: host}, SystemClock(), lambda: None)
    unit = Unit(PARTITIONS, 0)
    held.take([UnitState(unit, 1, 1, 1)])
    await settle()
    held.give_up([unit])
    await settle()
    held.drop_all()
    await settle()
    names = {task.get_name() for task in asyncio.all_tasks()}
    assert not names & {"serve partitions-0", "give-up partitions-0"}
    assert host.calls == [("serve", 0), ("drop", 0)]
