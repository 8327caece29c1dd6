"""The transaction coordinator as a worker sees it: a `TransactionVerifier` in the main process."""

from __future__ import annotations

from groupd.coordinator.producers.transactions import TopicPartition, TransactionalWrite
from groupd.coordinator.workers import messages
from groupd.coordinator.workers.channel import Channel
from groupd.coordinator.workers.operations import Operation
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import LogError


class RemoteVerifier:
    """See `coordinator.producers.transactions.TransactionVerifier`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def verify(
        self, write: TransactionalWrite, *, add: bool
    ) -> dict[TopicPartition, ErrorCode]:
        """Raises ApiError COORDINATOR_NOT_AVAILABLE while it cannot be asked."""
        asked = messages.encode_write(write, add)
        try:
            answer = await self._channel.call(Operation.VERIFY, asked)
        except LogError as error:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        return messages.decode_codes(answer)
