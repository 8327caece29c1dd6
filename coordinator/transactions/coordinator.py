"""TransactionCoordinator: the table of transactional ids with its log, markers and timers.

Requests are coroutines: the table decides at once, the answer waits until the change is durable.
Also the `TransactionVerifier` of the partitions. Time and producer ids are injected.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.producers.transactions import (
    MarkerTarget,
    TopicPartition,
    TransactionalWrite,
)
from groupd.coordinator.runtime.clock import Alarm, Clock
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.writer import LogWriter
from groupd.coordinator.transactions.markers import MarkerSender
from groupd.coordinator.transactions.metadata import (
    EPOCH_BUMPS,
    PREPARED,
    Answer,
    Change,
    NeedsProducerId,
    Step,
    TransactionState,
)
from groupd.coordinator.transactions.state_log import StateLog
from groupd.coordinator.transactions.table import TransactionTable
from groupd.coordinator.transactions.trimmer import CHUNK, Trimmer
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import InitProducerIdRequest
from groupd.protocol.messages.transactions import EndTxnRequest
from groupd.storage.log import LogError, PartitionLogs

log = structlog.get_logger("groupd.transactions")

VERIFY_WAIT_MS = 100
"""How long a write waits for the id's pending change (the completion of the transaction before,
another partition's add) before the producer has to try again."""

NextProducerId = Callable[[], Awaitable[int]]
"""Gives a producer id that was never given before. Raises LogError."""


class TransactionCoordinator:
    """Everything about transactional ids on this node."""

    def __init__(
        self,
        config: CoordinatorConfig,
        logs: PartitionLogs,
        writer: LogWriter,
        clock: Clock,
        next_producer_id: NextProducerId,
        markers: MarkerTarget,
        on_first_id: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_first_id()` is called when there is a record in the log, perhaps more than once."""
        self.counts: Counter[str] = Counter()
        """committed, aborted, timed_out, expired: since the start."""
        self.log = StateLog(config, logs, writer, clock, self._loaded, self._applied)
        self.markers = MarkerSender(self.log, markers, clock)
        self.trimmer = Trimmer(self.log, logs)
        self._config = config
        self._clock = clock
        self._next_producer_id = next_producer_id
        self._on_first_id = on_first_id
        self._change_waiters = _ChangeWaiters(clock)
        self._tasks: set[asyncio.Task[None]] = set()
        self._abort_alarm = Alarm(clock, self._abort_timed_out)
        self._expire_alarm = Alarm(clock, self._expire)

    # Life ---------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the log; if that fails, requests are refused until a later attempt succeeds."""
        await self.log.load_first()

    async def close(self) -> None:
        """Refuse what is new, let markers under way be written. What was accepted becomes
        durable and is answered as long as the writer runs."""
        self.log.close()
        self._abort_alarm.cancel()
        self._expire_alarm.cancel()
        self._change_waiters.wake_all()
        await self.log.closed()
        await self.markers.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    @property
    def active(self) -> bool:
        return self.log.state is CoordinatorState.ACTIVE

    def now_ms(self) -> int:
        """Wall clock: what is persisted is counted by it."""
        return self._clock.now().wall_ms

    def _loaded(self) -> None:
        if self.log.durable_offset:
            self._on_first_id()
        for transactional_id in self.log.table.prepared():
            self.markers.begin(transactional_id)
        now_ms = self._clock.now().monotonic_ms
        self._abort_alarm.at_latest(now_ms + self._config.transaction_abort_interval_ms)
        self._expire_alarm.at_latest(now_ms + self._config.transaction_expiration_interval_ms)

    def _applied(self, change: Change) -> None:
        state = TransactionState.DEAD if change.metadata is None else change.metadata.state
        self._on_first_id()
        if state in PREPARED:
            if self.active:  # else the next start does it
                self.markers.begin(change.transactional_id)
        else:
            self._change_waiters.wake(change.transactional_id)
        if state is TransactionState.COMPLETE_COMMIT:
            self.counts["committed"] += 1
        elif state is TransactionState.COMPLETE_ABORT:
            self.counts["aborted"] += 1
        elif state is TransactionState.DEAD:
            self.counts["expired"] += 1
        if self.trimmer.due():
            self._spawn(self.trimmer.trim())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Requests -----------------------------------------------------------------------------

    async def init_producer_id(self, request: InitProducerIdRequest) -> Answer:
        """InitProducerId with a transactional id. Here and in the methods below an error is in the
        answer."""
        return await self._step(
            lambda table, now_ms, fresh_id: table.init_producer_id(request, now_ms, fresh_id)
        )

    async def add_partitions(self, write: TransactionalWrite, *, client_version: int) -> ErrorCode:
        answer = await self._step(
            lambda table, now_ms, _: table.add_partitions(write, client_version, now_ms)
        )
        return answer.error

    async def end(self, request: EndTxnRequest, *, client_version: int) -> Answer:
        return await self._step(
            lambda table, now_ms, fresh_id: table.end(request, client_version, now_ms, fresh_id)
        )

    def check(self, write: TransactionalWrite) -> dict[TopicPartition, ErrorCode]:
        """Tells for each partition whether it is in the open transaction; adds nothing."""
        try:
            return self.log.serving().verify(write)
        except ApiError as error:
            return dict.fromkeys(write.partitions, error.code)

    async def verify(
        self, write: TransactionalWrite, *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """See `TransactionVerifier`. If a change is pending this waits for it, but not for long."""
        until_ms = self._clock.now().monotonic_ms + VERIFY_WAIT_MS
        while True:
            if add:
                code = await self.add_partitions(write, client_version=EPOCH_BUMPS)
                codes = dict.fromkeys(write.partitions, code)
            else:
                codes = self.check(write)
            if ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values():
                break
            if not await self._change_waiters.wait(write.transactional_id, until_ms):
                break
        return {
            partition: ErrorCode.INVALID_PRODUCER_EPOCH
            if code is ErrorCode.PRODUCER_FENCED
            else code
            for partition, code in codes.items()
        }

    async def _step(self, decide: Callable[[TransactionTable, int, int | None], Step]) -> Answer:
        fresh_id: int | None = None
        try:
            while True:
                try:
                    step = decide(self.log.serving(), self._clock.now().wall_ms, fresh_id)
                except NeedsProducerId:
                    fresh_id = await self._fresh_id()
                    continue
                if isinstance(step, Change):
                    await self.log.append(step)
                    return step.answer
                return step
        except ApiError as error:
            return Answer(error.code)

    async def _fresh_id(self) -> int:
        try:
            return await self._next_producer_id()
        except LogError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    # Time ---------------------------------------------------------------------------------

    def _abort_timed_out(self) -> None:
        if self.active:
            for transactional_id in self.log.table.timed_out(self._clock.now().wall_ms):
                self._spawn(self._abort(transactional_id))
        interval_ms = self._config.transaction_abort_interval_ms
        self._abort_alarm.at_latest(self._clock.now().monotonic_ms + interval_ms)

    async def _abort(self, transactional_id: str) -> None:
        aborted = False

        def decide(table: TransactionTable, now_ms: int, fresh_id: int | None) -> Step:
            nonlocal aborted
            change = table.abort_timed_out(transactional_id, now_ms, fresh_id)
            aborted = change is not None
            return change or Answer()

        answer = await self._step(decide)
        if aborted and answer.error is ErrorCode.NONE:
            self.counts["timed_out"] += 1
            log.info("transaction timed out", id=transactional_id)
        elif answer.error is not ErrorCode.NONE:
            log.warning("timed out, not aborted", id=transactional_id, error=answer.error.name)

    def _expire(self) -> None:
        if self.active:
            self._spawn(self._forget_unused(self.log.table))
        interval_ms = self._config.transaction_expiration_interval_ms
        self._expire_alarm.at_latest(self._clock.now().monotonic_ms + interval_ms)

    async def _forget_unused(self, table: TransactionTable) -> None:
        """Forget ids that were not used for long, some at a time, with turns for others in
        between."""
        ids = list(table.entries)
        for start in range(0, len(ids), CHUNK):
            if not self.log.serves(table):
                return
            some = ids[start : start + CHUNK]
            for change in table.expired(some, self._clock.now().wall_ms):
                self.log.append(change)
            await asyncio.sleep(0)


class _ChangeWaiters:
    """Requests that wait, not for long, until their transactional id takes changes again."""

    __slots__ = ("_clock", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def wait(self, transactional_id: str, until_ms: int) -> bool:
        """True after `wake`, False at `until_ms` (monotonic) or if that has passed."""
        if self._clock.now().monotonic_ms >= until_ms:
            return False
        over = asyncio.Event()
        waiting = self._waiting.setdefault(transactional_id, set())
        waiting.add(over)
        timer = self._clock.call_at(until_ms, over.set)
        try:
            await over.wait()
        finally:
            timer.cancel()
            waiting.discard(over)
            # After `wake` others may wait anew, in a set of their own.
            if not waiting and self._waiting.get(transactional_id) is waiting:
                del self._waiting[transactional_id]
        return self._clock.now().monotonic_ms < until_ms

    def wake(self, transactional_id: str) -> None:
        for event in self._waiting.pop(transactional_id, set()):
            event.set()

    def wake_all(self) -> None:
        for transactional_id in list(self._waiting):
            self.wake(transactional_id)
