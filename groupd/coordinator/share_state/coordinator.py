"""ShareCoordinator: the shards of share-partitions that this node serves, with their timers.

The hash of a share-partition's key names its shard. A request is split into questions to shards,
one for each partition, and answered when all of them are. Share-partitions whose shard is not on
this node are refused with NOT_COORDINATOR.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.persister import ShareStateRequest, is_empty, refused, reply_of
from groupd.coordinator.runtime.clock import Alarm, Clock, elapsed_ns
from groupd.coordinator.runtime.coordinator_types import SHARE_COORDINATOR, share_partition_text
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.served_shards import ServedShards
from groupd.coordinator.runtime.shard_state import REFUSALS, RuntimeParts
from groupd.coordinator.runtime.writer import LogWriter
from groupd.coordinator.share_state.machine import (
    PartitionExists,
    ShareStateMachine,
    ShareStateQuestion,
)
from groupd.coordinator.share_state.shard import (
    ShareStateCounts,
    ShareStateShard,
    ShareStateShardParts,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_state import (
    ShareStateReply,
    WriteShareGroupStateRequest,
)
from groupd.protocol.records.share_state_records import SharePartitionKey
from groupd.storage.log import LogError, LogState, PartitionLogs

log = structlog.get_logger("groupd.share_state")


class ShareCoordinator:
    """All share-partitions of this node: a `Persister` for them."""

    def __init__(
        self,
        config: CoordinatorConfig,
        logs: PartitionLogs,
        writer: LogWriter,
        clock: Clock,
        exists: PartitionExists,
        work: LongWork,
        *,
        alone: bool = True,
        may_answer: Callable[[], bool] = lambda: True,
    ) -> None:
        """`exists`: whether a partition of a topic exists. `alone`: this node serves all shards
        from the start; otherwise it serves those that the cluster gives it. `may_answer()`: whether
        this node may answer from memory now."""
        self.counts = ShareStateCounts()
        self._config = config
        self._shard_count = SHARE_COORDINATOR.shards(config)
        self.served = ServedShards(
            "shards of share-partitions",
            lambda number, owned: ShareStateShard(number, self._shared, owned),
            range(self._shard_count if alone else 0),
        )
        self._logs = logs
        self._clock = clock
        self._work = work
        self._closed = False
        self._cold_alarm = Alarm(clock, self._write_cold)
        self._prune_alarm = Alarm(clock, self._prune)
        self._shared = ShareStateShardParts(
            config=config,
            logs=logs,
            parts=RuntimeParts(writer, clock, self.served.wake, may_answer),
            counts=self.counts,
            make=lambda: ShareStateMachine(config, exists, self._count_all),
            on_loaded=self._set_alarms,
        )

    # Life ---------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the logs that are not empty. A shard whose log cannot be read refuses requests until
        a later attempt succeeds."""
        names = {one: SHARE_COORDINATOR.topic.log_name(one) for one in self.served.unopened}
        if not names:
            return
        opened: Mapping[str, LogState] = {}
        try:
            opened = await self._logs.open_many([*names.values()])
            empty = [one for one, name in names.items() if not opened[name].next_offset]
            self.served.rest(empty, lambda shard: shard.begin(opened[shard.log_name]))
        except LogError as error:
            log.error("the logs of share-partitions cannot be opened", reason=str(error))
        for number in sorted(self.served.unopened):
            await self.served.load(number, opened.get(names[number]))

    async def close(self) -> None:
        """Refuse new requests. What was accepted becomes durable and is answered as long as the
        writer runs."""
        self._closed = True
        self.served.close_unmade()
        self._cold_alarm.cancel()
        self._prune_alarm.cancel()
        shards = list(self.served.by_number.values())
        for shard in shards:
            shard.close()
        for shard in shards:
            await shard.closed()
            await shard.ended()

    @property
    def share_partitions(self) -> int:
        """How many share-partitions have a state on this node."""
        return self._count_all()

    def _count_all(self) -> int:
        return sum([len(shard.machine.kept) for shard in self.served.by_number.values()])

    # Requests -----------------------------------------------------------------------------

    async def ask(self, request: ShareStateRequest) -> ShareStateReply:
        """Answer as a `Persister`, at the first attempt, and for this node only: further codes are
        NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS and COORDINATOR_NOT_AVAILABLE."""
        if is_empty(request):
            return ShareStateReply()
        started_ns, kind = elapsed_ns(), type(request)
        waiters, pace = list[_Question](), self._work.pace()
        for topic in request.topics:
            for asked in topic.partitions:
                # Of a write the batches are work, too.
                if pace.due(1 + len(getattr(asked, "batches", ())) // 20):
                    await pace.turn()
                number = asked if isinstance(asked, int) else asked.partition
                key = SharePartitionKey(request.group_id, topic.topic_id, number)
                waiters.append(_Question(ShareStateQuestion(kind, key, asked)))
                self._pass_on(waiters[-1])
        reply = reply_of(request, [await waiter.answered for waiter in waiters])
        if kind is WriteShareGroupStateRequest:
            self.counts.writes += len(waiters)
            self.counts.latency.add(elapsed_ns() - started_ns)
        return reply

    def _pass_on(self, waiter: _Question) -> None:
        """Ask the shard of the question."""
        question = waiter.request
        number = partition_for(share_partition_text(question.key), self._shard_count)
        shard = self.served.get(number)
        if self._closed:
            waiter.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif shard is None:
            waiter.fail(REFUSALS[self.served.absence(number)])
        else:
            shard.handle(RequestContext(waiter, 0), question)

    # Topics and time ----------------------------------------------------------------------

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Forget the share-partitions of deleted topics. A shard that is not served now writes
        their tombstones with its cold snapshots."""
        if delta.deleted:
            gone = {topic_id for _, topic_id in delta.deleted}
            self._start(lambda shard: shard.forget(gone))

    def _set_alarms(self) -> None:
        now_ms = self._clock.monotonic_ms()
        self._cold_alarm.at_latest(now_ms + self._config.share_cold_snapshot_interval_ms)
        self._prune_alarm.at_latest(now_ms + self._config.share_state_prune_interval_ms)

    def _write_cold(self) -> None:
        self._start(lambda shard: shard.write_cold())
        self._set_alarms()

    def _prune(self) -> None:
        self._start(lambda shard: shard.prune())
        self._set_alarms()

    def _start(self, work: Callable[[ShareStateShard], Coroutine[Any, Any, None]]) -> None:
        """Start work on each shard that serves. The log of one that does not is kept short by its
        owner, or later."""
        for _, shard in sorted(self.served.by_number.items()):
            if shard.active:
                shard.tasks.start(work(shard))


class _Question:
    """A question that waits for its answer. It is answered and refused like a `Waiter`."""

    __slots__ = ("answered", "request")

    def __init__(self, question: ShareStateQuestion) -> None:
        self.request = question
        self.answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    @property
    def asked(self) -> ShareStateQuestion:
        return self.request

    def failure(self, question: ShareStateQuestion, code: ErrorCode, message: str | None) -> Any:
        return refused(question.request_type, question.asked, code, message)

    def answer(self, entry: Any) -> None:
        if not self.answered.done():
            self.answered.set_result(entry)

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        self.answer(self.failure(self.request, code, message))
