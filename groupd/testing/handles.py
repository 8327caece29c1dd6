"""Handles for faults and recipes, as tests use them; each handle makes plain calls of
`Operations`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from groupd.testing.answers import RecipeResult
from groupd.testing.watch import TIMEOUT_S

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

Call = Callable[..., Any]
"""Calls one of `Operations` by name."""


class Removable(ABC):
    """A handle that removes what it stands for at the end of a `with` block."""

    @abstractmethod
    def remove(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()


class FaultHandle(Removable):
    """One fault. It is removed at the end of a `with` block. `what`: the fault's options, for its
    repr."""

    def __init__(self, call: Call, number: int, what: str = "") -> None:
        self._call = call
        self.number = number
        self._what = what

    def __repr__(self) -> str:
        return f"<Fault {self.number}{self._what}>"

    @property
    def hits(self) -> int:
        """How many requests the fault has hit."""
        return int(self._call("fault", self.number)["hits"])

    @property
    def held(self) -> int:
        """How many requests the fault keeps back now."""
        return int(self._call("fault", self.number)["held"])

    def wait(self, hits: int = 1, timeout: float = TIMEOUT_S) -> int:
        """See `FaultOperations.wait_fault`."""
        return int(self._call("wait_fault", self.number, hits, timeout))

    def release(self) -> int:
        """End the fault and let go the requests that it holds; returns how many those were."""
        return int(self._call("release_fault", self.number))

    def remove(self) -> None:
        """`release`, then forget the fault; `hits` is gone then. A second call does nothing."""
        self._call("remove_fault", self.number)


class FaultOptions(TypedDict, total=False):
    """The options of a fault; `coordinator/faults/spec.py` describes them."""

    api: str | int | Sequence[str | int]
    group: str | None
    member: str | None
    client_id: str | None
    transactional_id: str | None
    count: int | None
    skip: int
    probability: float
    seed: int
    after: FaultHandle | int | None
    applied: bool
    code: str | int
    message: str | None
    ms: int
    node: tuple[int, str, int]


class Faults:
    """`c.faults`: the faults of a broker."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def add(self, action: str, **given: Unpack[FaultOptions]) -> FaultHandle:
        """Add a fault; `coordinator/faults/spec.py` describes the options. `after` may be a
        handle."""
        if isinstance(after := given.get("after"), FaultHandle):
            given["after"] = after.number
        number = self._call("add_fault", action, **given)
        options = "".join(f" {name}={value}" for name, value in given.items())
        return FaultHandle(self._call, number, f" {action}{options}")

    def clear(self) -> None:
        """Remove all faults."""
        self._call("remove_faults")

    def move_coordinator(
        self,
        group: str | None = None,
        *,
        to: tuple[int, str, int] | None = None,
        count: int | None = None,
    ) -> Incident:
        """See `FaultOperations.move_coordinator`."""
        return Incident(
            self._call, {"faults": self._call("move_coordinator", group, to=to, count=count)}
        )

    def loading(self, group: str | None = None, *, count: int | None = None) -> FaultHandle:
        """See `FaultOperations.loading`."""
        return FaultHandle(self._call, self._call("loading", group, count=count))

    def fail_appends(self, count: int = 1, *, applied: bool = False) -> None:
        """See `FaultOperations.fail_appends`."""
        self._call("fail_appends", count, applied=applied)

    def hold_appends(self) -> None:
        """See `FaultOperations.hold_appends`."""
        self._call("hold_appends")

    def release_appends(self) -> None:
        self._call("release_appends")


class Incident(Removable):
    """What a recipe has set up: its `faults`, and `result`, everything that the recipe returned."""

    def __init__(self, call: Call, result: RecipeResult) -> None:
        self.result = result
        self.faults = [FaultHandle(call, number) for number in result["faults"]]

    def __repr__(self) -> str:
        return f"<Incident {self.result}>"

    @property
    def hits(self) -> int:
        """How many requests the recipe's faults have hit."""
        return sum(fault.hits for fault in self.faults)

    def release(self) -> int:
        """End the faults and let go the requests that they hold; returns how many those were."""
        return sum(fault.release() for fault in self.faults)

    def remove(self) -> None:
        """`release`, then forget the faults."""
        for fault in self.faults:
            fault.remove()


class RecipeCalls:
    """`c.recipes`: the methods of `groupd.testing.recipes.Recipes`; each returns an `Incident`."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def zombie_member(self, group: str, member: str | None = None) -> Incident:
        return self._run("zombie_member", group, member)

    def slow_rebalance(self, group: str, ms: int | None = None) -> Incident:
        return self._run("slow_rebalance", group, ms)

    def coordinator_failover(
        self, group: str, *, applied: bool = True, outage: int = 3
    ) -> Incident:
        return self._run("coordinator_failover", group, applied=applied, outage=outage)

    def offset_expiry(self, group: str) -> Incident:
        return self._run("offset_expiry", group)

    def static_member_conflict(self, group: str, instance: str) -> Incident:
        return self._run("static_member_conflict", group, instance)

    def fatal_heartbeat_error(
        self, group: str, code: str | None = None, member: str | None = None
    ) -> Incident:
        return self._run("fatal_heartbeat_error", group, code, member)

    def unknown_member_storm(self, group: str) -> Incident:
        return self._run("unknown_member_storm", group)

    def _run(self, name: str, *args: Any, **options: Any) -> Incident:
        return Incident(self._call, self._call(name, *args, **options))
