"""Produce (0): append record batches, answer when they are durable.

Rules: offsets are assigned in arrival order, before anything is awaited, so pipelined requests of
one producer keep their order; all batches of a request go to the writer in one call. A failed
append drops the partitions concerned: their next user reads the store. The append runs on when
its client hangs up. `timeout_ms` is not used: there are no other replicas to wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from coordinator.config import CoordinatorConfig
from coordinator.core.types import Instant, Operation, RequestContext, Resource
from coordinator.topics.arrival_order import ArrivalOrder
from coordinator.topics.batch_checks import check_batch
from coordinator.topics.catalogue import Topic
from coordinator.topics.names import log_name
from coordinator.topics.partition import PartitionLog
from coordinator.topics.partitions import Partitions, storage_error
from coordinator.topics.topic_configs import TopicSettings
from protocol.errors import ApiError, ErrorCode
from protocol.messages.data import (
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceReply,
    ProduceRequest,
    ProduceTopic,
)
from storage.log import Append, LogError, LogFenced

Writer = Callable[[Sequence[Append]], Awaitable[None]]
"""`PartitionLogs.append`, possibly with group commit behind it. Calls must be served in order."""


@dataclass(slots=True)
class _Entry:
    """One partition of one request on its way. Exactly one of `append` (ours), `duplicate_of`
    (last offset of the first append) and an error in `result` is what decides."""

    asked: ProducePartition
    result: ProducedPartition
    topic: Topic | None = None
    log: PartitionLog | None = None
    append: Append | None = None
    duplicate_of: int = -1

    def fail(self, code: ErrorCode, message: str | None) -> None:
        self.result = ProducedPartition(self.asked.partition, code, error_message=message)
        self.append = None
        self.duplicate_of = -1

    @property
    def failed(self) -> bool:
        return self.result.error != ErrorCode.NONE


class Produce:
    """`now()` gives the wall clock for LogAppendTime and timestamp checks."""

    def __init__(
        self,
        partitions: Partitions,
        writer: Writer,
        config: CoordinatorConfig,
        now: Callable[[], Instant],
    ) -> None:
        self._partitions = partitions
        self._writer = writer
        self._config = config
        self._now = now
        self._order = ArrivalOrder()
        self._appends: set[asyncio.Task[None]] = set()

    async def handle(self, context: RequestContext, request: ProduceRequest) -> ProduceReply | None:
        """None for acks=0."""
        grouped = [
            (topic, [self._admit(context, request, topic, asked) for asked in topic.partitions])
            for topic in request.topics
        ]
        entries = [entry for _, some in grouped for entry in some if not entry.failed]
        keys = [
            log_name(entry.topic.topic_id, entry.asked.partition)
            for entry in entries
            if entry.topic is not None
        ]
        if self._order.busy(keys) or not self._attach(entries):
            task = await self._in_turn(context, keys, entries)
        else:
            task = self._stage(context, entries)
        if task is not None:
            await asyncio.shield(task)
        await self._await_duplicates(entries)
        if request.acks == 0:
            return None
        return ProduceReply(
            tuple(
                ProducedTopic(topic.name, topic.topic_id, tuple(entry.result for entry in some))
                for topic, some in grouped
            )
        )

    async def close(self) -> None:
        """Wait for the appends under way."""
        while self._appends:
            await asyncio.wait(set(self._appends))

    def _admit(
        self,
        context: RequestContext,
        request: ProduceRequest,
        topic: ProduceTopic,
        asked: ProducePartition,
    ) -> _Entry:
        entry = _Entry(asked, ProducedPartition(asked.partition))
        try:
            if request.acks not in (-1, 0, 1):
                raise ApiError(
                    ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: must be -1, 0 or 1"
                )
            entry.topic = self._authorized(context, topic, asked.partition)
            if entry.topic.internal:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Cannot append to internal topic {entry.topic.name}",
                )
            if request.transactional_id is not None:
                raise ApiError(
                    ErrorCode.INVALID_TXN_STATE, "Transactions are not supported by this broker"
                )
        except ApiError as error:
            entry.fail(error.code, error.message)
        return entry

    def _authorized(self, context: RequestContext, topic: ProduceTopic, partition: int) -> Topic:
        if topic.name and not context.allows(Operation.WRITE, Resource.TOPIC, topic.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        found = self._partitions.resolve(topic.name, topic.topic_id, partition)
        if not context.allows(Operation.WRITE, Resource.TOPIC, found.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        return found

    def _attach(self, entries: list[_Entry]) -> bool:
        """Give each entry its open log; False if one must be opened first."""
        complete = True
        for entry in entries:
            if entry.failed or entry.topic is None:
                continue
            entry.log = self._partitions.is_open(entry.topic, entry.asked.partition)
            complete = complete and entry.log is not None
        return complete

    async def _in_turn(
        self, context: RequestContext, keys: list[str], entries: list[_Entry]
    ) -> asyncio.Task[None] | None:
        turn = self._order.enter(keys)
        try:
            await turn.wait()
            while not self._attach(entries):
                for entry in entries:
                    if entry.log is None and not entry.failed:
                        await self._open(entry)
            return self._stage(context, entries)
        finally:
            turn.leave()

    async def _open(self, entry: _Entry) -> None:
        assert entry.topic is not None
        try:
            await self._partitions.open(entry.topic, entry.asked.partition)
        except ApiError as error:
            entry.fail(error.code, error.message)
        except LogError as error:
            self._partitions.cannot_read(error)
            entry.fail(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def _stage(self, context: RequestContext, entries: list[_Entry]) -> asyncio.Task[None] | None:
        """Assign offsets and start the append. Nothing is awaited in here: order depends on it."""
        now_ms = self._now().wall_ms
        for entry in entries:
            if not entry.failed:
                try:
                    self._stage_one(context, entry, now_ms)
                except ApiError as error:
                    entry.fail(error.code, error.message)
        staged = [entry for entry in entries if entry.append is not None]
        if not staged:
            return None
        task = asyncio.create_task(self._append(staged))
        self._appends.add(task)
        task.add_done_callback(self._appends.discard)
        return task

    def _stage_one(self, context: RequestContext, entry: _Entry, now_ms: int) -> None:
        log, topic = entry.log, entry.topic
        assert log is not None
        assert topic is not None
        settings = TopicSettings(self._config, topic.configs)
        header, payload = check_batch(entry.asked.records, settings, context.api_version, now_ms)
        duplicate = log.producers.check(header)
        if duplicate is not None:
            entry.duplicate_of = duplicate.last_offset
            base_offset, append_time_ms = duplicate.first_offset, duplicate.timestamp_ms
        else:
            entry.append = log.stage(header, payload)
            base_offset = entry.append.base_offset
            append_time_ms = header.max_timestamp_ms if header.is_log_append_time else -1
        entry.result = replace(
            entry.result,
            base_offset=base_offset,
            log_append_time_ms=append_time_ms,
            log_start_offset=log.start_offset,
        )

    async def _append(self, staged: list[_Entry]) -> None:
        appends = [entry.append for entry in staged if entry.append is not None]
        try:
            await self._writer(appends)
        except LogError as error:
            code = storage_error(error).code
            if isinstance(error, LogFenced):
                # Clients look for the leader again and come back.
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self._drop(staged)
            for entry in staged:
                entry.fail(code, str(error))
        except BaseException:
            self._drop(staged)
            raise
        else:
            for entry in staged:
                assert entry.log is not None
                assert entry.append is not None
                entry.log.durable(entry.append)

    def _drop(self, staged: list[_Entry]) -> None:
        for entry in staged:
            if entry.log is not None:
                self._partitions.drop(entry.log)

    @staticmethod
    async def _await_duplicates(entries: list[_Entry]) -> None:
        """A duplicate is answered when its first append is durable, as that one is."""
        for entry in entries:
            if entry.duplicate_of >= 0 and entry.log is not None:
                durable = await entry.log.wait_durable(entry.duplicate_of)
                if not durable:
                    entry.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the first append failed")
