"""What a request to the coordinator leads to, as data."""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.transactions.metadata import NO_EPOCH, NO_PRODUCER_ID, TransactionMetadata
from groupd.protocol.errors import ErrorCode


class NeedsProducerId(Exception):
    """The step needs a producer id that nobody has: get one and ask again. Nothing happened."""


class Answer(Struct, frozen=True):
    """An error, or NONE with id and epoch where the request has room for them."""

    error: ErrorCode = ErrorCode.NONE
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class Change(Struct, frozen=True):
    """`metadata` (None: the id goes) is to be made durable; then `answer` may leave. Until then
    the id takes no other change."""

    transactional_id: str
    metadata: TransactionMetadata | None
    answer: Answer = Answer()


Step = Answer | Change
"""A request that changes nothing is answered at once."""
