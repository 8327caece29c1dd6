"""A transaction coordinator on a memory store, with a clock that stands still and markers that a
test decides about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import NO_TOKEN, RequestContext
from groupd.coordinator.producers.transactions import Marker, TransactionalWrite
from groupd.coordinator.runtime.coordinator_types import transactions_log_name
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.writer import LogWriter
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.coordinator.transactions.handlers import TransactionHandlers, describe_transaction
from groupd.coordinator.transactions.shard import TransactionShard
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import InitProducerIdReply, InitProducerIdRequest
from groupd.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsTransaction,
    DescribedTransaction,
    EndTxnReply,
    EndTxnRequest,
    TxnTopic,
)
from groupd.storage.memory import MemoryStore
from tests.support.access import ByRule, allow_all
from tests.support.manual_clock import ManualClock

ONE_SHARD = {"transaction_state_log_num_partitions": 1}
LOG_NAME = transactions_log_name(0)
TIMEOUT_MS = 60_000
T0, T1 = ("t", 0), ("t", 1)
FENCED = ErrorCode.PRODUCER_FENCED
CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS
MAPPING = ErrorCode.INVALID_PRODUCER_ID_MAPPING
BAD_STATE = ErrorCode.INVALID_TXN_STATE
NONE = ErrorCode.NONE


class Markers:
    """A `MarkerTarget` that remembers. After `hold` nothing is answered until `release`; `codes`:
    what a partition answers, NONE by default; `error`: raised if it is set."""

    def __init__(self) -> None:
        self.calls: list[tuple[Marker, tuple[tuple[str, int], ...]]] = []
        self.codes: dict[tuple[str, int], ErrorCode] = {}
        self.error: Exception | None = None
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def write_marker(
        self, marker: Marker, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], ErrorCode]:
        self.calls.append((marker, tuple(partitions)))
        await self._open.wait()
        if self.error is not None:
            raise self.error
        return {partition: self.codes.get(partition, NONE) for partition in partitions}


class Bench:
    """`start` it; `stop` it; `restart` makes another one on the same store. With `alone=False` it
    is a node of a cluster: its `host` is told what to serve."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        ids: count[int] | None = None,
        clock: ManualClock | None = None,
        *,
        alone: bool = True,
        **config: Any,
    ) -> None:
        self.store = store or MemoryStore()
        self.settings = config
        self.config = CoordinatorConfig(**{**ONE_SHARD, **config})
        self.clock = clock or ManualClock()
        self.ids = ids or count(1000)
        self.markers = Markers()
        self.writer = LogWriter(self.store)
        self.lease_lasts = True
        self.coordinator = TransactionCoordinator(
            self.config,
            self.store,
            self.writer,
            self.clock,
            self.next_id,
            self.markers,
            alone=alone,
            may_answer=lambda: self.lease_lasts,
        )
        self.host = self.coordinator.served
        self.handlers = TransactionHandlers(
            self.config, self.coordinator, self.exists, self.idempotent, LongWork()
        ).handlers

    async def next_id(self) -> int:
        await asyncio.sleep(0)
        return next(self.ids)

    @staticmethod
    def exists(topic: str, partition: int) -> bool:
        return topic in ("t", "__consumer_offsets") and 0 <= partition < 50

    @staticmethod
    async def idempotent(_: RequestContext, __: InitProducerIdRequest) -> InitProducerIdReply:
        return InitProducerIdReply(producer_id=7, producer_epoch=0)

    async def start(self) -> Bench:
        await self.store.start()
        self.writer.start()
        await self.coordinator.load()
        await settle()
        return self

    async def stop(self) -> None:
        self.markers.release()
        await self.coordinator.close()
        await self.writer.close()

    async def restart(self, **config: Any) -> Bench:
        await self.stop()
        fresh = Bench(self.store, self.ids, self.clock, **{**self.settings, **config})
        return await fresh.start()

    async def ask(self, request: Any, version: int, allows: Any = allow_all) -> Any:
        context = RequestContext(NO_TOKEN, version, "client", access=ByRule(allows))
        return await self.handlers[type(request)](context, request)

    # Short forms ----------------------------------------------------------------------------

    async def init(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        name: str = "x",
        timeout_ms: int = TIMEOUT_MS,
    ) -> tuple[ErrorCode, int, int]:
        request = InitProducerIdRequest(name, timeout_ms, producer_id, epoch)
        reply = await self.ask(request, 5)
        return reply.error, reply.producer_id, reply.producer_epoch

    async def begin(
        self, *partitions: tuple[str, int], v2: bool = False, name: str = "x"
    ) -> tuple[int, int]:
        """A producer with an open transaction; its id and epoch."""
        error, producer_id, epoch = await self.init(name=name)
        assert error is NONE
        assert await self.add(producer_id, epoch, *partitions, v2=v2, name=name) is NONE
        return producer_id, epoch

    async def add(
        self,
        producer_id: int,
        epoch: int,
        *partitions: tuple[str, int],
        v2: bool = False,
        name: str = "x",
    ) -> ErrorCode:
        """Adds partitions by AddPartitionsToTxn v3, or by v5 as brokers send it for version 2."""
        topics = (TxnTopic("t", tuple(index for _, index in partitions or (T0,))),)
        asked = AddPartitionsTransaction(name, producer_id, epoch, topics)
        reply = await self.ask(AddPartitionsToTxnRequest((asked,)), 5 if v2 else 3)
        (code,) = {code for _, code in reply.transactions[0].topics[0].partitions}
        return code

    async def end(
        self, producer_id: int, epoch: int, commit: bool, v2: bool = False, name: str = "x"
    ) -> EndTxnReply:
        reply: EndTxnReply = await self.ask(
            EndTxnRequest(name, producer_id, epoch, commit), 5 if v2 else 4
        )
        return reply

    def shown(self, name: str = "x") -> DescribedTransaction:
        return describe_transaction(self.coordinator.table_of(name), name)

    @property
    def shard(self) -> TransactionShard:
        """The one shard."""
        shard = self.coordinator.served.get(0)
        assert shard is not None
        return shard

    @property
    def state(self) -> str:
        return self.shown().state


def write(producer_id: int, epoch: int, *partitions: tuple[str, int]) -> TransactionalWrite:
    return TransactionalWrite("x", producer_id, epoch, partitions)


async def settle(turns: int = 40) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def marker(producer_id: int, epoch: int, committed: bool, version: int, owner: int = 0) -> Marker:
    return Marker(producer_id, epoch, committed, owner, version)
