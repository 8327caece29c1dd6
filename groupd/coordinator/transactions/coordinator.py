"""TransactionCoordinator: the shards of transactional ids that this node serves, with their timers.

Kafka's hash of an id names its shard. Requests are coroutines: the table of the shard decides at
once, and the answer waits until the change is durable. Ids whose shard is not on this node are
refused with NOT_COORDINATOR. The coordinator is also the `TransactionVerifier` of the partitions.
Time and producer ids are passed in.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.slices import chunks
from groupd.coordinator.producers.transactions import MarkerTarget, TransactionalWrite
from groupd.coordinator.runtime.clock import Alarm, Clock
from groupd.coordinator.runtime.coordinator_types import transactions_log_name
from groupd.coordinator.runtime.served_shards import ServedShards
from groupd.coordinator.runtime.shard_state import REFUSALS, RuntimeParts
from groupd.coordinator.runtime.writer import LogWriter
from groupd.coordinator.transactions.loading import LegacyLog
from groupd.coordinator.transactions.markers import MarkerCounts
from groupd.coordinator.transactions.metadata import (
    EPOCH_BUMPS,
    NeedsProducerId,
    TransactionAnswer,
    TransactionChange,
    TransactionStep,
)
from groupd.coordinator.transactions.shard import CHUNK, TransactionShard, TransactionShardParts
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.data import InitProducerIdRequest
from groupd.protocol.messages.transactions import EndTxnRequest
from groupd.storage.log import LogError, LogState, MeasuredLogs

log = structlog.get_logger("groupd.transactions")

VERIFY_WAIT_MS = 100
"""How long a write waits for the pending change of its id (the completion of the previous
transaction, the addition of another partition) before the producer has to try again."""

Decide = Callable[[TransactionTable, int, int | None], TransactionStep]
"""(table, wall clock in ms, a producer id that is not used yet or None) -> what a request leads to.
Raises ApiError, NeedsProducerId."""

NextProducerId = Callable[[], Awaitable[int]]
"""Returns a producer id that was never returned before. Raises LogError."""


class TransactionCoordinator:
    """All transactional ids of this node."""

    def __init__(
        self,
        config: CoordinatorConfig,
        logs: MeasuredLogs,
        writer: LogWriter,
        clock: Clock,
        next_producer_id: NextProducerId,
        markers: MarkerTarget,
        *,
        alone: bool = True,
        may_answer: Callable[[], bool] = lambda: True,
    ) -> None:
        """`alone`: this node serves all shards from the start; otherwise it serves those that the
        cluster gives it. `may_answer()`: whether this node may answer from memory now."""
        self.counts: Counter[str] = Counter()
        """Since the start, by "committed", "aborted", "timed_out" and "expired"."""
        self.marker_counts = MarkerCounts()
        self._shard_count = config.transaction_state_log_num_partitions
        self.served = ServedShards(
            "shards of transactional ids",
            lambda number, owned: TransactionShard(number, self._shared, owned),
            range(self._shard_count if alone else 0),
        )
        self.shards = self.served.by_number
        """The shards of this node that were made, by number."""
        self.may_answer = may_answer
        self._config = config
        self._logs = logs
        self._clock = clock
        self._next_producer_id = next_producer_id
        self._change_waiters = _ChangeWaiters(clock)
        self._expiry: asyncio.Task[None] | None = None
        self._abort_alarm = Alarm(clock, self._abort_timed_out)
        self._expire_alarm = Alarm(clock, self._expire)
        self._legacy = LegacyLog(config, logs)
        self._shared = TransactionShardParts(
            config=config,
            logs=logs,
            parts=RuntimeParts(writer, clock, self.served.wake, may_answer),
            markers=markers,
            legacy=self._legacy,
            counts=self.counts,
            marker_counts=self.marker_counts,
            ids_in_all=self._count_ids,
            on_loaded=self._set_alarms,
            on_settled=self._change_waiters.wake,
        )

    # Life ---------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the logs that are not empty. A shard whose log cannot be read refuses requests until
        a later attempt succeeds."""
        names = {number: transactions_log_name(number) for number in self.served.unopened}
        if not names:
            return
        opened: Mapping[str, LogState] = {}
        try:
            opened = await self._logs.open_many([*names.values()])
            if not await self._legacy.epochs():
                empty = [one for one, name in names.items() if not opened[name].next_offset]
                self.served.rest(empty, lambda shard: shard.begin(opened[shard.log_name]))
        except LogError as error:
            log.error("the logs of transactional ids cannot be opened", reason=str(error))
        self._set_alarms()
        for number in sorted(self.served.unopened):
            await self.served.load(number, opened.get(names[number]))

    async def close(self) -> None:
        """Refuse new requests, and let markers under way be written. What was accepted becomes
        durable and is answered as long as the writer runs."""
        self.served.close_unmade()
        shards = list(self.shards.values())
        for shard in shards:
            shard.close()
        self._abort_alarm.cancel()
        self._expire_alarm.cancel()
        self._change_waiters.wake_all()
        if self._expiry is not None:
            await asyncio.wait([self._expiry])
        for shard in shards:
            await shard.closed()
        # All at once: each may wait for its markers.
        await asyncio.gather(*[shard.ended() for shard in shards if shard.busy])

    @property
    def ending(self) -> bool:
        """Whether the markers or the completion of a decided transaction are being written right
        now."""
        return any(shard.markers.busy for shard in self.shards.values())

    def now_ms(self) -> int:
        """The wall clock in ms, because times are persisted."""
        return self._clock.now().wall_ms

    def _count_ids(self) -> int:
        return sum([len(shard.table.entries) for shard in self.shards.values()])

    def _set_alarms(self) -> None:
        now_ms = self._clock.now().monotonic_ms
        self._abort_alarm.at_latest(now_ms + self._config.transaction_abort_interval_ms)
        self._expire_alarm.at_latest(now_ms + self._config.transaction_expiration_interval_ms)

    # Shards -------------------------------------------------------------------------------

    def check_answers(self) -> None:
        """Raises ApiError COORDINATOR_NOT_AVAILABLE while this node may not answer from memory."""
        if not self.may_answer():
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def table_of(self, transactional_id: str) -> TransactionTable:
        """Returns the table of the id's shard, whether it knows the id or not. Raises ApiError
        INVALID_REQUEST, or another one while this node cannot answer for the id."""
        return self._shard_of(transactional_id).serving()

    def tables(self) -> list[TransactionTable]:
        """Returns the tables of all shards of this node that were made, in order. Raises ApiError
        as `table_of` does."""
        self.check_answers()
        if self.served.unopened:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return [shard.serving() for _, shard in sorted(self.shards.items())]

    def _shard_of(self, transactional_id: str | None) -> TransactionShard:
        if not transactional_id:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        self.check_answers()
        number = partition_for(transactional_id, self._shard_count)
        shard = self.served.get(number)
        if shard is None:
            raise ApiError(REFUSALS[self.served.absence(number)])
        return shard

    # Requests -----------------------------------------------------------------------------

    async def init_producer_id(self, request: InitProducerIdRequest) -> TransactionAnswer:
        """InitProducerId with a transactional id. Like the methods below it returns an error in the
        answer."""
        return await self._step(
            request.transactional_id,
            lambda table, now_ms, fresh_id: table.init_producer_id(request, now_ms, fresh_id),
        )

    async def add_partitions(self, write: TransactionalWrite, *, client_version: int) -> ErrorCode:
        answer = await self._step(
            write.transactional_id,
            lambda table, now_ms, _: table.add_partitions(write, client_version, now_ms),
        )
        return answer.error

    async def end(self, request: EndTxnRequest, *, client_version: int) -> TransactionAnswer:
        return await self._step(
            request.transactional_id,
            lambda table, now_ms, fresh_id: table.end(request, client_version, now_ms, fresh_id),
        )

    def check(self, write: TransactionalWrite) -> dict[TopicPartition, ErrorCode]:
        """Returns for each partition whether it is in the open transaction; adds none."""
        try:
            return self.table_of(write.transactional_id).verify(write)
        except ApiError as error:
            return dict.fromkeys(write.partitions, error.code)

    async def verify(
        self, write: TransactionalWrite, *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Verify as `TransactionVerifier` says. If a change is pending this waits for it, up to
        `VERIFY_WAIT_MS`."""
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

    async def _step(self, transactional_id: str | None, decide: Decide) -> TransactionAnswer:
        fresh_id: int | None = None
        try:
            while True:
                # Looked up after every wait, because the shard may have left and come back.
                shard = self._shard_of(transactional_id)
                try:
                    step = decide(shard.serving(), self._clock.now().wall_ms, fresh_id)
                except NeedsProducerId:
                    fresh_id = await self._fresh_id()
                    continue
                if isinstance(step, TransactionChange):
                    self._set_alarms()
                    return await shard.append(step)
                return step
        except ApiError as error:
            return TransactionAnswer(error.code)

    async def _fresh_id(self) -> int:
        try:
            return await self._next_producer_id()
        except LogError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    # Time ---------------------------------------------------------------------------------

    def _abort_timed_out(self) -> None:
        found = False
        for shard in self._at_work():
            table = shard.table
            ongoing = table.ongoing()
            found = found or bool(ongoing)
            for transactional_id in table.timed_out(ongoing, self._clock.now().wall_ms):
                shard.tasks.start(self._abort(transactional_id))
        if found or not self.may_answer():  # if it is off, a shard that is loaded sets it again
            self._set_alarms()

    def _at_work(self) -> list[TransactionShard]:
        """The active shards that have ids, in order; none while this node may not answer."""
        if not self.may_answer():
            return []
        return [
            shard
            for _, shard in sorted(self.shards.items())
            if shard.active and shard.table.entries
        ]

    async def _abort(self, transactional_id: str) -> None:
        aborted = False

        def decide(table: TransactionTable, now_ms: int, fresh_id: int | None) -> TransactionStep:
            nonlocal aborted
            change = table.abort_timed_out(transactional_id, now_ms, fresh_id)
            aborted = change is not None
            return change or TransactionAnswer()

        answer = await self._step(transactional_id, decide)
        if aborted and answer.error is ErrorCode.NONE:
            self.counts["timed_out"] += 1
            log.info("transaction timed out", id=transactional_id)
        elif answer.error is not ErrorCode.NONE:
            log.warning("timed out, not aborted", id=transactional_id, error=answer.error.name)

    def _expire(self) -> None:
        shards = self._at_work()
        if shards and (self._expiry is None or self._expiry.done()):
            self._expiry = asyncio.get_running_loop().create_task(self._forget_unused(shards))
        interval_ms = self._config.transaction_expiration_interval_ms
        self._expire_alarm.at_latest(self._clock.now().monotonic_ms + interval_ms)

    async def _forget_unused(self, shards: list[TransactionShard]) -> None:
        """Forget ids that were not used for a long time. Other work gets a turn in between."""
        for shard in shards:
            table = shard.table
            for some in chunks(list(table.entries), CHUNK):
                if not shard.serves(table):
                    break
                for change in table.expired(some, self._clock.now().wall_ms):
                    shard.append(change)
                await asyncio.sleep(0)


class _ChangeWaiters:
    """Requests that wait, for a short time, until their transactional id takes changes again."""

    __slots__ = ("_clock", "_waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, set[asyncio.Event]] = {}

    async def wait(self, transactional_id: str, until_ms: int) -> bool:
        """Wait for `wake`. Returns True after it, False at `until_ms` (monotonic) or if that time
        has passed."""
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
            # After `wake` other requests may wait again, in a new set.
            if not waiting and self._waiting.get(transactional_id) is waiting:
                del self._waiting[transactional_id]
        return self._clock.now().monotonic_ms < until_ms

    def wake(self, transactional_id: str) -> None:
        for event in self._waiting.pop(transactional_id, set()):
            event.set()

    def wake_all(self) -> None:
        for transactional_id in list(self._waiting):
            self.wake(transactional_id)
