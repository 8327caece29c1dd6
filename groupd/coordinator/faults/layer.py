"""Faults on command: a layer between the connections and the broker, and the table that says what
the layer does.

Rules:
- Faults are checked in the order in which they were added. The first fault that hits a request is
  the only one that hits it.
- Replies of one connection keep their order, as Kafka's do. So a reply that is dropped or held
  keeps back all later replies of its connection: to the client the broker has gone silent.
- A request or reply that is held or delayed is lost when its connection closes.
- A member whose heartbeat does not get through is not kept alive by `advance`.
- The numbers of faults and of held requests are bounded. If a fault would hold one request too
  many, the connection of that request is closed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Literal, NotRequired, TypedDict, cast

from groupd.coordinator.faults import spec as spec_of
from groupd.coordinator.faults.errors import HarnessError, NotFound
from groupd.coordinator.faults.spec import FaultSpec
from groupd.coordinator.faults.topics import TopicsOf
from groupd.coordinator.faults.traffic import InterceptedSlot, Liveness, watch
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.routes import failure_for
from groupd.coordinator.server.slot import Requests, Slot
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import (
    FindCoordinatorReply,
    FindCoordinatorRequest,
    FoundCoordinator,
)
from groupd.protocol.messages.share_fetch import ShareAcknowledgeRequest, ShareFetchRequest
from groupd.protocol.wire.registry import Api

KEY_TYPE_GROUP = 0
KEY_TYPE_TRANSACTION = 1
FAULTS_MAX = 1000
HELD_MAX = 10_000
HEARTBEATS = spec_of.ALIASES["heartbeat"]


class FaultState(TypedDict):
    """The state of a fault. `hits`: how many requests it has hit; `held`: how many of them it keeps
    back; `over`: whether it has ended. The other entries are the options of the fault."""

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
    topic: NotRequired[str]
    acknowledges: NotRequired[bool]
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
    """One fault in the table. `hits`: how many requests it has hit; `held`: the requests that it
    keeps back now. `over`: whether it has ended."""

    def __init__(self, number: int, spec: FaultSpec) -> None:
        self.number = number
        self.spec = spec
        self.hits = 0
        self.over = False
        self.held: dict[Slot, Callable[[], None]] = {}
        self._seen = 0
        self._random = random.Random(spec.seed)

    def takes(self) -> bool:
        """Whether the fault hits this request, which matches it. Counts the request."""
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
    """All faults of one broker. They outlive its restarts. `changed()` is called after every
    hit."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.changed = changed
        self.faults: dict[int, Fault] = {}
        self._last = 0

    def add(self, spec: FaultSpec) -> Fault:
        """Adds a fault. Raises HarnessError if there are too many, and NotFound if there is no
        fault with the number `after`."""
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
        """Ends the fault and lets the requests go on that it holds. Returns how many those were.
        Raises NotFound."""
        fault = self.get(number)
        fault.over = True
        held, fault.held = fault.held, {}
        for go_on in held.values():
            go_on()
        self.changed()
        return len(held)

    def remove(self, number: int) -> None:
        """Releases the fault, then forgets it. Does nothing if there is no such fault."""
        if number in self.faults:
            self.release(number)
            del self.faults[number]

    def pick(
        self, api_key: int, client_id: str | None, request: Any, topics_of: TopicsOf
    ) -> Fault | None:
        """The fault that hits this request, or None. Counts the request for the faults that match
        it."""
        for fault in self.faults.values():
            after = fault.spec.after
            if after is not None and after in self.faults and not self.faults[after].hits:
                continue
            if matches(fault.spec, api_key, client_id, request, topics_of) and fault.takes():
                return fault
        return None

    @property
    def held(self) -> int:
        return sum(len(fault.held) for fault in self.faults.values())

    def forget(self, slot: Slot) -> None:
        for fault in self.faults.values():
            fault.held.pop(slot, None)


class FaultLayer:
    """A `Requests` that applies the faults of the table to requests and replies. `hit(fault, api,
    request)` is called for each request that a fault hits."""

    def __init__(
        self,
        inner: Requests,
        table: FaultTable,
        clock: Clock,
        liveness: Liveness,
        topics_of: TopicsOf,
        hit: Callable[[Fault, Api, Any], None] | None = None,
    ) -> None:
        self._inner = inner
        self._table = table
        self._clock = clock
        self._liveness = liveness
        self._topics_of = topics_of
        self._hit = hit

    def submit(self, slot: Slot, api: Api, request: Any) -> None:
        watch(slot, _nothing, lambda: not self._table.faults)
        if not self._table.faults:
            self._inner.submit(slot, api, request)
            return
        fault = self._table.pick(api.key, slot.header.client_id, request, self._topics_of)
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
        """Applies the fault to the reply. The broker has carried the request out."""
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
                failed = failure_for(request, api.failure)(request, spec.code, spec.message)
                if failed is None:
                    slot.hang_up()
                else:
                    slot.send(failed)
            case spec_of.DELAY:
                self._clock.call_at(self._clock.now().monotonic_ms + spec.ms, go_on)
            case spec_of.HOLD if fault.over:
                go_on()  # the fault was released while the broker worked on the request
            case spec_of.HOLD if self._table.held >= HELD_MAX:
                slot.connection.abort()
            case spec_of.HOLD:
                fault.held[slot] = go_on
            case spec_of.DROP:
                pass  # the slot stays open, and later replies of the connection wait for it
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
    """Called for a repeated heartbeat. Does nothing, because heartbeats are repeated only while
    there are no faults."""


def matches(
    spec: FaultSpec, api_key: int, client_id: str | None, request: Any, topics_of: TopicsOf
) -> bool:
    """Whether the fault is for this request. A request about several groups or members matches if
    one of them does. The fault then applies to the whole request."""
    if spec.api_keys is not None and api_key not in spec.api_keys:
        return False
    if spec.acknowledges is not None and acknowledges(request) is not spec.acknowledges:
        return False
    for name, pattern in spec.patterns:
        match name:
            case "client_id":
                values: Iterable[str] = (client_id or "",)
            case "topic":
                values = topics_of(request)
            case _:
                values = _FACTS[name](request)
        if not any(pattern.fullmatch(value) for value in values):
            return False
    return True


def groups_of(request: Any) -> Iterator[str]:
    """The group ids that the request names."""
    if isinstance(request, FindCoordinatorRequest):
        if request.key_type == KEY_TYPE_GROUP:
            yield from request.keys
        return
    if isinstance(own := getattr(request, "group_id", None), str):
        yield own
    yield from getattr(request, "group_ids", ())
    for group in getattr(request, "groups", ()):
        yield group if isinstance(group, str) else group.group_id


def members_of(request: Any) -> Iterator[str]:
    """The member ids and group instance ids that the request names."""
    for holder in (request, *getattr(request, "members", ()), *_fetched(request)):
        for name in ("member_id", "group_instance_id", "instance_id"):
            value = getattr(holder, name, None)
            if isinstance(value, str) and value:
                yield value


def acknowledges(request: Any) -> bool:
    """Whether the request acknowledges records of a share group."""
    return isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest) and any(
        one.batches for topic in request.topics for one in topic.partitions
    )


def _fetched(request: Any) -> Iterator[Any]:
    return (group for group in getattr(request, "groups", ()) if not isinstance(group, str))


def _transactions(request: Any) -> Iterator[str]:
    if isinstance(request, FindCoordinatorRequest):
        if request.key_type == KEY_TYPE_TRANSACTION:
            yield from request.keys
        return
    if isinstance(own := getattr(request, "transactional_id", None), str):
        yield own


_FACTS = {"group": groups_of, "member": members_of, "transactional_id": _transactions}
