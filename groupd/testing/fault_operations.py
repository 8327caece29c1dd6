"""Faults as calls: adding, watching and ending them, a log that fails, a coordinator that moves."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.faults.layer import FaultState
from groupd.coordinator.faults.spec import FIND_COORDINATOR, make_spec, whole
from groupd.testing.engine import Engine
from groupd.testing.explain import what_is_there
from groupd.testing.watch import TIMEOUT_S

APPEND_FAULTS_MAX = 1000


class FaultOperations:
    """On one engine; errors are HarnessError."""

    _engine: Engine

    async def add_fault(self, action: str, **given: Any) -> int:
        """Its number. See `coordinator/faults/spec.py` for what may be given."""
        return self._engine.add_fault(make_spec(action, given))

    async def fault(self, number: int) -> FaultState:
        """What was given, and `hits`, `held`, `over`."""
        return self._engine.faults.get(number).shown()

    async def faults(self) -> list[FaultState]:
        """All of them, oldest first."""
        return [fault.shown() for fault in self._engine.faults.faults.values()]

    async def release_fault(self, number: int) -> int:
        """Let go what it holds and end it; how many requests were held."""
        return self._engine.release_fault(number)

    async def remove_fault(self, number: int) -> None:
        """`release_fault`, and forget it."""
        self._engine.remove_fault(number)

    async def remove_faults(self) -> None:
        """All of them."""
        for number in list(self._engine.faults.faults):
            self._engine.remove_fault(number)

    async def wait_fault(self, number: int, hits: int = 1, timeout: float = TIMEOUT_S) -> int:
        """Until it has taken so many requests; how many it took. Raises WaitTimeout."""
        fault = self._engine.faults.get(number)
        return await self._engine.watch.until(
            lambda: fault.hits if fault.hits >= hits else None,
            timeout,
            lambda: f"{hits} hits of fault {fault.shown()}\n{what_is_there(self._engine)}",
        )

    # The coordinator

    async def move_coordinator(
        self,
        group: str | None = None,
        *,
        to: tuple[int, str, int] | None = None,
        count: int | None = None,
    ) -> list[int]:
        """The coordinator is elsewhere: every API of the group (None: of all) is answered with
        NOT_COORDINATOR, and FindCoordinator with the node `to` (id, host, port), or with
        COORDINATOR_NOT_AVAILABLE. `count`: that many requests of each kind, then it is back. The
        numbers of the two faults."""
        common = {"group": group, "count": count}
        gone = make_spec("error", {"api": "group", "code": "NOT_COORDINATOR", **common})
        if to is None:
            code = "COORDINATOR_NOT_AVAILABLE"
            found = make_spec("error", {"api": FIND_COORDINATOR, "code": code, **common})
        else:
            found = make_spec("redirect", {"node": to, **common})
        return [self._engine.add_fault(spec) for spec in (gone, found)]

    async def loading(self, group: str | None = None, *, count: int | None = None) -> int:
        """The coordinator loads: COORDINATOR_LOAD_IN_PROGRESS from every API of the group (None:
        of all). The number of the fault."""
        given = {"api": "group", "code": "COORDINATOR_LOAD_IN_PROGRESS", "group": group}
        return self._engine.add_fault(make_spec("error", {**given, "count": count}))

    # The log

    async def fail_appends(self, count: int = 1, *, applied: bool = False) -> None:
        """The next `count` transactions of the store fail. `applied`: they are written all the
        same, and the coordinator has to find out by reading its log again."""
        whole("count", count, 1, APPEND_FAULTS_MAX)
        store = self._engine.store
        if store.append_faults + count > APPEND_FAULTS_MAX:
            raise HarnessError(f"at most {APPEND_FAULTS_MAX} appends can be made to fail")
        for _ in range(count):
            self._engine.fail_append(applied=applied)

    async def hold_appends(self) -> None:
        """From now on the log is stuck: nothing becomes durable until `release_appends`."""
        self._engine.hold_appends()

    async def release_appends(self) -> None:
        self._engine.release_appends()
