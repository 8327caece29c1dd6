"""DeleteRecords (21): move a partition's start offset up."""

from __future__ import annotations

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    DeletedRecords,
    DeletedRecordsTopic,
    DeleteRecordsReply,
    DeleteRecordsRequest,
)
from groupd.storage.log import LogError

HIGH_WATERMARK = -1


class DeleteRecords:
    def __init__(self, partitions: Partitions, broker: BrokerConfigs) -> None:
        self._partitions = partitions
        self._broker = broker

    async def handle(
        self, context: RequestContext, request: DeleteRecordsRequest
    ) -> DeleteRecordsReply:
        topics = []
        for topic in request.topics:
            results = [
                await self._one(context, topic.name, partition, offset)
                for partition, offset in topic.partitions
            ]
            topics.append(DeletedRecordsTopic(topic.name, tuple(results)))
        return DeleteRecordsReply(tuple(topics))

    async def _one(
        self, context: RequestContext, name: str, partition: int, offset: int
    ) -> DeletedRecords:
        try:
            low_watermark = await self._delete(context, name, partition, offset)
        except ApiError as error:
            return DeletedRecords(partition, error=error.code)
        except LogError:
            return DeletedRecords(partition, error=ErrorCode.KAFKA_STORAGE_ERROR)
        return DeletedRecords(partition, low_watermark)

    async def _delete(self, context: RequestContext, name: str, partition: int, offset: int) -> int:
        if not context.allows(Operation.DELETE, Resource.TOPIC, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = self._partitions.resolve_name(name, partition)
        if topic.internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not TopicSettings(self._broker.config, topic.configs).has_policy("delete"):
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        log = await self._partitions.open(topic, partition)
        if offset == HIGH_WATERMARK:
            offset = log.high_watermark
        if not 0 <= offset <= log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset > log.start_offset:
            log = await self._partitions.delete_before(topic, partition, offset)
        return log.start_offset
