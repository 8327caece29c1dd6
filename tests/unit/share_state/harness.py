"""A share coordinator on a memory store, with a clock that stands still."""

from __future__ import annotations

import asyncio
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.persister import entries_of
from groupd.coordinator.runtime.coordinator_types import SHARE_COORDINATOR
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.writer import LogWriter
from groupd.coordinator.share_state.coordinator import ShareCoordinator
from groupd.coordinator.share_state.machine import ShareStateMachine, ShareStateQuestion
from groupd.coordinator.share_state.shard import ShareStateShard
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_state import (
    AskedShareState,
    DeleteShareGroupStateRequest,
    InitializedShareState,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadShareState,
    ShareStateBatch,
    ShareStateResult,
    ShareStateSummary,
    ShareStateTopic,
    WriteShareGroupStateRequest,
    WrittenShareState,
)
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareStateValue,
    decode_record,
)
from groupd.storage.memory import MemoryStore
from tests.support.manual_clock import ManualClock

GROUP = "g"
T, U = b"t" * 16, b"u" * 16
NONE = ErrorCode.NONE
ONE_SHARD = {"share_state_num_partitions": 1}
LOG_NAME = SHARE_COORDINATOR.topic.log_name(0)
B = ShareStateBatch
START_MS = 1_700_000_000_000

INIT = InitializeShareGroupStateRequest
READ = ReadShareGroupStateRequest
WRITE = WriteShareGroupStateRequest
DELETE = DeleteShareGroupStateRequest
SUMMARY = ReadShareGroupStateSummaryRequest


def init(state_epoch: int = 1, start: int = -1, partition: int = 0) -> InitializedShareState:
    return InitializedShareState(partition, state_epoch, start)


def asked(leader_epoch: int = 0, partition: int = 0) -> AskedShareState:
    return AskedShareState(partition, leader_epoch)


def write(
    *batches: ShareStateBatch,
    start: int = 0,
    state_epoch: int = 1,
    leader_epoch: int = 0,
    count: int = -1,
    partition: int = 0,
) -> WrittenShareState:
    return WrittenShareState(partition, state_epoch, leader_epoch, start, count, batches)


class Topics:
    """Which partitions exist: three of T."""

    def __init__(self) -> None:
        self.counts: dict[TopicId, int] = {T: 3}

    def exists(self, topic_id: TopicId, partition: int) -> bool:
        return partition < self.counts.get(topic_id, 0)


class MachineBench:
    """A machine whose records become durable at once."""

    def __init__(self, **config: Any) -> None:
        self.topics = Topics()
        self.config = CoordinatorConfig(**config)
        self.machine = ShareStateMachine(self.config, self.topics.exists)
        self.now_ms = START_MS
        self.log: list[tuple[SharePartitionKey, ShareStateValue]] = []

    def ask(self, request: type, one: Any, topic: TopicId = T, group: str = GROUP) -> Any:
        """The reply, or the code of an error. New records are in `log`."""
        number = one if isinstance(one, int) else one.partition
        question = ShareStateQuestion(request, SharePartitionKey(group, topic, number), one)
        context = RequestContext("token", 0)
        try:
            outcome = self.machine.handle(context, question, Instant(0, self.now_ms))
        except ApiError as error:
            return error.code
        assert outcome.gate == group
        self.apply(outcome.records)
        ((token, reply),) = outcome.replies
        assert token == "token"
        return reply

    def apply(self, records: Any) -> None:
        start = len(self.log)
        self.log += records
        self.machine.replay_all(records, range(start, len(self.log)), None)

    def good(self, request: type, one: Any) -> None:
        assert self.ask(request, one).error is NONE

    def read(self, leader_epoch: int = 0) -> ReadShareState:
        reply = self.ask(READ, asked(leader_epoch))
        assert isinstance(reply, ReadShareState)
        return reply

    def summary(self, topic: TopicId = T) -> ShareStateSummary:
        reply = self.ask(SUMMARY, asked(), topic)
        assert isinstance(reply, ShareStateSummary)
        return reply

    def replayed(self) -> ShareStateMachine:
        """A machine made from the log."""
        machine = ShareStateMachine(self.config, self.topics.exists)
        machine.replay_all(self.log, range(len(self.log)), None)
        return machine


async def settle() -> None:
    for _ in range(30):
        await asyncio.sleep(0)


class Bench:
    """`start` it; `stop` it; `restart` makes another one on the same store. With `alone=False` it
    is a node of a cluster: its `host` is told what to serve."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        clock: ManualClock | None = None,
        topics: Topics | None = None,
        *,
        alone: bool = True,
        **config: Any,
    ) -> None:
        self.store = store or MemoryStore()
        self.clock = clock or ManualClock()
        self.topics = topics or Topics()
        self.settings = config
        self.config = CoordinatorConfig(**{**ONE_SHARD, **config})
        self.writer = LogWriter(self.store)
        self.lease_lasts = True
        self.coordinator = ShareCoordinator(
            self.config,
            self.store,
            self.writer,
            self.clock,
            self.topics.exists,
            LongWork(),
            alone=alone,
            may_answer=lambda: self.lease_lasts,
        )
        self.host = self.coordinator.served

    async def start(self) -> Bench:
        await self.store.start()
        self.writer.start()
        await self.coordinator.load()
        return self

    async def stop(self) -> None:
        await self.coordinator.close()
        await self.writer.close()

    async def restart(self, **config: Any) -> Bench:
        await self.stop()
        settings = {**self.settings, **config}
        return await Bench(self.store, self.clock, self.topics, **settings).start()

    async def pass_time(self, ms: int) -> None:
        await settle()
        self.clock.advance(ms)
        await settle()

    @property
    def shard(self) -> ShareStateShard:
        """The one shard."""
        shard = self.host.get(0)
        assert shard is not None
        return shard

    async def ask(self, request: type, *ones: Any, topic: TopicId = T, group: str = GROUP) -> Any:
        """The entries of the reply; if there is one only, that entry."""
        reply = await self.coordinator.ask(request(group, [ShareStateTopic(topic, ones)]))
        entries = entries_of(reply)
        return entries[0] if len(entries) == 1 else entries

    async def good(self, request: type, *ones: Any, **where: Any) -> None:
        for entry in entries_of(
            await self.coordinator.ask(
                request(where.get("group", GROUP), [ShareStateTopic(where.get("topic", T), ones)])
            )
        ):
            assert entry == ShareStateResult(entry.partition)

    async def log(self) -> list[tuple[int, int, ShareStateValue]]:
        """(offset, partition, value) of the records in the log of the one shard."""
        state = self.host.state(0)
        assert state is not None
        start, end = state
        found = []
        while start < end:
            for row in await self.store.read(LOG_NAME, start, 1 << 20):
                for batch in iter_batches(row.payload):
                    for record in iter_records(batch):
                        assert record.key is not None
                        key, value = decode_record(record.key, record.value)
                        if record.offset >= start:
                            found.append((record.offset, key.partition, value))
                start = row.last_offset + 1
        return found
