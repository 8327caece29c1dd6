"""One shard of a coordinator's log at work: load, serve, group commit, fail and reload.

A pure machine (`machine.Machine`) decides and returns an `Outcome`; the records of its outcomes are
the log. This class is the same for every machine, as Kafka's `CoordinatorRuntime` is for its
coordinators.

States: LOADING -> ACTIVE; ACTIVE or LOADING -> FAILED -> LOADING; any -> CLOSED. All failed appends
are handled alike: every parked request is refused with a retriable error, the state in memory is
dropped, and the shard is rebuilt from the log. If it is not known whether an append was written,
the reload finds out.

A reply may bring new requests at once. So the state changes before any request is answered, and an
error in one answer does not keep the other requests from theirs.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any, Generic

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import (
    AppendError,
    Completion,
    Outcome,
    OutsideCall,
    ReplyValidity,
    RequestContext,
    Task,
)
from groupd.coordinator.runtime.clock import Alarm, elapsed_ns
from groupd.coordinator.runtime.journal import (
    BATCH_OVERHEAD_BYTES,
    WHOLE_SHARD,
    EncodedWrite,
    Journal,
    RecordsTooLarge,
)
from groupd.coordinator.runtime.machine import LoadedMachine, M
from groupd.coordinator.runtime.outside_calls import refuse_askers
from groupd.coordinator.runtime.reload import Reload
from groupd.coordinator.runtime.shard_state import REFUSALS, CoordinatorState, RuntimeParts
from groupd.coordinator.runtime.shard_timers import CommitTimeout, DeadlineTimer
from groupd.coordinator.runtime.waiting import Waiter, answer_all, refuse
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import Append, LogError

log = structlog.get_logger("groupd.shard")

_LOST = (CoordinatorState.FAILED, CoordinatorState.LOADING)  # the journal is empty in these states

LINGER_MS = 50
"""If no reply waits for the records of a request, they are written after this time, or earlier
together with other records. So the first heartbeat of a lone consumer and its target are one group
commit."""


class LogShard(ABC, Generic[M]):
    """Loads, serves and writes one log, also as a `writer.Source`. A subclass says how the machine
    is made from its log (`read_log`)."""

    kind = "shard"  # used in messages

    def __init__(
        self,
        number: int,
        log_name: str,
        machine: M,
        config: CoordinatorConfig,
        parts: RuntimeParts,
        write_timeout_ms: int | None = None,
    ) -> None:
        """`write_timeout_ms`: how long a request waits for its records; None: as long as a commit
        of offsets."""
        self.partition = number
        self.log_name = log_name
        self.state = CoordinatorState.LOADING
        self.machine = machine
        self.start_offset = self.durable_offset = self.load_ms = self.loaded_records = 0
        self.clock = clock = parts.clock
        self.may_answer = parts.may_answer
        self._config = config
        self._parts = parts
        self._writer = parts.writer
        self._write_waiters: list[asyncio.Future[None]] = []
        self._write_bytes_max = config.message_max_bytes - BATCH_OVERHEAD_BYTES
        self._journal = Journal(0, config.message_max_bytes)
        self._taken_from = self._journal
        self.owner_epoch = -1
        self._deadlines = DeadlineTimer(
            clock,
            lambda: self.machine if self.state is CoordinatorState.ACTIVE else None,
            lambda key, now: self.input(partial(self.machine.expire, key, now)),
        )
        timeout_ms = write_timeout_ms or config.offsets_commit_timeout_ms
        self._commit_timeout = CommitTimeout(clock, timeout_ms, number, lambda: self._journal)
        self._unhurried = Alarm(clock, self._write_open)
        self._reload = Reload(clock, self)

    # Loading ------------------------------------------------------------------------------

    @abstractmethod
    async def read_log(self, opened: Any) -> LoadedMachine[M]:
        """Returns a machine made from the log. `opened`: the log, if it is open already. Raises
        LoadFailed or LogError."""

    async def load(self, opened: Any = None) -> None:
        """Read the log, rebuild the machine, start its timers. Raises LoadFailed or LogError."""
        started_ms = self.clock.monotonic_ms()
        loaded = await self.read_log(opened)
        if self.state is not CoordinatorState.CLOSED:
            self.load_ms = self.clock.monotonic_ms() - started_ms
            self.serve(loaded)

    def serve(self, loaded: LoadedMachine[M]) -> None:
        """Serve a machine whose log is open."""
        if loaded.machine is not self.machine:
            self.machine.discard()
        self.machine = loaded.machine
        self.loaded_records, self.owner_epoch = loaded.records, loaded.owner_epoch
        self.start_offset, self.durable_offset = loaded.start_offset, loaded.next_offset
        self._journal = Journal(loaded.next_offset, self._config.message_max_bytes)
        self.state = CoordinatorState.ACTIVE
        self._apply(loaded.outcome)
        self.on_active()
        self._tell_written()
        self._parts.on_progress(self.partition)

    def on_active(self) -> None:
        """Called when the shard has been loaded."""

    async def load_first(self, opened: Any = None) -> None:
        """Load at the start. If that fails it is tried again later. `opened`: see `read_log`."""
        await self._reload.load_first(partial(self.load, opened))

    def close(self) -> None:
        """Refuse all requests from now on; parked requests get NOT_COORDINATOR. Records in the
        journal may still become durable, and their requests are answered then."""
        was_active = self.state is CoordinatorState.ACTIVE
        self.state = CoordinatorState.CLOSED
        self._parts.calls.give_up(self.machine)
        self._deadlines.cancel()
        self._commit_timeout.cancel()
        self._unhurried.cancel()
        self._reload.cancel()
        self._write_open()
        if was_active:
            self._last_answers(self.machine.unload)
        self._parts.on_progress(self.partition)

    async def closed(self) -> None:
        """Wait after `close` until no load of this shard runs any more."""
        await self._reload.ended()

    async def written(self) -> None:
        """Wait after `close` until what was accepted is durable and answered, or has failed."""
        while not self._journal.idle:
            await asyncio.shield(self.next_write())

    def next_write(self) -> asyncio.Future[None]:
        """Returns a future that is done when records have become durable or are lost."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._write_waiters.append(waiter)
        return waiter

    def runs(self, machine: M) -> bool:
        """Whether `machine` is still in use. Work that began with another one must end."""
        return self.machine is machine and self.state is CoordinatorState.ACTIVE

    async def flushed(self) -> bool:
        """Wait until what was accepted is durable. Returns False if the shard does not serve the
        same machine any more: then it may be lost."""
        machine, end_offset = self.machine, self._journal.next_offset
        self._write_open()
        while self.runs(machine) and self.durable_offset < end_offset:
            await self.next_write()
        return self.runs(machine)

    def drop(self) -> None:
        """Refuse all requests at once, also those whose records are not durable yet: another node
        may have the shard."""
        self.close()
        self._lose_writes(ErrorCode.NOT_COORDINATOR)

    # Inputs -------------------------------------------------------------------------------

    def handle(self, context: RequestContext, request: Any) -> None:
        """Handle a request to this shard. `context.token` is answered, now or later."""
        waiter: Waiter = context.token
        if self.state is not CoordinatorState.ACTIVE or (self.may_answer and not self.may_answer()):
            # The lease may have run out: the process stood still in the middle of a long request.
            waiter.fail(REFUSALS.get(self.state, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        started_ns = elapsed_ns()
        try:
            outcome = self.machine.handle(context, request, self.clock.now())
        except ApiError as error:
            # A refusal may rest on records that are not durable yet, too: a group that is being
            # deleted.
            reply = waiter.failure(request, error.code, error.message)
            gate = getattr(request, "group_id", None)
            self._answer_gated(Outcome(replies=[(waiter, reply)], gate=gate))
        except Exception:
            # A bug of ours: nothing was written. A developer needs to see the input.
            log.exception("request failed", shard=self.partition, request=request)
            waiter.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            if outcome.reply_validity and not outcome.records:
                self.store_reply(outcome.reply_validity, waiter)
            self._apply(outcome, waiter)
        self._parts.processing.add(elapsed_ns() - started_ns)

    def store_reply(self, validity: ReplyValidity, waiter: Waiter) -> None:
        """Tell `waiter` how long its reply may be sent again (ADR 10)."""

    def input(self, make_outcome: Callable[[], Outcome]) -> bool:
        """Handle an input that is no request: new metadata, a task's result, a deadline. Returns
        False if that failed, which is a bug of ours: it is logged and not raised."""
        if self.state is not CoordinatorState.ACTIVE or (self.may_answer and not self.may_answer()):
            return True
        return self._take(make_outcome)

    def _take(self, make_outcome: Callable[[], Outcome]) -> bool:
        try:
            self._apply(make_outcome())
        except Exception:
            log.exception("internal input failed", shard=self.partition)
            self._deadlines.arm()
            return False
        return True

    # Outcomes -----------------------------------------------------------------------------

    def _apply(self, outcome: Outcome, waiter: Waiter | None = None) -> None:
        """Carry an outcome out. `waiter`: of the request that has led to it, if one has."""
        written = True
        if outcome.commits is not None or outcome.records:
            written = self._write(outcome, waiter)
        else:
            if outcome.replies or outcome.calls:
                self._answer_gated(outcome)
            if outcome.completion is not None:
                self._complete(outcome.completion, None)
        if self.state is not CoordinatorState.ACTIVE:
            refuse(outcome.urgent, ErrorCode.NOT_COORDINATOR)
            return
        if outcome.urgent:
            answer_all(outcome.urgent)
        if written:  # otherwise the outcome has no effect
            if outcome.events:
                self._parts.on_events(self.partition, outcome.events)
            for task in outcome.tasks:
                self._parts.work.add_later(
                    task.steps(), partial(self._task_done, self.machine, task)
                )
        self._deadlines.arm()

    def _write(self, outcome: Outcome, waiter: Waiter | None) -> bool:
        """Replay the records and put them into the journal. Returns False if they were refused."""
        now_ms = self.clock.monotonic_ms()
        records = outcome.records if outcome.commits is None else outcome.commits
        try:
            encoded = self.encode(records)
            if encoded.size_bytes > self._write_bytes_max:
                raise RecordsTooLarge
        except Exception:
            # Larger than `max.message.bytes`, or a bug of ours.
            log.exception("write refused", shard=self.partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._refuse(outcome, waiter, code)
            if outcome.completion is not None:
                # Nothing is written. A classic group handles it like any failed append.
                self._complete(outcome.completion, AppendError(code))
            return False
        offset, transaction = self._journal.next_offset, outcome.transaction
        try:
            self.machine.replay_all(records, count(offset), transaction)
            if transaction is not None:
                self.in_transaction(transaction, offset, encoded.count)
            self._journal.accept(encoded, outcome.replies, outcome.completion, now_ms, transaction)
        except Exception:
            # The state in memory is not what the log says.
            log.exception("replay failed; shard is rebuilt", shard=self.partition)
            self._fail(ErrorCode.NOT_COORDINATOR)
            self._refuse(outcome, waiter, ErrorCode.NOT_COORDINATOR)
            return False
        if outcome.calls:
            self._journal.park(WHOLE_SHARD, (), outcome.calls)
        answers = outcome.replies or outcome.calls or outcome.completion is not None
        if answers or waiter is None:
            self._writer.mark(self)
            self._commit_timeout.arm()
        else:
            self._unhurried.at_latest(now_ms + LINGER_MS)
        return True

    @abstractmethod
    def encode(self, records: Any) -> EncodedWrite:
        """Returns the records as bytes. Raises an exception before anything has changed."""

    def in_transaction(self, producer: tuple[int, int], offset: int, records: int) -> None:
        """Called when `producer`, (id, epoch), has written `records` records in a transaction, from
        `offset` on."""

    def _write_open(self) -> None:
        """Write what is in the journal, even if no request waits for it."""
        if not self._journal.idle:
            self._writer.mark(self)

    def _refuse(self, outcome: Outcome, waiter: Waiter | None, code: ErrorCode) -> None:
        refuse(outcome.replies, code)
        for call in outcome.calls:
            self._answered(self.machine, call, ApiError(code))
        if waiter is not None:
            waiter.fail(code)

    def _complete(self, completion: Completion, error: AppendError | None) -> None:
        self.input(partial(self.machine.appended, completion, error, self.clock.now()))

    def _answer_gated(self, outcome: Outcome) -> None:
        """Send the replies and calls of `outcome` once the pending records of its gate are durable,
        or at once if there are none."""
        gate, replies, calls = outcome.gate, outcome.replies, outcome.calls
        if gate is None or not self._journal.park(gate, replies, calls):
            answer_all(replies)
            if calls:
                self._ask(calls)
        else:
            self._writer.mark(self)
            self._commit_timeout.arm()

    def _ask(self, calls: Sequence[OutsideCall]) -> None:
        if self.state is not CoordinatorState.ACTIVE:
            refuse_askers(calls, ErrorCode.NOT_COORDINATOR)
            return
        for call in calls:
            answered = partial(self._answered, self.machine, call)
            self._parts.calls.ask(call, answered, self.machine)

    def _answered(self, machine: M, call: OutsideCall, answer: Any) -> None:
        """As long as a machine is in use it gets an answer to each of its calls."""
        if not self.runs(machine):
            refuse_askers([call], ErrorCode.NOT_COORDINATOR)
            return
        if self.may_answer and not self.may_answer():
            # Records are refused by the log if another node has it by now.
            refuse_askers([call], ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if not self._take(lambda: machine.answered(call, answer, self.clock.now())):
            refuse_askers([call], ErrorCode.UNKNOWN_SERVER_ERROR)

    def _task_done(self, machine: M, task: Task, result: Any) -> None:
        if machine is self.machine:
            self.input(lambda: machine.task_done(task, result, self.clock.now()))

    # The writer's side --------------------------------------------------------------------

    def take(self) -> list[Append]:
        if self.state is CoordinatorState.FAILED:
            return []
        self._taken_from = self._journal
        wall_ms = self.clock.now().wall_ms
        return self._journal.take(self.log_name, self.owner_epoch, wall_ms)

    def done(self, error: LogError | None) -> None:
        if self._taken_from is not self._journal or self.state in _LOST:
            return  # the failure settled it, or the reload that replaced the journal
        if error is not None:
            log.error("append failed", shard=self.partition, reason=str(error))
            if self.state is CoordinatorState.ACTIVE:
                self._fail(ErrorCode.NOT_COORDINATOR)
            else:
                self._lose_writes(ErrorCode.NOT_COORDINATOR)
            return
        settled = self._journal.durable()
        self.durable_offset = self._journal.durable_offset
        self.on_durable()
        for batch in settled:
            for waiter, reply in batch.replies:
                waiter.answer(reply)
            if batch.calls:
                self._ask(batch.calls)
            for completion in batch.completions:
                self._complete(completion, None)
        self._parts.on_progress(self.partition)
        if not self._journal.idle:
            self._commit_timeout.arm()
        if self._write_waiters:
            self._tell_written()

    def on_durable(self) -> None:
        """Called when `durable_offset` has moved, before any request is answered."""

    def _tell_written(self) -> None:
        waiters, self._write_waiters = self._write_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # Failure ------------------------------------------------------------------------------

    def _fail(self, code: ErrorCode) -> None:
        if self.state is not CoordinatorState.ACTIVE:
            return
        self.state = CoordinatorState.FAILED
        self._parts.calls.give_up(self.machine)
        self._deadlines.cancel()
        self._commit_timeout.cancel()
        self._unhurried.cancel()
        self._reload.start(0)
        self._lose_writes(code)
        self._last_answers(self.machine.unload)
        self._parts.on_progress(self.partition)

    def _lose_writes(self, code: ErrorCode) -> None:
        """Refuse the requests that wait for records which are not durable: these are lost."""
        now, error = self.clock.now(), AppendError(code)
        for batch in self._journal.failed():
            for completion in batch.completions:
                self._last_answers(partial(self.machine.appended, completion, error, now))
            refuse(batch.replies, code)
            refuse_askers(batch.calls, code)
        self._tell_written()

    def _last_answers(self, make_outcome: Callable[[], Outcome]) -> None:
        """Send the last answers to the requests that are parked in the machine."""
        try:
            answer_all(make_outcome().urgent)
        except Exception:
            log.exception("giving up the shard failed", shard=self.partition)
