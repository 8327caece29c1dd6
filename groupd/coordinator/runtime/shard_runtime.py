"""One shard at work: load, serve, group commit, fail and reload.

States: LOADING -> ACTIVE; ACTIVE or LOADING -> FAILED -> LOADING; any -> CLOSED. A failed append
has one path: every parked request is refused with a retriable error, memory is dropped, and the
shard is rebuilt from the log. If it is not known whether an append was written, the reload finds
out.

Answering one request may bring new ones. So the state changes before any request is answered, and
an error while one request is answered does not keep the others from their answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sized
from functools import partial
from itertools import count
from typing import Any

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.partitioning import offsets_log_name
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.types import (
    AppendError,
    Completion,
    Instant,
    Outcome,
    RequestContext,
    Task,
)
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.clock import Alarm, elapsed_ns
from groupd.coordinator.runtime.journal import Journal
from groupd.coordinator.runtime.lease import ShardLease
from groupd.coordinator.runtime.loader import load_anew
from groupd.coordinator.runtime.reload import Reload
from groupd.coordinator.runtime.shard_log import ShardLog, open_shard_log
from groupd.coordinator.runtime.shard_state import REFUSALS, CoordinatorState, ShardSurroundings
from groupd.coordinator.runtime.shard_timers import CommitTimeout, ShardDeadlines
from groupd.coordinator.runtime.waiting import Replies, Waiter, answer_all, refuse
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.records.schema import Record
from groupd.storage.log import Append, LogError
from groupd.storage.units import OwnedUnit

__all__ = ["ShardRuntime", "CoordinatorState"]

log = structlog.get_logger("groupd.shard")

LINGER_MS = 50
"""Records that nobody waits for are written with the next ones that somebody waits for, or after
this time. So what a lone consumer's first heartbeat and its target lead to is one group commit."""


class ShardRuntime:
    """A `GroupCoordinatorShard` with its log, journal and timer. Also a `writer.Source`."""

    def __init__(
        self,
        partition: int,
        config: CoordinatorConfig,
        around: ShardSurroundings,
        owned: OwnedUnit | None = None,
    ) -> None:
        self.partition = partition
        self.log_name = offsets_log_name(partition)
        self.log: ShardLog | None = None
        self.state = CoordinatorState.LOADING
        self.shard = around.make_shard()
        self.start_offset = self.durable_offset = self.load_ms = self.loaded_records = 0
        self.producers = ProducerStates()
        self.clock = clock = around.clock
        self.may_answer = around.may_answer
        self._config = config
        self._around = around
        self._owned = owned
        self._writer = around.writer
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._journal = Journal(0, config.message_max_bytes)
        self._taken_from = self._journal
        self._owner_epoch = -1
        self._deadlines = ShardDeadlines(
            clock, self, lambda key, now: self.input(partial(self.shard.expire, key, now))
        )
        self._commit_timeout = CommitTimeout(
            clock, config.offsets_commit_timeout_ms, partition, lambda: self._journal
        )
        self._unhurried = Alarm(clock, self._write_open)
        self._reload = Reload(clock, self, "shard", shard=partition)
        self.missed: list[tuple[str, TopicId]] = []
        """Topics, deleted while nobody served the shard, whose offsets it forgets once loaded."""

    # Loading ------------------------------------------------------------------------------

    async def load(self, opened: ShardLog | None = None) -> None:
        """Read the log, rebuild the shard, start its timers. Raises LoadFailed or LogError."""
        started = self.clock.now()
        opened = opened or await open_shard_log(self._around.logs, self.partition, self._owned)
        loaded = await load_anew(
            self._around.make_shard,
            self._around.bring_up_to_date,
            self._around.logs,
            opened,
            self.clock,
        )
        if self.state is CoordinatorState.CLOSED:
            return
        self.shard.discard()
        shard = self.shard = loaded.shard
        self.producers = loaded.producers
        self.loaded_records, self.log = loaded.records, opened
        self.start_offset, self.durable_offset = opened.history.start_offset, opened.next_offset
        self._owner_epoch = opened.history.owner_epoch
        self._journal = Journal(opened.next_offset, self._config.message_max_bytes)
        self.load_ms = self.clock.now().monotonic_ms - started.monotonic_ms
        self.state = CoordinatorState.ACTIVE
        self._take_in(loaded.outcome)
        missed, self.missed = self.missed, []
        if missed:
            self.input(lambda: shard.offsets.on_topics_deleted(missed))
        self._around.on_progress(self.partition)

    async def load_first(self, opened: ShardLog | None = None) -> None:
        """The load at the start; if it fails it is tried again later. `opened`: the log, if it is
        open already."""
        await self._reload.load_first(partial(self.load, opened))

    def close(self) -> None:
        """Refuse everything from now on; parked requests get NOT_COORDINATOR. What is in the
        journal may still become durable and is answered then."""
        was_active = self.state is CoordinatorState.ACTIVE
        self.state = CoordinatorState.CLOSED
        self._deadlines.cancel()
        self._commit_timeout.cancel()
        self._reload.cancel()
        self._write_open()
        if was_active:
            self._last_answers(self.shard.unload)
        self._around.on_progress(self.partition)

    async def closed(self) -> None:
        """Wait after `close` until nothing of this shard runs any more."""
        await self._reload.ended()

    async def written(self) -> None:
        """Wait after `close` until what was accepted is durable and answered, or has failed."""
        while not self._journal.idle:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle_waiters.append(waiter)
            await asyncio.shield(waiter)

    def drop(self) -> None:
        """Refuse everything at once, also what waits to become durable: another node may have the
        shard."""
        self.close()
        self._lose_writes(ErrorCode.NOT_COORDINATOR)

    # Inputs -------------------------------------------------------------------------------

    def handle(self, context: RequestContext, request: Any) -> None:
        """A request for a group of this shard; `context.token` is answered, now or later."""
        started_ns = elapsed_ns()
        self._handle(context, request)
        self._around.processing.add(elapsed_ns() - started_ns)

    def _handle(self, context: RequestContext, request: Any) -> None:
        waiter: Waiter = context.token
        if self.state is not CoordinatorState.ACTIVE or not self.may_answer():
            # Without a lease: the process stood still in the middle of a long request.
            waiter.fail(REFUSALS.get(self.state, ErrorCode.COORDINATOR_NOT_AVAILABLE))
            return
        try:
            outcome = self.shard.handle(context, request, self.clock.now())
        except ApiError as error:
            # A refusal too may rest on what is not durable yet: a group that is just going.
            reply = waiter.failure(request, error.code, error.message)
            self._answer_gated(getattr(request, "group_id", None), [(waiter, reply)])
        except Exception:
            # A bug of ours: nothing was written; the input is what a developer needs.
            log.exception("request failed", shard=self.partition, request=request)
            waiter.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            steady = outcome.steady
            if steady and not outcome.records and self._config.steady_replies_enable:
                waiter.may_repeat(ShardLease(self, self._journal.pending, steady))
            self._take_in(outcome, waiter)

    def input(self, make_outcome: Callable[[], Outcome]) -> bool:
        """An input that is no request: new metadata, a task's result, a deadline. False if it
        failed, which is a bug of ours: it is logged and goes no further."""
        if self.state is not CoordinatorState.ACTIVE or not self.may_answer():
            return True
        try:
            self._take_in(make_outcome())
        except Exception:
            log.exception("internal input failed", shard=self.partition)
            self._deadlines.arm()
            return False
        return True

    def on_metadata(self, delta: MetadataDelta, now: Instant) -> None:
        """The new image. A shard that is loading gets it when it is made (`make_shard`), and
        forgets the offsets of deleted topics once it is loaded."""
        if self.state in (CoordinatorState.LOADING, CoordinatorState.FAILED):
            self.missed.extend(delta.deleted)
        self.input(lambda: self.shard.on_metadata(delta, now))

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        self.shard.set_group_configs(group_id, configs)

    def topics_of(self, group_id: str) -> Mapping[str, Sized]:
        """The topics for which a group has committed offsets, and so many of each."""
        return self.shard.offsets.store.topics(group_id)

    # Outcomes -----------------------------------------------------------------------------

    def _take_in(self, outcome: Outcome, waiter: Waiter | None = None) -> None:
        """Do what an outcome asks for. `waiter`: that of the request that has led to it."""
        written = True
        if outcome.records:
            written = self._write(outcome, waiter)
        else:
            if outcome.replies:
                self._answer_gated(outcome.gate, outcome.replies)
            if outcome.completion is not None:
                self._complete(outcome.completion, None)
        if self.state is not CoordinatorState.ACTIVE:
            refuse(outcome.urgent, ErrorCode.NOT_COORDINATOR)
            return
        if outcome.urgent:
            answer_all(outcome.urgent)
        # A handler that has not changed memory itself has done nothing if nothing was written.
        if written or not outcome.replay:
            if outcome.events:
                self._around.on_events(self.partition, outcome.events)
            for task in outcome.tasks:
                self._around.work.add_later(
                    task.steps(), partial(self._task_done, self.shard, task)
                )
        self._deadlines.arm()

    def rests(self, group_id: str) -> bool:
        """Whether the shard serves and nothing of the group waits for the log."""
        return self.state is CoordinatorState.ACTIVE and group_id not in self._journal.pending

    def _write(self, outcome: Outcome, waiter: Waiter | None) -> bool:
        """Replay the records and put them into the journal; False if they were refused."""
        now_ms = self.clock.monotonic_ms()
        parts = [outcome.records] if outcome.atomic else [[r] for r in outcome.records]
        try:
            encoded = [self._journal.encode(part) for part in parts]
        except Exception:
            # Larger than message.max.bytes, or a bug of ours.
            log.exception("write refused", shard=self.partition)
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            self._refuse(outcome, waiter, code)
            if outcome.completion is not None:
                # Nothing is written; classic groups are told like of any failed append.
                self._complete(outcome.completion, AppendError(code))
            return False
        last = len(parts) - 1
        for index, (part, raw) in enumerate(zip(parts, encoded, strict=True)):
            try:
                if outcome.replay:
                    self._replay(part, outcome.transaction)
                self._journal.accept(
                    raw,
                    sorted({key.group for key, _ in part}),
                    outcome.replies if index == last else (),
                    outcome.completion if index == last else None,
                    now_ms,
                    outcome.transaction,
                )
            except Exception:
                # Memory is not what the log says.
                log.exception("replay failed; shard is rebuilt", shard=self.partition)
                self._fail(ErrorCode.NOT_COORDINATOR)
                self._refuse(outcome, waiter, ErrorCode.NOT_COORDINATOR)
                return False
        if outcome.replies or outcome.completion is not None:
            self._writer.mark(self)
            self._commit_timeout.arm()
        else:
            self._unhurried.at_latest(now_ms + LINGER_MS)
        return True

    def _write_open(self) -> None:
        """Write what nobody waits for."""
        if not self._journal.idle:
            self._writer.mark(self)

    def _replay(self, records: list[Record], transaction: tuple[int, int] | None) -> None:
        offset = self._journal.next_offset
        self.shard.replay_all(records, count(offset), transaction)
        if transaction is not None:
            wall_ms = self.clock.now().wall_ms
            self.producers.written(*transaction, offset, len(records), wall_ms)

    def write_marker(self, marker: Marker, waiter: Waiter) -> None:
        """The end of a transaction: its pending offsets are decided at once, and `waiter` is
        answered with NONE when the marker is durable, or with the code that says why not. Whoever
        reads one of the groups concerned waits for the marker too."""
        if self.state is not CoordinatorState.ACTIVE:
            waiter.fail(REFUSALS[self.state])
            return
        now, journal, producer_id = self.clock.now(), self._journal, marker.producer_id
        try:
            self.producers.check_marker(marker)
            groups = self.shard.groups_in_transaction(producer_id)
            self.shard.replay_marker(producer_id, marker.committed)
            self.producers.marked(marker, journal.next_offset, now.wall_ms)
            replies = [(waiter, ErrorCode.NONE)]
            journal.accept_marker(marker, groups, replies, now.monotonic_ms)
        except ApiError as error:  # the check's: nothing has changed
            waiter.fail(error.code)
            return
        except Exception:
            log.exception("marker failed; shard is rebuilt", shard=self.partition)
            waiter.fail(ErrorCode.NOT_COORDINATOR)
            self._fail(ErrorCode.NOT_COORDINATOR)
            return
        self._writer.mark(self)
        self._commit_timeout.arm()

    def _refuse(self, outcome: Outcome, waiter: Waiter | None, code: ErrorCode) -> None:
        refuse(outcome.replies, code)
        if waiter is not None:
            waiter.fail(code)

    def _complete(self, completion: Completion, error: AppendError | None) -> None:
        self.input(partial(self.shard.appended, completion, error, self.clock.now()))

    def _answer_gated(self, gate: str | None, replies: Replies) -> None:
        """Answer once the pending records of `gate` are durable; at once if there are none."""
        if gate is None or not self._journal.park(gate, replies):
            answer_all(replies)
        else:
            self._writer.mark(self)
            self._commit_timeout.arm()

    def _task_done(self, shard: GroupCoordinatorShard, task: Task, result: Any) -> None:
        if shard is self.shard:
            self.input(lambda: shard.task_done(task, result, self.clock.now()))

    # The writer's side --------------------------------------------------------------------

    def take(self) -> list[Append]:
        if self.state is CoordinatorState.FAILED:
            return []
        self._taken_from = self._journal
        return [
            Append(self.log_name, self._owner_epoch, first, last, timestamp_ms, payload)
            for first, last, timestamp_ms, payload in self._journal.take(self.clock.now().wall_ms)
        ]

    def done(self, error: LogError | None) -> None:
        if self._taken_from is not self._journal:
            return  # settled by the reload that replaced the journal
        if error is not None:
            log.error("append failed", shard=self.partition, reason=str(error))
            if self.state is CoordinatorState.ACTIVE:
                self._fail(ErrorCode.NOT_COORDINATOR)
            else:
                self._lose_writes(ErrorCode.NOT_COORDINATOR)
            self._tell_idle()
            return
        settled = self._journal.durable()
        self.durable_offset = self._journal.durable_offset
        self.producers.transactions.durable(self.durable_offset)
        for batch in settled:
            answer_all(batch.replies)
            for completion in batch.completions:
                self._complete(completion, None)
        self._around.on_progress(self.partition)
        self._commit_timeout.arm()
        if self._idle_waiters:
            self._tell_idle()

    def _tell_idle(self) -> None:
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            waiter.set_result(None)

    # Failure ------------------------------------------------------------------------------

    def _fail(self, code: ErrorCode) -> None:
        if self.state is not CoordinatorState.ACTIVE:
            return
        self.state = CoordinatorState.FAILED
        self._deadlines.cancel()
        self._commit_timeout.cancel()
        self._unhurried.cancel()
        self._reload.start(0)
        self._lose_writes(code)
        self._last_answers(self.shard.unload)
        self._around.on_progress(self.partition)

    def _lose_writes(self, code: ErrorCode) -> None:
        """What is not durable yet never will be: refuse the requests that wait for it."""
        now = self.clock.now()
        for batch in self._journal.failed():
            for completion in batch.completions:
                self._last_answers(partial(self.shard.appended, completion, AppendError(code), now))
            refuse(batch.replies, code)

    def _last_answers(self, make_outcome: Callable[[], Outcome]) -> None:
        """Answer the requests that are parked in the groups, for the last time."""
        try:
            answer_all(make_outcome().urgent)
        except Exception:
            log.exception("giving up the shard failed", shard=self.partition)
