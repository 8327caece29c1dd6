"""Producer ids, and InitProducerId (22) for producers without a transactional id. Ids are reserved
from the store in blocks and never given twice; the rest of a block is skipped at a restart. As in
Kafka every request gets a new id with epoch 0, whatever id and epoch it names. Nothing proves that
the named id is the client's own, and the records of two producers with one id would be taken for
duplicates of each other.
"""

from __future__ import annotations

import asyncio

from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import InitProducerIdReply, InitProducerIdRequest
from groupd.storage.log import Catalogue, LogError

BLOCK_SIZE = 1000


def _may_write(context: RequestContext) -> bool:
    """Whether the client may write to any topic, and so may also write idempotently (KIP-679). A
    denial is logged as one of IDEMPOTENT_WRITE on the cluster."""
    asked = Operation.IDEMPOTENT_WRITE, Resource.CLUSTER, CLUSTER_NAME
    return (
        context.sees(*asked)
        or context.access.allows_any(Operation.WRITE, Resource.TOPIC)
        or context.allows(*asked)
    )


class ProducerIds:
    """Allocates producer ids from reserved blocks."""

    def __init__(self, store: Catalogue) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._lock = asyncio.Lock()

    def forget(self) -> None:
        """Drop the reserved block: the store may have lost the reservation, and may give the block
        to another node."""
        self._next = self._end = 0

    async def next(self) -> int:
        """An id that was never allocated before. Raises LogError."""
        async with self._lock:
            if self._next == self._end:
                self._next = await self._store.next_producer_ids(BLOCK_SIZE)
                self._end = self._next + BLOCK_SIZE
            self._next += 1
            return self._next - 1

    async def init(
        self, context: RequestContext, request: InitProducerIdRequest
    ) -> InitProducerIdReply:
        """The reply to an InitProducerId without a transactional id. The transaction coordinator
        answers the others."""
        if not _may_write(context):
            return InitProducerIdReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            return InitProducerIdReply(ErrorCode.INVALID_REQUEST)
        try:
            return InitProducerIdReply(producer_id=await self.next(), producer_epoch=0)
        except LogError:
            # Retriable; producers have no better code for a broker that cannot give out ids.
            return InitProducerIdReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
