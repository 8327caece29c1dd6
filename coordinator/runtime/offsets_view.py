"""What Fetch and ListOffsets may see of `__consumer_offsets`: the durable part of each shard."""

from __future__ import annotations

from collections.abc import Callable

from coordinator.runtime.broker import Broker


class OffsetsView:
    """Log start and high watermark of each shard, and a call when the latter moves."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def state(self, partition: int) -> tuple[int, int]:
        """(start offset, high watermark)."""
        shard = self._broker.shards[partition]
        return shard.start_offset, shard.durable_offset

    def subscribe(self, listener: Callable[[int], None]) -> None:
        """`listener(partition)` after each durable append."""
        self._broker.durable_listeners.append(listener)
