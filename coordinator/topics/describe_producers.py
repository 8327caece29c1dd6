"""DescribeProducers (61): the producers that a partition's log knows, and their transactions."""

from __future__ import annotations

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.names import check_topic_name
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.producers import (
    ActiveProducer,
    DescribedPartition,
    DescribedProducersTopic,
    DescribeProducersReply,
    DescribeProducersRequest,
)
from groupd.storage.log import LogError


class DescribeProducers:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(
        self, context: RequestContext, request: DescribeProducersRequest
    ) -> DescribeProducersReply:
        topics = []
        for topic in request.topics:
            described = [await self._one(context, topic.name, one) for one in topic.partitions]
            topics.append(DescribedProducersTopic(topic.name, tuple(described)))
        return DescribeProducersReply(tuple(topics))

    async def _one(self, context: RequestContext, name: str, partition: int) -> DescribedPartition:
        try:
            check_topic_name(name)
            if not context.allows(Operation.READ, Resource.TOPIC, name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            topic = self._partitions.resolve_name(name, partition)
            log = await self._partitions.readable(topic, partition)
        except ApiError as error:
            return DescribedPartition(partition, error.code, error.message)
        except LogError as error:
            return DescribedPartition(partition, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return DescribedPartition(
            partition,
            producers=tuple(
                ActiveProducer(
                    producer_id,
                    entry.epoch,
                    entry.last_sequence,
                    entry.last_timestamp_ms,
                    entry.coordinator_epoch,
                    -1 if entry.transaction_offset is None else entry.transaction_offset,
                )
                for producer_id, entry in log.producers.active()
            ),
        )
