"""A shell for the classic handlers: state, clock, delivery of replies, and an append whose result
the test scripts. It applies an Outcome exactly as `coordinator.core.types.Outcome` says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from struct import pack
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.classic_group import (
    heartbeat,
    join,
    leave,
    sync,
    timers,
)
from groupd.coordinator.core.classic_group.appended import appended
from groupd.coordinator.core.classic_group.describe import describe
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppendError,
    Event,
    Instant,
    Outcome,
    RequestContext,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinProtocol,
    LeaveGroupRequest,
    LeavingMember,
    SyncAssignment,
    SyncGroupRequest,
)
from groupd.protocol.messages.groups import DescribedGroup
from groupd.protocol.records.schema import Record
from tests.support.access import ByRule, allow_all
from tests.support.replaying import apply

START_MS = 1_000_000
WALL_MS = 1_700_000_000_000
RANGE = (("range", b"r"),)


def subscription(*topics: str, version: int = 0, tail: bytes = b"") -> bytes:
    names = b"".join(pack(">h", len(topic)) + topic.encode() for topic in topics)
    return pack(">hi", version, len(topics)) + names + pack(">i", -1) + tail


@dataclass
class Failed:
    """Stands where `runtime` would build the API's error reply for a failed append."""

    error: ErrorCode


class Bench:
    """`hold` True keeps appends pending until `commit()` or `fail()`; otherwise an append ends at
    once, with `append_error` if that is set."""

    def __init__(self, log: Iterable[Record] = (), now_ms: int = START_MS, **config: Any) -> None:
        self._ids = count(1)
        self.state = ShardState(
            config=CoordinatorConfig(**config),
            new_id=lambda: f"00000000-0000-4000-8000-{next(self._ids):012d}",
            assignors={},
        )
        self.log: list[Record] = list(log)
        self.now_ms = now_ms
        self.hold = False
        self.append_error: ErrorCode | None = None
        self.appending: list[Outcome] = []
        self.replies: dict[int, Any] = {}
        self.issued: set[int] = set()
        self.events: list[Event] = []
        self._tokens = count(1)
        for record in self.log:
            apply(self.state, record)
        self.settle(timers.on_loaded(self.state, self.now))

    # Time and outcomes

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, WALL_MS + self.now_ms)

    def settle(self, outcome: Outcome) -> None:
        self._deliver(outcome.urgent)
        self.events += outcome.events
        if not outcome.records:
            assert outcome.completion is None
            self._deliver(outcome.replies)
            return
        if self.append_error is None or self.hold:
            for record in outcome.records:
                apply(self.state, record)
        self.appending.append(outcome)
        if not self.hold:
            self._end_append(self.append_error)

    def commit(self) -> None:
        self._end_append(None)

    def fail(self, code: ErrorCode) -> None:
        self._end_append(code)

    def _end_append(self, code: ErrorCode | None) -> None:
        outcome = self.appending.pop(0)
        if code is None:
            self.log += outcome.records
            self._deliver(outcome.replies)
        else:
            self._deliver([(token, Failed(code)) for token, _ in outcome.replies])
        if outcome.completion is not None:
            error = None if code is None else AppendError(code)
            self.settle(appended(self.state, outcome.completion, error, self.now))

    def _deliver(self, replies: Iterable[tuple[int, Any]]) -> None:
        for token, reply in replies:
            assert token in self.issued, "a reply to nobody"
            assert token not in self.replies, "answered twice"
            self.replies[token] = reply

    def advance(self, ms: int, beating: Iterable[str] = (), group: str = "g") -> None:
        """Lets time pass; `beating` members heartbeat now and every second."""
        until = self.now_ms + ms
        while self.now_ms < until:
            for member_id in beating:
                self.beat(member_id, group=group)
            self._fire_until(min(until, self.now_ms + 1000) if beating else until)

    def _fire_until(self, until: int) -> None:
        deadlines = self.state.deadlines
        while (at_ms := deadlines.next_deadline()) is not None and at_ms <= until:
            self.now_ms = max(self.now_ms, at_ms)
            for key in deadlines.pop_due(self.now_ms):
                self.settle(timers.expire(self.state, key, self.now))
        self.now_ms = until

    def reload(self, **config: Any) -> Bench:
        """Loads the same log under a new owner; request tokens and ids go on from here."""
        bench = Bench(self.log, self.now_ms, **config)
        bench._ids, bench._tokens = self._ids, self._tokens
        bench.replies, bench.issued = dict(self.replies), set(self.issued)
        return bench

    def unload(self) -> None:
        self.settle(timers.unload(self.state))

    # Requests

    def context(self, version: int, client: str = "c", allows: Any = allow_all) -> RequestContext:
        token = next(self._tokens)
        self.issued.add(token)
        return RequestContext(token, version, client, "/10.0.0.1", ByRule(allows))

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        protocols: Iterable[tuple[str, bytes]] = RANGE,
        instance: str | None = None,
        client: str = "c",
        group: str = "g",
        protocol_type: str = "consumer",
        session: int = 10_000,
        rebalance: int = 30_000,
    ) -> int:
        context = self.context(version, client)
        request = JoinGroupRequest(
            group,
            session,
            rebalance,
            member_id,
            protocol_type,
            tuple(JoinProtocol(name, data) for name, data in protocols),
            instance,
        )
        self.settle(join.handle(self.state, context, request, self.now))
        return context.token

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        instance: str | None = None,
        protocol_type: str | None = None,
        name: str | None = None,
    ) -> int:
        context = self.context(5)
        entries = tuple(SyncAssignment(*pair) for pair in (assignments or {}).items())
        request = SyncGroupRequest(
            group, generation, member_id, instance, protocol_type, name, entries
        )
        self.settle(sync.handle(self.state, context, request, self.now))
        return context.token

    def beat(
        self,
        member_id: str,
        generation: int | None = None,
        *,
        instance: str | None = None,
        group: str = "g",
    ) -> ErrorCode:
        if generation is None:
            found = self.state.groups.get(group)
            generation = found.generation if isinstance(found, ClassicGroup) else 0
        context = self.context(4)
        request = HeartbeatRequest(group, generation, member_id, instance)
        self.settle(heartbeat.handle(self.state, context, request, self.now))
        return self.replies[context.token].error

    def leave(
        self, *entries: str | tuple[str, str | None], version: int = 5, group: str = "g"
    ) -> int:
        context = self.context(version)
        members = tuple(
            LeavingMember(entry) if isinstance(entry, str) else LeavingMember(*entry)
            for entry in entries
        )
        self.settle(leave.handle(self.state, context, LeaveGroupRequest(group, members), self.now))
        return context.token

    def describe(
        self, group: str = "g", version: int = 6, operations: bool = False
    ) -> DescribedGroup:
        return describe(self.state, self.context(version), group, operations)

    # Looking

    @property
    def group(self) -> ClassicGroup:
        group = self.state.groups["g"]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def state_name(self) -> str:
        return self.group.state_name()

    def parked(self, *tokens: int) -> bool:
        """Whether none of the requests has been answered."""
        return not any(token in self.replies for token in tokens)

    def session_due_in(self, member_id: str, group: str = "g") -> int | None:
        due = self.state.deadlines.due(("classic-session", group, member_id))
        return None if due is None else due - self.now_ms

    # Roads to a state

    def end_initial_rebalance(self) -> None:
        """Lets time pass until the first rebalance is over: members that arrive after the first one
        make it wait for further rounds."""
        while self.state_name == "PreparingRebalance":
            self.advance(3000)

    def pending_id(self, client: str = "c", **options: Any) -> str:
        reply = self.replies[self.join(client=client, **options)]
        assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
        return reply.member_id

    def enter(self, client: str = "c", **options: Any) -> tuple[str, int]:
        """Both Joins of a new dynamic member: (member id, token of the second)."""
        member_id = self.pending_id(client, **options)
        return member_id, self.join(member_id, client=client, **options)

    def completing(self, size: int, **options: Any) -> list[str]:
        """A new group in CompletingRebalance(1); the first id is the leader's."""
        ids = [self.enter(chr(ord("a") + i), **options)[0] for i in range(size)]
        self.end_initial_rebalance()
        assert (self.state_name, self.group.generation) == ("CompletingRebalance", 1)
        assert self.group.leader_id == ids[0]
        return ids

    def stable(self, size: int, **options: Any) -> list[str]:
        """A new group in Stable(1); each member's assignment is its own id."""
        ids = self.completing(size, **options)
        self.sync_all(ids)
        return ids

    def sync_all(self, ids: list[str]) -> None:
        generation = self.group.generation
        leader = self.group.leader_id
        assert leader is not None
        for member_id in ids:
            if member_id != leader:
                self.sync(member_id, generation)
        self.sync(leader, generation, {member_id: member_id.encode() for member_id in ids})
        assert self.state_name == "Stable"

    def static_stable(self, size: int, **options: Any) -> list[str]:
        """Like `stable`, with static members i1, i2, ..."""
        tokens = [self.join(instance=f"i{n}", **options) for n in range(1, size + 1)]
        self.end_initial_rebalance()
        ids = [self.replies[token].member_id for token in tokens]
        self.sync_all(ids)
        return ids
