"""A runtime for one core shard: an append whose end the scenario scripts, and virtual time.

It does with an `Outcome` what `coordinator.core.types.Outcome` asks for and what `GroupLogShard`
does over a real log, without tasks and sockets. What every input wrote stays in `written`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import (
    AppendError,
    AppliedAt,
    Completion,
    Event,
    Instant,
    Outcome,
    OutsideCall,
    RequestContext,
    Task,
)
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.waiting import Waiter, answer_all, refuse
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.schema import Record

START_MS = 1_000_000
WALL_MS = 1_700_000_000_000
REFUSALS = {
    CoordinatorState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    CoordinatorState.CLOSED: ErrorCode.NOT_COORDINATOR,
}


@dataclass(frozen=True, slots=True)
class _Marker:
    producer_id: int
    committed: bool


class _OpenTransactions:
    """Every producer's transaction is open: there is no coordinator to ask."""

    def in_transaction(self, producer_id: int, epoch: int) -> bool:
        return True


@dataclass(slots=True)
class _Append:
    """One outcome's records on their way."""

    records: list[Record]
    replies: list[tuple[Waiter, Any]] = field(default_factory=list)
    completion: Completion | None = None
    calls: list[OutsideCall] = field(default_factory=list)


class CoreShard:
    """Stands where `Broker` expects a `GroupLogShard`."""

    partition = 0

    def __init__(
        self,
        make_shard: Callable[[], GroupCoordinatorShard],
        ask: Callable[[OutsideCall], None] = lambda call: None,
    ) -> None:
        """`ask`: takes the calls; `answered` gets the answers."""
        self._make_shard = make_shard
        self._ask = ask
        self.shard = make_shard()
        self.state = CoordinatorState.ACTIVE
        self.now_ms = START_MS
        self.producers = _OpenTransactions()
        self.log: list[Record | _Marker] = []
        self._writers: dict[int, int] = {}
        """Producer ids by the `id` of their transactional records."""
        self.written: list[Record] = []
        self.events: list[Event] = []
        self.hold_appends = False
        self.next_append_fails: ErrorCode | None = None
        self.hold_tasks = False
        self.tasks: list[Task] = []
        self._pending: list[_Append] = []
        self._settle(self.shard.on_loaded(self.now))

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, WALL_MS + self.now_ms)

    def topics_of(self, group_id: str) -> Mapping[str, Sized]:
        """The topics for which a group has committed offsets, each with the number of its
        offsets."""
        return self.shard.offsets.store.topics(group_id)

    # Inputs -------------------------------------------------------------------------------

    def handle(self, context: RequestContext, request: Any) -> None:
        refusal = REFUSALS.get(self.state)
        if refusal is not None:
            context.token.fail(refusal)
            return
        try:
            outcome = self.shard.handle(context, request, self.now)
        except ApiError as error:
            context.token.fail(error.code, error.message)
        except Exception:  # noqa: BLE001 - the runtime's answer to a bug or a failing assignor
            context.token.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._commit_together(outcome)

    def on_metadata(self, delta: MetadataDelta, _: Instant) -> None:
        self._commit_together(self.shard.on_metadata(delta, self.now))

    def answered(self, call: OutsideCall, answer: Any) -> None:
        """The answer to a call has come."""
        self._settle(self.shard.answered(call, answer, self.now))

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        self.shard.set_group_configs(group_id, configs)

    def advance(self, ms: int) -> None:
        """Time passes; what falls due is handled at its moment, in order."""
        until = self.now_ms + ms
        while (at_ms := self.shard.next_deadline()) is not None and at_ms <= until:
            self.now_ms = max(self.now_ms, at_ms)
            self._expire_due()
        self.now_ms = until

    def _expire_due(self) -> None:
        for key in self.shard.pop_due(self.now_ms):
            self._settle(self.shard.expire(key, self.now))

    def inject(self, record: Record) -> None:
        """Puts a record into the log as if an older or another coordinator had written it."""
        self._replay([record])

    def reload(self) -> None:
        """Loads the log again, under a new owner."""
        if self.state is CoordinatorState.ACTIVE:
            self.unload()
        self._pending.clear()
        self.shard = self._make_shard()
        log, self.log = self.log, []
        self._replay(log)
        self.state = CoordinatorState.ACTIVE
        self._settle(self.shard.on_loaded(self.now))

    def write_marker(self, producer_id: int, committed: bool) -> ErrorCode:
        """Writes a marker; the code that `WriteTxnMarkers` answers."""
        if self.state is not CoordinatorState.ACTIVE:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._replay([_Marker(producer_id, committed)])
        return ErrorCode.NONE

    def unload(self) -> None:
        answer_all(self.shard.unload().urgent)
        self.state = CoordinatorState.CLOSED

    def timers(self) -> list[tuple[DeadlineKey, int]]:
        """Deadlines and how far off they are, in ms."""
        found = self.shard.state.deadlines.items()
        return sorted((key, at_ms - self.now_ms) for key, at_ms in found)

    # Outcomes -----------------------------------------------------------------------------

    def _commit_together(self, outcome: Outcome) -> None:
        """A request, and what is due at once because of it: one append, as group commit has it."""
        held, self.hold_appends = self.hold_appends, True
        before = len(self._pending)
        self._settle(outcome)
        self._expire_due()
        self.hold_appends = held
        if len(self._pending) == before:
            return
        first, *others = self._pending[before:]
        for other in others:
            assert other.completion is None
            first.records = first.records + other.records
            first.replies += other.replies
            first.calls += other.calls
        del self._pending[before + 1 :]
        if not held:
            self.end_append(self.next_append_fails)

    def _settle(self, outcome: Outcome) -> None:
        self.events += outcome.events
        records = list(outcome.logged)
        if records:
            if outcome.transaction is not None:
                self._writers |= dict.fromkeys(map(id, records), outcome.transaction[0])
            self._replay(records)
            self.written += records
            replies, calls = list(outcome.replies), list(outcome.calls)
            self._pending.append(_Append(records, replies, outcome.completion, calls))
        elif (behind := self._behind(outcome.gate)) is not None:
            behind.replies += outcome.replies
            behind.calls += outcome.calls
        else:
            answer_all(outcome.replies)
            self._make(outcome.calls)
        if not records and outcome.completion is not None:
            self._settle(self.shard.appended(outcome.completion, None, self.now))
        answer_all(outcome.urgent)
        if records and not self.hold_appends:
            self.end_append(self.next_append_fails)
        self.tasks += outcome.tasks
        if not self.hold_tasks:
            self.run_tasks()

    def _behind(self, gate: str | None) -> _Append | None:
        """The last pending append that a reply without records must wait for."""
        for append in reversed(self._pending):
            if gate == "*" or any(record.key.group == gate for record in append.records):
                return append
        return None

    def end_append(self, code: ErrorCode | None) -> None:
        """The oldest pending append is durable, or has failed with `code`."""
        self.next_append_fails = None
        append = self._pending.pop(0)
        if code is None:
            answer_all(append.replies)
            self._make(append.calls)
        else:
            self._revert(append)
            refuse(append.replies, code)
        if append.completion is not None:
            error = None if code is None else AppendError(code)
            self._settle(self.shard.appended(append.completion, error, self.now))

    def _make(self, calls: Sequence[OutsideCall]) -> None:
        for call in calls:
            self._ask(call)

    def _revert(self, append: _Append) -> None:
        """A failed write leaves the log; what it changed in memory is rebuilt from there. Classic
        groups undo their own changes (`Completion`) and are left alone."""
        if append.completion is not None:
            lost = {id(record) for record in append.records}
            self.log = [record for record in self.log if id(record) not in lost]
            return
        self.log = self.log[: -len(append.records)]
        self.shard = self._make_shard()
        log, self.log = self.log, []
        self._replay(log)
        self._settle(self.shard.on_loaded(self.now))

    def run_tasks(self) -> None:
        while self.tasks:
            task = self.tasks.pop(0)
            try:
                result = run_through(task.steps())
            except Exception as error:  # noqa: BLE001 - the shard decides what it means
                result = error
            self._settle(self.shard.task_done(task, result, self.now))

    def _replay(self, records: Sequence[Record | _Marker]) -> None:
        for record in records:
            if isinstance(record, _Marker):
                self.shard.replay_marker(record.producer_id, record.committed)
            else:
                producer_id = self._writers.get(id(record), -1)
                self.shard.replay(record, AppliedAt(len(self.log), producer_id))
            self.log.append(record)
