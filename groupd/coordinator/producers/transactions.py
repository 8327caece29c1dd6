"""The interface between the transaction coordinator and the logs with transactions.

Both sides depend on this file and not on each other. Topics and shards take markers, and ask
whether a producer is in a transaction. The coordinator writes markers, and answers that question.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicPartition

MARKERS_AT_ONCE = 100
"""How many partitions get a marker in one call of `MarkerTarget.write_marker`: their batches are
made without a pause."""


class Marker(Struct, frozen=True):
    """A COMMIT or ABORT marker (KIP-98). In transaction version 2 (KIP-890) its epoch is one higher
    than the epoch of the records in the transaction."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int  # 1 or 2


class TransactionalWrite(Struct, frozen=True):
    """The partitions that a producer wants to write to within its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


class MarkerTarget(Protocol):
    """Takes markers for the partitions that it holds."""

    async def write_marker(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Append the marker to each partition, including those of `__consumer_offsets`. Returns a
        code for each. NONE: the marker is durable. After a retriable code the coordinator tries
        again."""
        ...


class TransactionVerifier(Protocol):
    """Knows which transactions are open (KIP-890)."""

    def verify(
        self, write: TransactionalWrite, *, add: bool
    ) -> Awaitable[dict[TopicPartition, ErrorCode]]:
        """Check that the partitions are in the producer's open transaction. With `add` (transaction
        version 2) they are added first, durably. Returns a code for each: NONE,
        TRANSACTION_ABORTABLE, INVALID_PRODUCER_EPOCH (instead of PRODUCER_FENCED),
        CONCURRENT_TRANSACTIONS, INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE,
        COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR."""
        ...


class NoTransactions:
    """The verifier of a broker without a transaction coordinator: no partition is in a
    transaction."""

    async def verify(
        self, write: TransactionalWrite, *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        return dict.fromkeys(write.partitions, ErrorCode.INVALID_TXN_STATE)
