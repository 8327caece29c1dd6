"""What Fetch and ListOffsets may see of `__consumer_offsets`: the durable part of each shard."""

from __future__ import annotations

import asyncio

from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.log_waiters import LogWaiters
from groupd.coordinator.runtime.shard_runtime import ShardRuntime
from groupd.coordinator.runtime.shard_state import CoordinatorState


class OffsetsView:
    """Log start and high watermark of each shard, and events for those who wait for more."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiters = LogWaiters()
        broker.progress_listeners.append(self._waiters.wake)

    def _shard(self, partition: int) -> ShardRuntime | None:
        """None for a shard of another node and for one that does not exist."""
        places = self._broker.places
        shard = places[partition] if 0 <= partition < len(places) else None
        return shard if isinstance(shard, ShardRuntime) else None

    def state(self, partition: int) -> tuple[int, int] | None:
        """(start offset, high watermark); None while the shard does not serve here."""
        shard = self._shard(partition)
        if shard is None or shard.state is not CoordinatorState.ACTIVE:
            return None
        return shard.start_offset, shard.durable_offset

    def clean_offsets(self, partition: int) -> tuple[int, int]:
        """How far the history has been folded, and up to where the compacted log stands for it."""
        shard = self._shard(partition)
        opened = None if shard is None else shard.log
        return (0, 0) if opened is None else (opened.history.clean_offset, opened.compacted_end)

    def producers(self, partition: int) -> ProducerStates | None:
        """The producers of the shard's log and their transactions; None as above."""
        shard = self._shard(partition)
        return None if shard is None or self.state(partition) is None else shard.producers

    def add_waiter(self, partition: int, event: asyncio.Event) -> None:
        """Set `event` whenever the high watermark moves or the shard's state changes."""
        self._waiters.add(partition, event)

    def remove_waiter(self, partition: int, event: asyncio.Event) -> None:
        self._waiters.remove(partition, event)
