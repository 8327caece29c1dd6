"""`__consumer_offsets` as a topic that may be read: the shards write it, fetch only looks.

The view tells how far a shard's log is durable; the batches come from the same store.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from coordinator.producers.producer_state import ProducerStates
from coordinator.topics.names import offsets_log_name
from coordinator.topics.partition import read_durable
from storage.log import PartitionLogs


class OffsetsLogView(Protocol):
    """The coordinator's side: what of a shard's log may be read."""

    def state(self, partition: int) -> tuple[int, int] | None:
        """(start offset, high watermark); None while the shard is not served here."""
        ...

    def producers(self, partition: int) -> ProducerStates | None:
        """The producers of the shard's log and their transactions; None as above."""
        ...

    def add_waiter(self, partition: int, event: asyncio.Event) -> None:
        """Set `event` whenever the partition's high watermark moves or its state goes away."""
        ...

    def remove_waiter(self, partition: int, event: asyncio.Event) -> None: ...


class NoOffsetsLog:
    """A view without shards: every partition is unknown for now."""

    def state(self, partition: int) -> tuple[int, int] | None:
        return None

    def producers(self, partition: int) -> ProducerStates | None:
        return None

    def add_waiter(self, partition: int, event: asyncio.Event) -> None:
        """Nothing ever happens here."""

    def remove_waiter(self, partition: int, event: asyncio.Event) -> None:
        """Nothing to forget."""


class OffsetsLog:
    """A `ReadableLog` over one partition of the view."""

    __slots__ = ("_logs", "_partition", "_view", "name")

    def __init__(self, view: OffsetsLogView, logs: PartitionLogs, partition: int) -> None:
        self._view = view
        self._logs = logs
        self._partition = partition
        self.name = offsets_log_name(partition)

    @property
    def closed(self) -> bool:
        return self._view.state(self._partition) is None

    @property
    def start_offset(self) -> int:
        state = self._view.state(self._partition)
        return 0 if state is None else state[0]

    @property
    def high_watermark(self) -> int:
        state = self._view.state(self._partition)
        return 0 if state is None else state[1]

    @property
    def next_offset(self) -> int:
        return self.high_watermark

    @property
    def producers(self) -> ProducerStates:
        return self._view.producers(self._partition) or ProducerStates()

    @property
    def last_stable_offset(self) -> int:
        return self.producers.transactions.last_stable_offset(self.high_watermark)

    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]:
        return await read_durable(self, self._logs, from_offset, max_bytes, min_one=min_one)

    def add_waiter(self, event: asyncio.Event) -> None:
        self._view.add_waiter(self._partition, event)

    def remove_waiter(self, event: asyncio.Event) -> None:
        self._view.remove_waiter(self._partition, event)
