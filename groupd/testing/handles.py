"""Handles for the clock, for faults and for recipes, as tests use them. They call the plain methods
of `Operations`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import UTC, datetime
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Self, TypedDict, Unpack

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.answers import RecipeResult
from groupd.testing.calls import Call, Calling, P, SpellingHints, blocking
from groupd.testing.operations import Operations
from groupd.testing.watch import TIMEOUT_S

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class HarnessClock(SpellingHints):
    """The coordinator's time. It runs ("real", or a factor) or stands still ("frozen"); the marker
    or `GroupCoordinator.start` says how it begins. docs/testing.md#time has the rules."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call

    def __repr__(self) -> str:
        try:
            factor = self._call("clock_factor")
        except HarnessError:
            return "<Clock of a closed broker>"
        mode = {0: "frozen", 1: "real"}.get(factor, f"{factor:g} times as fast")
        return f"<Clock {mode}, {datetime.fromtimestamp(self.now_ms / 1000, UTC):%F %T} UTC>"

    def advance(self, ms: int, *, keep_connected: bool = True) -> int:
        """Let `ms` milliseconds pass at once and return how many timers fired. They fire in order,
        each at its time, and all their effects are durable and answered when the call returns.

        Members whose connection is open count as heartbeating during that time. With
        `keep_connected=False` no member does: every session that is due in that time ends.

        >>> before_ms = groupd.clock.now_ms
        >>> groupd.clock.freeze()
        >>> fired = groupd.clock.advance(45_000)
        >>> groupd.clock.now_ms - before_ms >= 45_000
        True
        """
        return int(self._call("advance", ms, keep_connected=keep_connected))

    def freeze(self) -> None:
        """Stop the time; only `advance` moves it.

        >>> groupd.clock.freeze()
        >>> groupd.clock.now_ms == groupd.clock.now_ms
        True
        """
        self._call("set_clock", "frozen")

    def run(self, factor: float = 1.0) -> None:
        """Let the time run, at real speed or `factor` times as fast.

        >>> groupd.clock.run(60)
        >>> groupd.clock
        <Clock 60 times as fast, ... UTC>
        """
        self._call("set_clock", factor)

    @property
    def now_ms(self) -> int:
        """The coordinator's wall clock, in milliseconds since 1970.

        >>> groupd.clock.now_ms > 1_700_000_000_000
        True
        """
        return int(self._call("now")[1])


class Removable(SpellingHints, ABC):
    """Base of the handles that remove their faults at the end of a `with` block."""

    @abstractmethod
    def remove(self) -> None:
        """Remove the faults of the handle. A second call does nothing."""

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
    """The fault with this number in its broker. It is removed at the end of a `with` block.

    >>> groupd.fault("drop", api="OffsetCommit", group="billing")
    <Fault 1 drop api=OffsetCommit group=billing applied=True: 0 hits>
    """

    def __init__(self, call: Call, number: int) -> None:
        self._call = call
        self.number = number

    def __repr__(self) -> str:
        try:
            return f"<Fault {self.number} {_fault_text(self._call('fault', self.number))}>"
        except HarnessError:
            return f"<Fault {self.number}, removed>"

    @property
    def hits(self) -> int:
        """How many requests the fault has hit.

        >>> fault = groupd.fault("error", api="Produce", code="NOT_LEADER_OR_FOLLOWER", count=1)
        >>> groupd.producer().produce("orders", b"coffee")
        >>> fault.wait()
        1
        >>> fault.hits
        1
        """
        return int(self._call("fault", self.number)["hits"])

    @property
    def held(self) -> int:
        """How many requests the fault holds back now.

        >>> groupd.fault("hold", api="member", group="billing").held
        0
        """
        return int(self._call("fault", self.number)["held"])

    def wait(self, hits: int = 1, timeout: float = TIMEOUT_S) -> int:
        """Wait until the fault has hit `hits` requests; returns its number of hits. `timeout` is
        in seconds. Raises WaitTimeout.

        >>> fault = groupd.fault("delay", api="heartbeat", ms=10)
        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> fault.wait(2) >= 2
        True
        """
        return int(self._call("wait_fault", self.number, hits, timeout))

    def release(self) -> int:
        """End the fault and release the requests that it holds. Returns their number.

        >>> groupd.fault("hold", api="heartbeat").release()
        0
        """
        return int(self._call("release_fault", self.number))

    def remove(self) -> None:
        """`release`, then forget the fault; `hits` is gone then. A second call does nothing.

        >>> fault = groupd.fault("hold", api="heartbeat")
        >>> fault.remove()
        >>> fault
        <Fault 1, removed>
        """
        self._call("remove_fault", self.number)


class FaultOptions(TypedDict, total=False):
    """The options of a fault; docs/testing.md#faults describes them."""

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
    topic: str | None
    acknowledges: bool


class Faults(SpellingHints):
    """`groupd.faults`: requests that are answered with errors, late or never, and a log that fails.

    >>> groupd.faults
    <Faults: none>
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def __repr__(self) -> str:
        try:
            faults = self._call("faults")
        except HarnessError:
            return "<Faults of a closed broker>"
        return f"<Faults: {'; '.join(map(_fault_text, faults)) or 'none'}>"

    def add(self, action: str, **given: Unpack[FaultOptions]) -> FaultHandle:
        """Add a fault. `action`: error, delay, drop, close, twice, hold or redirect. Which requests
        it matches: `api`, `group`, `member`, `client_id`, `transactional_id`, `topic`,
        `acknowledges`; which of those it hits: `skip`, `count`, `probability` with `seed`, `after`
        (another fault); for error `code` and `message`, for delay `ms`, for redirect `node`.
        docs/testing.md#faults has them all. Raises HarnessError.

        >>> fault = groupd.faults.add("error", api="OffsetCommit", code="NOT_COORDINATOR", count=2)
        >>> groupd.faults
        <Faults: error api=OffsetCommit count=2 code=NOT_COORDINATOR: 0 hits>
        """
        if isinstance(after := given.get("after"), FaultHandle):
            given["after"] = after.number
        return FaultHandle(self._call, self._call("add_fault", action, **given))

    def clear(self) -> None:
        """Remove all faults, and release the requests that they hold.

        >>> fault = groupd.fault("drop", api="OffsetCommit")
        >>> groupd.faults.clear()
        >>> groupd.faults
        <Faults: none>
        """
        self._call("remove_faults")

    def move_coordinator(
        self,
        group: str | None = None,
        *,
        to: tuple[int, str, int] | None = None,
        count: int | None = None,
    ) -> Incident:
        """Act as if the coordinator of a group (None = of all) had moved: every API of the group is
        answered with NOT_COORDINATOR, and FindCoordinator with the node `to`, (id, host, port), or
        without it with COORDINATOR_NOT_AVAILABLE. It is back after `count` requests of each kind,
        or with `remove()`.

        >>> with groupd.faults.move_coordinator("billing", count=3) as incident:
        ...     incident.hits
        0
        """
        faults = self._call("move_coordinator", group, to=to, count=count)
        return Incident(self._call, "move_coordinator", {"faults": faults})

    def loading(self, group: str | None = None, *, count: int | None = None) -> FaultHandle:
        """Act as if the coordinator of a group (None = of all) were loading: every API of the group
        is answered with COORDINATOR_LOAD_IN_PROGRESS, `count` times, or until `remove()`.

        >>> groupd.faults.loading("billing", count=5)
        <Fault 1 error ... code=COORDINATOR_LOAD_IN_PROGRESS: 0 hits>
        """
        return FaultHandle(self._call, self._call("loading", group, count=count))

    fail_appends = blocking(Operations.fail_appends)
    hold_appends = blocking(Operations.hold_appends)
    release_appends = blocking(Operations.release_appends)


class Incident(Removable):
    """What a recipe has set up: its `faults`, and `result`, everything that the recipe returned. It
    ends with its `with` block.

    >>> groupd.recipes.slow_rebalance("billing", ms=500)
    <Incident slow_rebalance: <Fault 1 delay ... group=billing ms=500: 0 hits>>
    """

    def __init__(self, call: Call, name: str, result: RecipeResult) -> None:
        self.result = result
        self.faults = [FaultHandle(call, number) for number in result["faults"]]
        self._name = name

    def __repr__(self) -> str:
        facts = [f"{name} {value}" for name, value in self.result.items() if name != "faults"]
        return f"<Incident {self._name}: {', '.join([*facts, *map(repr, self.faults)])}>"

    @property
    def hits(self) -> int:
        """How many requests the recipe's faults have hit.

        >>> groupd.recipes.coordinator_failover("billing").hits
        0
        """
        return sum(fault.hits for fault in self.faults)

    def release(self) -> int:
        """End the faults and release the requests that they hold. Returns their number.

        >>> groupd.recipes.slow_rebalance("billing").release()
        0
        """
        return sum(fault.release() for fault in self.faults)

    def remove(self) -> None:
        """`release`, then forget the faults.

        >>> incident = groupd.recipes.slow_rebalance("billing")
        >>> incident.remove()
        >>> incident
        <Incident slow_rebalance: <Fault 1, removed>>
        """
        for fault in self.faults:
            fault.remove()


def _incident(
    recipe: Callable[Concatenate[Any, P], Coroutine[Any, Any, RecipeResult]],
) -> Callable[Concatenate[Calling, P], Incident]:
    """Makes a plain method from a recipe. The plain method returns an `Incident`."""
    run = blocking(recipe)

    @wraps(recipe)
    def call(self: Calling, /, *args: P.args, **options: P.kwargs) -> Incident:
        return Incident(self._call, recipe.__name__, run(self, *args, **options))

    return call


class RecipeCalls(SpellingHints):
    """`groupd.recipes`: things that go wrong in production, each as one call that returns an
    `Incident`. Where it can, a recipe puts the coordinator into the real situation. Raises NotFound
    for a group that never existed, and HarnessError when there is no member to hit.
    docs/testing.md#recipes says what clients do then.

    >>> groupd.recipes
    <Recipes: coordinator_failover, fatal_heartbeat_error, offset_expiry, ...>
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def __repr__(self) -> str:
        return f"<Recipes: {', '.join(one for one in dir(self) if not one.startswith('_'))}>"

    zombie_member = _incident(Operations.zombie_member)
    slow_rebalance = _incident(Operations.slow_rebalance)
    coordinator_failover = _incident(Operations.coordinator_failover)
    offset_expiry = _incident(Operations.offset_expiry)
    static_member_conflict = _incident(Operations.static_member_conflict)
    fatal_heartbeat_error = _incident(Operations.fatal_heartbeat_error)
    unknown_member_storm = _incident(Operations.unknown_member_storm)
    slow_worker = _incident(Operations.slow_worker)
    share_leader_failover = _incident(Operations.share_leader_failover)
    share_coordinator_failover = _incident(Operations.share_coordinator_failover)


def _fault_text(fault: Mapping[str, Any]) -> str:
    """A fault as text, for example "error api=OffsetCommit count=2 code=NOT_COORDINATOR: 1 hit".
    `fault`: the result of the operation `fault`."""
    shown = {k: ",".join(map(str, v)) if isinstance(v, list) else v for k, v in fault.items()}
    state = ("action", "id", "hits", "held", "over")
    options = [f" {name}={value}" for name, value in shown.items() if name not in state]
    hits = f"{fault['hits']} hit{'' if fault['hits'] == 1 else 's'}"
    held = f", {fault['held']} held" if fault["held"] else ""
    return f"{fault['action']}{''.join(options)}: {hits}{held}"
