"""The log of the transaction coordinator as a topic that may be read: `__transaction_state`.

It has one partition, because the coordinator has one log; Kafka's 50 are a way to spread ids over
brokers, which no client and no tool computes. The coordinator writes it, fetch only looks.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.topics.names import TRANSACTIONS_LOG
from groupd.coordinator.topics.stored_rows import read_batches
from groupd.storage.log import PartitionLogs, StoredBatch


class TransactionsLogView(Protocol):
    """The coordinator's side: what of its log may be read."""

    def readable(self) -> tuple[int, int] | None:
        """(start offset, high watermark); None while the coordinator does not serve."""
        ...

    def add_waiter(self, event: asyncio.Event) -> None:
        """Set `event` whenever the high watermark moves or the coordinator stops serving."""
        ...

    def remove_waiter(self, event: asyncio.Event) -> None: ...


class TransactionsLog:
    """A `ReadableLog` over the view."""

    __slots__ = ("_logs", "_view", "name", "producers")

    def __init__(self, view: TransactionsLogView, logs: PartitionLogs) -> None:
        self._view = view
        self._logs = logs
        self.name = TRANSACTIONS_LOG
        self.producers = ProducerStates()

    @property
    def closed(self) -> bool:
        return self._view.readable() is None

    @property
    def start_offset(self) -> int:
        return (self._view.readable() or (0, 0))[0]

    @property
    def high_watermark(self) -> int:
        return (self._view.readable() or (0, 0))[1]

    @property
    def changes(self) -> int:
        return -1

    @property
    def next_offset(self) -> int:
        return self.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    def aborted(self, from_offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        return ()

    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]:
        end = self.high_watermark
        found = await read_batches(
            self._logs, self.name, from_offset, end, max_bytes, min_one=min_one
        )
        return found or []

    async def first_at_or_after(self, timestamp_ms: int) -> StoredBatch | None:
        return await self._logs.first_at_or_after(self.name, timestamp_ms)

    async def with_max_timestamp(self) -> StoredBatch | None:
        return await self._logs.with_max_timestamp(self.name)

    def add_waiter(self, event: asyncio.Event) -> None:
        self._view.add_waiter(event)

    def remove_waiter(self, event: asyncio.Event) -> None:
        self._view.remove_waiter(event)
