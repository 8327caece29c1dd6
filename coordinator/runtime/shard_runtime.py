"""One shard at work: load, serve, group commit, fail and reload.

States: LOADING -> ACTIVE; ACTIVE or LOADING -> FAILED -> LOADING; any -> CLOSED. A failed append
has one path: every parked request is refused with a retriable error, memory is dropped and the
shard is rebuilt from the log. An ambiguous append is thereby settled by reading the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Any

import structlog

from coordinator.config import CoordinatorConfig
from coordinator.core.metadata_image import MetadataDelta
from coordinator.core.shard import GroupCoordinatorShard
from coordinator.core.types import (
    AppendError,
    AppliedAt,
    Completion,
    Event,
    Instant,
    Outcome,
    RequestContext,
    Steady,
    Task,
)
from coordinator.runtime.clock import Clock, TimerHandle
from coordinator.runtime.journal import Journal, JournalBatch, RecordsTooLarge
from coordinator.runtime.loader import LoadFailed, load_shard
from coordinator.runtime.steady import ShardLease
from coordinator.runtime.waiting import WaitingRequests
from coordinator.runtime.writer import LogWriter
from protocol.errors import ApiError, ErrorCode
from protocol.records.schema import Record
from storage.log import Append, LogError, LogState, PartitionLogs

log = structlog.get_logger("groupd.shard")

RELOAD_BACKOFF_MS = 500


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


_REFUSALS = {
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.CLOSED: ErrorCode.NOT_COORDINATOR,
}


class ShardRuntime:
    """A `GroupCoordinatorShard` with its log, journal and timer. Also a `writer.Source`."""

    def __init__(
        self,
        partition: int,
        config: CoordinatorConfig,
        make_shard: Callable[[], GroupCoordinatorShard],
        bring_up_to_date: Callable[[GroupCoordinatorShard], None],
        logs: PartitionLogs,
        writer: LogWriter,
        waiting: WaitingRequests,
        clock: Clock,
        on_events: Callable[[int, list[Event]], None],
        on_durable: Callable[[int], None],
    ) -> None:
        self.partition = partition
        self.log_name = f"__consumer_offsets-{partition}"
        self.state = ShardState.LOADING
        self.shard = make_shard()
        self.start_offset = 0
        self.durable_offset = 0
        self.load_ms = self.loaded_records = 0
        self._config = config
        self._make_shard = make_shard
        self._bring_up_to_date = bring_up_to_date
        self._logs = logs
        self._writer = writer
        self._waiting = waiting
        self._clock = clock
        self._on_events = on_events
        self._on_durable = on_durable
        self._journal = Journal(0, config.message_max_bytes)
        self._taken_from = self._journal
        self._owner_epoch = -1
        self._timer: TimerHandle | None = None
        self._timer_at: int | None = None
        self._commit_timer: TimerHandle | None = None
        self._reload: asyncio.Task[None] | None = None

    # Loading ------------------------------------------------------------------------------

    async def load(self, opened: LogState | None = None) -> None:
        """Read the log, rebuild the shard, start its timers. Raises LoadFailed or LogError."""
        started = self._clock.now()
        state = opened or await self._logs.open(self.log_name)
        shard = self._make_shard()
        self.loaded_records = await load_shard(shard, self._logs, state)
        if self.state is ShardState.CLOSED:
            return
        # Topics and group configs may have changed while the log was read.
        self._bring_up_to_date(shard)
        now = self._clock.now()
        self.shard = shard
        self.start_offset, self.durable_offset = state.start_offset, state.next_offset
        self._owner_epoch = state.owner_epoch
        self._journal = Journal(state.next_offset, self._config.message_max_bytes)
        self.load_ms = now.monotonic_ms - started.monotonic_ms
        self.state = ShardState.ACTIVE
        self._take_in(shard.on_loaded(now))

    async def load_first(self, opened: LogState) -> None:
        """The load at start: a shard that cannot be loaded refuses, the others serve."""
        try:
            await self.load(opened)
        except (LoadFailed, LogError) as error:
            self.fail_loading(error)

    async def _load_until_active(self) -> None:
        while self.state is not ShardState.CLOSED:
            try:
                self.state = ShardState.LOADING
                await self.load()
            except (LoadFailed, LogError) as error:
                self.fail_loading(error)
                await asyncio.sleep(RELOAD_BACKOFF_MS / 1000)
            else:
                log.info("shard reloaded", shard=self.partition, records=self.loaded_records)
                return

    def fail_loading(self, error: Exception) -> None:
        if self.state is not ShardState.CLOSED:
            self.state = ShardState.FAILED
        log.error("shard cannot be loaded", shard=self.partition, reason=str(error))

    def close(self) -> None:
        """Refuse everything from now on; parked requests get NOT_COORDINATOR."""
        if self.state is ShardState.ACTIVE:
            self._answer(self.shard.unload().urgent)
        self.state = ShardState.CLOSED
        for timer in (self._timer, self._commit_timer):
            if timer is not None:
                timer.cancel()
        if self._reload is not None:
            self._reload.cancel()

    # Inputs -------------------------------------------------------------------------------

    @property
    def refusal(self) -> ErrorCode | None:
        """Why nothing can be asked now; None when active."""
        return _REFUSALS.get(self.state)

    def handle(self, context: RequestContext, request: Any) -> None:
        """A request for a group of this shard; the answer goes to `context.token`."""
        if (refusal := self.refusal) is not None:
            self._waiting.fail(context.token, refusal)
            return
        try:
            outcome = self.shard.handle(context, request, self._clock.now())
        except ApiError as error:
            self._waiting.fail(context.token, error.code, error.message)
        except Exception:
            # A bug of ours: nothing was written; the input is what a developer needs.
            log.exception("request failed", shard=self.partition, request=repr(request))
            self._waiting.fail(context.token, ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._take_in(outcome, context)

    def input(self, make_outcome: Callable[[], Outcome]) -> None:
        """An input that is no request: new metadata, a task's result, a deadline."""
        if self.state is not ShardState.ACTIVE:
            return
        try:
            outcome = make_outcome()
        except Exception:
            log.exception("internal input failed", shard=self.partition)
            self._arm_timer()
        else:
            self._take_in(outcome)

    def on_metadata(self, delta: MetadataDelta, now: Instant) -> None:
        """The new image; a shard that is loading gets it when it is made (`make_shard`)."""
        self.input(lambda: self.shard.on_metadata(delta, now))

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        self.shard.set_group_configs(group_id, configs)

    # Outcomes -----------------------------------------------------------------------------

    def _take_in(self, outcome: Outcome, context: RequestContext | None = None) -> None:
        if outcome.records:
            self._write(outcome, context)
        else:
            if outcome.steady is not None and context is not None:
                self._offer_steady(context, outcome.steady)
            self._answer_gated(outcome.gate, outcome.replies)
            if outcome.completion is not None:
                self._complete(outcome.completion, None)
        if self.state is not ShardState.ACTIVE:
            return
        self._answer(outcome.urgent)
        if outcome.events:
            self._on_events(self.partition, outcome.events)
        for task in outcome.tasks:
            asyncio.get_running_loop().call_soon(self._run_task, self.shard, task)
        self._arm_timer()

    def _offer_steady(self, context: RequestContext, lease: Steady) -> None:
        if not self._config.steady_replies_enable:
            return
        shard, group_id = self.shard, lease.group_id

        def holds() -> bool:
            return (
                self.shard is shard
                and self.state is ShardState.ACTIVE
                and not self._journal.pending(group_id)
            )

        self._waiting.steady(context.token, ShardLease(holds, lease.renew))

    def _write(self, outcome: Outcome, context: RequestContext | None) -> None:
        """Replay the records and put them into the journal."""
        now_ms = self._clock.now().monotonic_ms
        parts = [outcome.records] if outcome.atomic else [[r] for r in outcome.records]
        try:
            encoded = [self._journal.encode(part) for part in parts]
        except RecordsTooLarge:
            self._refuse_write(outcome, context)
            return
        groups = sorted({record.key.group for record in outcome.records})
        for index, (part, raw) in enumerate(zip(parts, encoded, strict=True)):
            if outcome.replay and not self._replay(part):
                self._refuse(outcome, context, ErrorCode.NOT_COORDINATOR)
                return
            last = index == len(parts) - 1
            self._journal.accept(
                raw,
                groups,
                outcome.replies if last else [],
                outcome.completion if last else None,
                now_ms,
            )
        self._writer.mark(self)
        self._arm_commit_timer()

    def _replay(self, records: list[Record]) -> bool:
        offset = self._journal.next_offset
        try:
            for index, record in enumerate(records):
                self.shard.replay(record, AppliedAt(offset + index))
        except Exception:
            log.exception("replay failed; shard is rebuilt", shard=self.partition)
            self._fail(ErrorCode.NOT_COORDINATOR)
            return False
        return True

    def _refuse_write(self, outcome: Outcome, context: RequestContext | None) -> None:
        # Nothing is written; classic groups are told like of any failed append.
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        log.error("write larger than message.max.bytes refused", shard=self.partition)
        self._refuse(outcome, context, code)
        if outcome.completion is not None:
            self._complete(outcome.completion, AppendError(code))

    def _refuse(self, outcome: Outcome, context: RequestContext | None, code: ErrorCode) -> None:
        for token, _ in outcome.replies:
            self._waiting.fail(token, code)
        if context is not None:
            self._waiting.fail(context.token, code)
        if self.state is not ShardState.ACTIVE:
            for token, _ in outcome.urgent:
                self._waiting.fail(token, code)

    def _complete(self, completion: Completion, error: AppendError | None) -> None:
        self.input(partial(self.shard.appended, completion, error, self._clock.now()))

    def _answer(self, replies: list[tuple[int, Any]]) -> None:
        for token, reply in replies:
            self._waiting.answer(token, reply)

    def _answer_gated(self, gate: str | None, replies: list[tuple[int, Any]]) -> None:
        if gate is None or (replies and not self._journal.park(gate, replies)):
            self._answer(replies)
        elif replies:
            self._arm_commit_timer()

    def _run_task(self, shard: GroupCoordinatorShard, task: Task) -> None:
        try:
            result = task.run()
        except Exception as error:  # noqa: BLE001 - the shard decides what a failed task means
            result = error
        if shard is self.shard:
            self.input(lambda: shard.task_done(task, result, self._clock.now()))

    # The writer's side --------------------------------------------------------------------

    def take(self) -> list[Append]:
        if self.state is ShardState.FAILED:
            return []
        wall_ms = self._clock.now().wall_ms
        self._taken_from = self._journal
        return [
            Append(
                name=self.log_name,
                owner_epoch=self._owner_epoch,
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                max_timestamp_ms=batch.timestamp_ms,
                payload=batch.payload,
            )
            for batch in self._journal.take(wall_ms)
        ]

    def done(self, error: LogError | None) -> None:
        if self._taken_from is not self._journal:
            return  # settled by the reload that replaced the journal
        if error is not None:
            log.error("append failed; shard is rebuilt", shard=self.partition, reason=str(error))
            self._fail(ErrorCode.NOT_COORDINATOR)
            return
        settled = self._journal.durable()
        self.durable_offset = self._journal.durable_offset
        for batch in settled:
            self._settle(batch)
        self._on_durable(self.partition)
        self._arm_commit_timer()

    def _settle(self, batch: JournalBatch) -> None:
        self._answer(batch.replies)
        for completion in batch.completions:
            self._complete(completion, None)

    # Failure ------------------------------------------------------------------------------

    def _fail(self, code: ErrorCode) -> None:
        if self.state is not ShardState.ACTIVE:
            return
        now = self._clock.now()
        lost = self._journal.failed()
        for batch in lost:
            for completion in batch.completions:
                self._answer(self.shard.appended(completion, AppendError(code), now).urgent)
            for token, _ in batch.replies:
                self._waiting.fail(token, code)
        self._answer(self.shard.unload().urgent)
        self.state = ShardState.FAILED
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._timer_at = None
        self._reload = asyncio.get_running_loop().create_task(
            self._load_until_active(), name=f"reload-{self.partition}"
        )

    # Timers -------------------------------------------------------------------------------

    def _arm_timer(self) -> None:
        """One timer a shard, at the next deadline; an earlier one that is set may stay."""
        at_ms = self.shard.next_deadline()
        if at_ms is None or self.state is not ShardState.ACTIVE:
            return
        if self._timer is not None and self._timer_at is not None:
            if self._timer_at <= at_ms:
                return
            self._timer.cancel()
        self._timer_at = at_ms
        self._timer = self._clock.call_at(at_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = self._timer_at = None
        now = self._clock.now()
        for key in self.shard.pop_due(now.monotonic_ms):
            self.input(partial(self.shard.expire, key, now))
        self._arm_timer()

    def _arm_commit_timer(self) -> None:
        if self._commit_timer is None and (oldest := self._journal.oldest_ms()) is not None:
            deadline = oldest + self._config.offsets_commit_timeout_ms
            self._commit_timer = self._clock.call_at(deadline, self._on_commit_timeout)

    def _on_commit_timeout(self) -> None:
        """A write that takes too long is refused with a retriable code; it may still commit."""
        self._commit_timer = None
        before = self._clock.now().monotonic_ms - self._config.offsets_commit_timeout_ms + 1
        for replies in self._journal.overdue(before):
            log.warning("write timed out", shard=self.partition, replies=len(replies))
            for token, _ in replies:
                self._waiting.fail(token, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._arm_commit_timer()
