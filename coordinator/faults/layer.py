"""Faults on command: a layer between the connections and the broker, and the table it obeys.

Rules:
- Faults are looked at in the order in which they were added; the first that takes a request has it.
- Replies of one connection keep their order, as Kafka's do. So a reply that is dropped or held
  keeps back all later ones of its connection: to the client the broker has gone silent.
- What is held or delayed dies with its connection.
- A member whose heartbeat does not get through is not kept alive by `advance`.
- Bounded: so many faults, so many requests held; the connection of one more is closed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NotRequired, TypedDict, cast

from groupd.coordinator.faults import spec as spec_of
from groupd.coordinator.faults.errors import HarnessError, NotFound
from groupd.coordinator.faults.facts import matches
from groupd.coordinator.faults.intercepted import InterceptedSlot, watch
from groupd.coordinator.faults.liveness import Liveness
from groupd.coordinator.faults.spec import FaultSpec
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.routes import failure_for
from groupd.coordinator.server.connection import Requests
from groupd.coordinator.server.slot import Slot
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import FindCoordinatorReply, FoundCoordinator
from groupd.protocol.wire.registry import Api

FAULTS_MAX = 1000
HELD_MAX = 10_000
HEARTBEATS = spec_of.ALIASES["heartbeat"]


class FaultState(TypedDict):
    """A fault. `hits`: requests that it took; `held`: those that it keeps back; `over`: it takes
    no more. The others are what it was given."""

    id: int
    action: Literal["error", "delay", "drop", "close", "twice", "hold", "redirect"]
    hits: int
    held: int
    over: bool
    api: NotRequired[list[str]]
    group: NotRequired[str]
    member: NotRequired[str]
    client_id: NotRequired[str]
    transactional_id: NotRequired[str]
    count: NotRequired[int]
    skip: NotRequired[int]
    probability: NotRequired[float]
    seed: NotRequired[int]
    after: NotRequired[int]
    applied: NotRequired[bool]
    code: NotRequired[str]
    message: NotRequired[str]
    ms: NotRequired[int]
    node: NotRequired[tuple[int, str, int]]


class Fault:
    """One fault in the table. `hits`: requests it took; `held`: those it keeps back now."""

    def __init__(self, number: int, spec: FaultSpec) -> None:
        self.number = number
        self.spec = spec
        self.hits = 0
        self.over = False
        self.held: dict[Slot, Callable[[], None]] = {}
        self._seen = 0
        self._random = random.Random(spec.seed)

    def takes(self) -> bool:
        """Whether it takes a request that it is for; counts."""
        if self.over or self.hits == self.spec.count:
            return False
        self._seen += 1
        if self._seen <= self.spec.skip:
            return False
        if self.spec.probability < 1 and self._random.random() >= self.spec.probability:
            return False
        self.hits += 1
        return True

    def shown(self) -> FaultState:
        state = {"hits": self.hits, "held": len(self.held), "over": self.over}
        return cast("FaultState", {"id": self.number, **self.spec.shown(), **state})


class FaultTable:
    """All faults of one broker; they outlive its restarts. `changed` is told of every hit."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.changed = changed
        self.faults: dict[int, Fault] = {}
        self._last = 0

    def add(self, spec: FaultSpec) -> Fault:
        """Raises HarnessError when there are too many."""
        if len(self.faults) >= FAULTS_MAX:
            raise HarnessError(f"there are {FAULTS_MAX} faults already: remove some")
        if spec.after is not None:
            self.get(spec.after)
        self._last += 1
        fault = self.faults[self._last] = Fault(self._last, spec)
        return fault

    def get(self, number: int) -> Fault:
        fault = self.faults.get(number)
        if fault is None:
            raise NotFound(f"no fault {number}")
        return fault

    def release(self, number: int) -> int:
        """Let go what it holds, and take nothing more. How many were held."""
        fault = self.get(number)
        fault.over = True
        held, fault.held = fault.held, {}
        for go_on in held.values():
            go_on()
        self.changed()
        return len(held)

    def remove(self, number: int) -> None:
        """`release`, and forget it. One that is gone already is fine."""
        if number in self.faults:
            self.release(number)
            del self.faults[number]

    def pick(self, api_key: int, client_id: str | None, request: Any) -> Fault | None:
        """The fault that has this request."""
        for fault in self.faults.values():
            after = fault.spec.after
            if after is not None and after in self.faults and not self.faults[after].hits:
                continue
            if matches(fault.spec, api_key, client_id, request) and fault.takes():
                return fault
        return None

    @property
    def held(self) -> int:
        return sum(len(fault.held) for fault in self.faults.values())

    def forget(self, slot: Slot) -> None:
        for fault in self.faults.values():
            fault.held.pop(slot, None)


class FaultLayer:
    """A `Requests` that does to requests and replies what the table says. `hit` is told of each
    request that a fault takes."""

    def __init__(
        self,
        inner: Requests,
        table: FaultTable,
        clock: Clock,
        liveness: Liveness,
        hit: Callable[[Fault, Api, Any], None] | None = None,
    ) -> None:
        self._inner = inner
        self._table = table
        self._clock = clock
        self._liveness = liveness
        self._hit = hit

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        watch(slot, _nothing, lambda: not self._table.faults)
        if not self._table.faults:
            self._inner.submit(slot, api, request)
            return
        fault = self._table.pick(api.key, slot.header.client_id, request)
        if fault is None:
            self._pass(slot, api, request)
            return
        if self._hit is not None:
            self._hit(fault, api, request)
        if fault.spec.applied:
            on_reply = partial(self._tamper, fault, slot, api, request)
            self._pass(slot, api, request, InterceptedSlot(slot, on_reply))
        else:
            self._silence(api, request)
            go_on = partial(self._pass, slot, api, request)
            self._act(fault, slot, api, request, go_on)
        self._table.changed()

    def forget(self, slot: Slot) -> None:
        self._table.forget(slot)
        self._inner.forget(slot)

    def _pass(self, slot: Slot, api: Api, request: Any, towards: Slot | None = None) -> None:
        if slot.connection.closed:
            return
        if api.key in HEARTBEATS:
            self._liveness.silenced.discard((request.group_id, request.member_id))
        towards = towards or slot
        self._inner.submit(towards, api, request)
        if towards is not slot:
            slot.stand_in = towards.stand_in or towards

    def _tamper(self, fault: Fault, slot: Slot, api: Api, request: Any, reply: Any) -> None:
        """The broker has carried the request out, and this is its reply."""
        self._act(fault, slot, api, request, partial(slot.send, reply), reply)

    def _act(
        self,
        fault: Fault,
        slot: Slot,
        api: Api,
        request: Any,
        go_on: Callable[[], None],
        reply: Any = None,
    ) -> None:
        spec = fault.spec
        match spec.action:
            case spec_of.ERROR:
                failure = failure_for(request, api.failure)
                slot.send(failure(request, spec.code, spec.message))
            case spec_of.DELAY:
                self._clock.call_at(self._clock.now().monotonic_ms + spec.ms, go_on)
            case spec_of.HOLD if fault.over:
                go_on()  # it was released while the broker was at it
            case spec_of.HOLD if self._table.held >= HELD_MAX:
                slot.connection.abort()
            case spec_of.HOLD:
                fault.held[slot] = go_on
            case spec_of.DROP:
                pass  # the slot stays open, and all that comes after it waits
            case spec_of.CLOSE:
                slot.connection.abort()
            case spec_of.TWICE:
                slot.send(reply, copies=2)
            case spec_of.REDIRECT:
                slot.send(_elsewhere(spec, request))

    def _silence(self, api: Api, request: Any) -> None:
        if api.key in HEARTBEATS:
            self._liveness.silence((request.group_id, request.member_id))


def _elsewhere(spec: FaultSpec, request: Any) -> FindCoordinatorReply:
    assert spec.node is not None
    node_id, host, port = spec.node
    return FindCoordinatorReply(
        tuple(
            FoundCoordinator(key, node_id, host, port, ErrorCode.NONE, None) for key in request.keys
        )
    )


def _nothing() -> None:
    """A request that comes again while there are no faults is none of a fault's business."""
