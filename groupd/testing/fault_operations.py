"""Operations on faults; appends to the log that fail; a coordinator that moves."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.faults.layer import FaultState
from groupd.coordinator.faults.spec import FIND_COORDINATOR, make_spec
from groupd.testing.engine import Engine
from groupd.testing.explain import broker_overview
from groupd.testing.watch import TIMEOUT_S

APPEND_FAULTS_MAX = 1000


class FaultOperations:
    """The fault operations of one engine. Errors are HarnessError."""

    _engine: Engine

    async def add_fault(self, action: str, **given: Any) -> int:
        """Add a fault and return its number. The options: `groupd/coordinator/faults/spec.py`."""
        return self._engine.add_fault(make_spec(action, given))

    async def fault(self, number: int) -> FaultState:
        """The fault's options, and its `hits`, `held` and `over`."""
        return self._engine.faults.get(number).shown()

    async def faults(self) -> list[FaultState]:
        """All faults, oldest first."""
        return [fault.shown() for fault in self._engine.faults.faults.values()]

    async def release_fault(self, number: int) -> int:
        """End the fault and release the requests that it holds. Returns their number."""
        return self._engine.release_fault(number)

    async def remove_fault(self, number: int) -> None:
        """`release_fault`, then forget the fault."""
        self._engine.remove_fault(number)

    async def remove_faults(self) -> None:
        """Remove all faults."""
        for number in list(self._engine.faults.faults):
            self._engine.remove_fault(number)

    async def wait_fault(self, number: int, hits: int = 1, timeout: float = TIMEOUT_S) -> int:
        """Wait until the fault has hit `hits` requests; returns its number of hits. Raises
        WaitTimeout."""
        fault = self._engine.faults.get(number)
        return await self._engine.watch.until(
            lambda: fault.hits if fault.hits >= hits else None,
            timeout,
            lambda: f"{hits} hits of fault {fault.shown()}\n{broker_overview(self._engine)}",
        )

    # The coordinator

    async def move_coordinator(
        self,
        group: str | None = None,
        *,
        to: tuple[int, str, int] | None = None,
        count: int | None = None,
    ) -> list[int]:
        """Act as if the coordinator had moved: every API of the group (None = of all groups) is
        answered with NOT_COORDINATOR, and FindCoordinator with the node `to` (id, host, port), or
        with COORDINATOR_NOT_AVAILABLE without one. `count`: after that many requests of each kind
        the coordinator is back. Returns the numbers of the two faults."""
        common = {"group": group, "count": count}
        gone = make_spec("error", {"api": "group", "code": "NOT_COORDINATOR", **common})
        if to is None:
            code = "COORDINATOR_NOT_AVAILABLE"
            found = make_spec("error", {"api": FIND_COORDINATOR, "code": code, **common})
        else:
            found = make_spec("redirect", {"node": to, **common})
        return [self._engine.add_fault(spec) for spec in (gone, found)]

    async def loading(self, group: str | None = None, *, count: int | None = None) -> int:
        """Act as if the coordinator were loading: every API of the group (None = of all groups) is
        answered with COORDINATOR_LOAD_IN_PROGRESS. Returns the fault's number."""
        given = {"api": "group", "code": "COORDINATOR_LOAD_IN_PROGRESS", "group": group}
        return self._engine.add_fault(make_spec("error", {**given, "count": count}))

    # The log

    async def fail_appends(self, count: int = 1, *, applied: bool = False) -> None:
        """Let the next `count` transactions of the store fail. With `applied` they are written all
        the same, and the coordinator has to read its log again to find that out.

        >>> groupd.faults.fail_appends()
        >>> groupd.commit("billing", {("orders", 0): 5})
        Traceback (most recent call last):
        groupd.testing.RequestRefused: NOT_COORDINATOR: offset of orders-0
        """
        if count < 1 or self._engine.store.append_faults + count > APPEND_FAULTS_MAX:
            raise HarnessError(f"from 1 to {APPEND_FAULTS_MAX} appends can be made to fail")
        for _ in range(count):
            self._engine.fail_append(applied=applied)

    async def hold_appends(self) -> None:
        """Block the log until `release_appends`: nothing becomes durable, and requests that wait
        for the log get no answer.

        >>> groupd.faults.hold_appends()
        >>> groupd.faults.release_appends()
        """
        self._engine.hold_appends()

    async def release_appends(self) -> None:
        """End `hold_appends`: the appends become durable, and their requests are answered.

        >>> groupd.faults.release_appends()
        """
        self._engine.release_appends()
