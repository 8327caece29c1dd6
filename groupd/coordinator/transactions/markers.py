"""Ends prepared transactions: markers to every partition, then the completion. There is one task
for each transaction.

A marker that fails is tried again, with growing pauses, until every partition has its marker. After
a restart all markers are written again. When the table is loaded anew the tasks of the old table
end, because there are new tasks for the new table.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping
from typing import Protocol

import structlog
from msgspec import Struct

from groupd.coordinator.producers.transactions import MARKERS_AT_ONCE, Marker, MarkerTarget
from groupd.coordinator.runtime.clock import Clock, pause
from groupd.coordinator.transactions.metadata import (
    EPOCH_BUMPS,
    TransactionAnswer,
    TransactionChange,
    TransactionMetadata,
    TransactionState,
)
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition

log = structlog.get_logger("groupd.transactions")

BACKOFF_MS = 100
BACKOFF_MAX_MS = 5_000
CLOSE_TIMEOUT_S = 1.0

NEEDS_NO_MARKER = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    }
)
"""With these codes the partition needs no marker. Either it does not exist any more (this node
knows all partitions), or it has seen a later epoch of the producer, which exists only after the end
of this transaction."""


class MarkerCounts(Struct):
    """Counted since the start. `retries`: rounds of markers that had to be repeated."""

    written: int = 0
    retries: int = 0


class PreparedTransactions(Protocol):
    """The part of a shard that `MarkerSender` uses: see `TransactionShard`."""

    coordinator_epoch: int

    @property
    def table(self) -> TransactionTable: ...
    def serves(self, table: TransactionTable) -> bool: ...
    def append(self, change: TransactionChange) -> Awaitable[TransactionAnswer]: ...


class MarkerSender:
    """Ends transactions. Call `begin(id)` for each transaction that is prepared."""

    def __init__(
        self,
        shard: PreparedTransactions,
        target: MarkerTarget,
        clock: Clock,
        counts: MarkerCounts,
    ) -> None:
        self._shard = shard
        self._target = target
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._counts = counts
        self._pausing = 0

    def begin(self, transactional_id: str) -> None:
        task = asyncio.get_running_loop().create_task(
            self._finish(self._shard.table, transactional_id)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def under_way(self) -> bool:
        """Whether a transaction is decided and not complete."""
        return bool(self._tasks)

    @property
    def busy(self) -> bool:
        """Whether markers or a completion are being written right now. The pause before another
        attempt does not count."""
        return len(self._tasks) > self._pausing

    def cancel(self) -> None:
        """Stop at once. The next owner of the ids writes all markers again."""
        for task in self._tasks:
            task.cancel()

    async def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Wait a moment for what is being written. The rest is done after the next start."""
        if self._tasks:
            _, late = await asyncio.wait(set(self._tasks), timeout=timeout_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    async def _finish(self, table: TransactionTable, transactional_id: str) -> None:
        entry = table.entries[transactional_id]
        marker = marker_of(entry.metadata, self._shard.coordinator_epoch)
        pause_ms = BACKOFF_MS
        while entry.unmarked:
            unmarked = sorted(entry.unmarked)
            for first in range(0, len(unmarked), MARKERS_AT_ONCE):
                some = unmarked[first : first + MARKERS_AT_ONCE]
                codes = await self._write(marker, some)
                if not self._shard.serves(table):
                    return
                self._note_codes(table, transactional_id, codes)
            if entry.unmarked:
                self._counts.retries += 1
                await self._pause(pause_ms)
                pause_ms = min(2 * pause_ms, BACKOFF_MAX_MS)
                if not self._shard.serves(table):
                    return
        try:
            await self._shard.append(table.completion(transactional_id, self._clock.now().wall_ms))
        except ApiError as error:
            # The log has failed, and the new table has tasks of its own.
            log.info("transaction not completed", id=transactional_id, error=error.code.name)

    async def _write(
        self, marker: Marker, partitions: list[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        try:
            return await self._target.write_marker(marker, partitions)
        except Exception:
            log.exception("markers cannot be written", producer_id=marker.producer_id)
            return {}

    def _note_codes(
        self,
        table: TransactionTable,
        transactional_id: str,
        codes: Mapping[TopicPartition, ErrorCode],
    ) -> None:
        done, failed = [], Counter[str]()
        for partition, code in sorted(codes.items()):
            if code is ErrorCode.NONE:
                self._counts.written += 1
                done.append(partition)
            elif code in NEEDS_NO_MARKER:
                log.info(
                    "no marker written",
                    id=transactional_id,
                    partition=f"{partition[0]}-{partition[1]}",
                    error=code.name,
                )
                done.append(partition)
            else:
                failed[code.name] += 1
        for error, partitions in sorted(failed.items()):
            log.warning(
                "markers are tried again", id=transactional_id, partitions=partitions, error=error
            )
        table.marked(transactional_id, done)

    async def _pause(self, delay_ms: int) -> None:
        self._pausing += 1
        try:
            await pause(self._clock, delay_ms)
        finally:
            self._pausing -= 1


def marker_of(metadata: TransactionMetadata, coordinator_epoch: int) -> Marker:
    """Returns the marker that ends a prepared transaction."""
    return Marker(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        committed=metadata.state is TransactionState.PREPARE_COMMIT,
        coordinator_epoch=coordinator_epoch,
        transaction_version=2 if metadata.client_version >= EPOCH_BUMPS else 1,
    )
