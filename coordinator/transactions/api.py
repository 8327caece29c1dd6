"""Where the transaction coordinator and the logs that take part in transactions meet."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Protocol

from msgspec import Struct

from groupd.protocol.errors import ErrorCode


class Marker(Struct, frozen=True):
    """A COMMIT or ABORT marker (KIP-98). `transaction_version` 2: the epoch is the bumped one
    (KIP-890)."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int  # 1 or 2


class MarkerTarget(Protocol):
    """The side that holds the partitions."""

    async def write_marker(
        self, marker: Marker, partitions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], ErrorCode]:
        """Append the marker to each (topic, partition), `__consumer_offsets` included, durably.
        NONE when done; retriable codes mean: try again."""
        ...


class TransactionVerifier(Protocol):
    """The coordinator's side."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
    ) -> Awaitable[dict[tuple[str, int], ErrorCode]]:
        """KIP-890: are these partitions in the open transaction of that producer; with `add`
        (TV2) they are added, durably, first. Codes: NONE, TRANSACTION_ABORTABLE,
        INVALID_PRODUCER_EPOCH (instead of PRODUCER_FENCED), CONCURRENT_TRANSACTIONS,
        INVALID_PRODUCER_ID_MAPPING, INVALID_TXN_STATE,
        COORDINATOR_LOAD_IN_PROGRESS/NOT_COORDINATOR."""
        ...
