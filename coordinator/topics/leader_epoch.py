"""OffsetForLeaderEpoch (23): where an epoch ends, for consumers that check for truncation."""

from __future__ import annotations

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.epochs import check_leader_epoch, end_of_epoch
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    EpochEndOffset,
    EpochEndTopic,
    LeaderEpochPartition,
    OffsetForLeaderEpochReply,
    OffsetForLeaderEpochRequest,
)
from groupd.storage.log import LogError


class OffsetForLeaderEpoch:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(
        self, context: RequestContext, request: OffsetForLeaderEpochRequest
    ) -> OffsetForLeaderEpochReply:
        topics = []
        for topic in request.topics:
            ends = [await self._one(context, topic.name, asked) for asked in topic.partitions]
            topics.append(EpochEndTopic(topic.name, tuple(ends)))
        return OffsetForLeaderEpochReply(tuple(topics))

    async def _one(
        self, context: RequestContext, name: str, asked: LeaderEpochPartition
    ) -> EpochEndOffset:
        try:
            if not context.allows(Operation.DESCRIBE, Resource.TOPIC, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topic = self._partitions.resolve_name(name, asked.partition)
            log = await self._partitions.readable(topic, asked.partition)
            check_leader_epoch(asked.current_leader_epoch)
        except ApiError as error:
            return EpochEndOffset(asked.partition, error.code)
        except LogError as failed:
            self._partitions.cannot_read(failed)
            return EpochEndOffset(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        epoch, end_offset = end_of_epoch(log, asked.leader_epoch)
        return EpochEndOffset(asked.partition, leader_epoch=epoch, end_offset=end_offset)
