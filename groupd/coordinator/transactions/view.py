"""What Fetch and ListOffsets may see of `__transaction_state`: the durable part of each shard."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.log_waiters import LogWaiters
from groupd.coordinator.transactions.shard import TransactionShard
from groupd.storage.log import LogState


class TransactionsView:
    """A `CoordinatorLogView` of the shards of this node, by partition. `unused`: those whose logs
    are empty."""

    def __init__(
        self, shards: Mapping[int, TransactionShard], unused: Mapping[int, LogState]
    ) -> None:
        self._shards = shards
        self._unused = unused
        self._producers = ProducerStates()
        self.waiters = LogWaiters()

    def state(self, partition: int) -> tuple[int, int] | None:
        """(start offset, high watermark); None while the shard is not served here."""
        shard = self._shards.get(partition)
        if partition in self._unused:
            return 0, 0
        if shard is None or not shard.active:
            return None
        return shard.log.start_offset, shard.log.durable_offset

    def clean_offsets(self, partition: int) -> tuple[int, int]:
        return 0, 0

    def producers(self, partition: int) -> ProducerStates:
        """None ever: the coordinator writes without a producer id."""
        return self._producers

    def add_waiter(self, partition: int, event: asyncio.Event) -> None:
        self.waiters.add(partition, event)

    def remove_waiter(self, partition: int, event: asyncio.Event) -> None:
        self.waiters.remove(partition, event)
