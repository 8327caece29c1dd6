"""CreatePartitions (37): a topic may grow, never shrink."""

from __future__ import annotations

from collections import Counter

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.placement import REPLICAS_OF_A_PARTITION, check_replicas
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import (
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    GrownTopic,
)
from groupd.storage.log import LogError


class CreatePartitions:
    """Answers one entry per topic name; a name given twice fails once with INVALID_REQUEST."""

    def __init__(self, catalogue: TopicCatalogue, layout: Layout) -> None:
        self._catalogue = catalogue
        self._layout = layout

    async def handle(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> CreatePartitionsReply:
        counts = Counter(topic.name for topic in request.topics)
        results = [
            await self._one(context, topic, request.validate_only)
            for topic in request.topics
            if counts[topic.name] == 1
        ]
        results.extend(
            CreatePartitionsResult(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            for name in sorted(counts)
            if counts[name] > 1
        )
        return CreatePartitionsReply(tuple(results))

    async def _one(
        self, context: RequestContext, grown: GrownTopic, validate_only: bool
    ) -> CreatePartitionsResult:
        try:
            await self._grow(context, grown, validate_only)
        except ApiError as error:
            return CreatePartitionsResult(grown.name, error.code, error.message)
        except LogError as error:
            return CreatePartitionsResult(grown.name, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        return CreatePartitionsResult(grown.name)

    async def _grow(self, context: RequestContext, grown: GrownTopic, validate_only: bool) -> None:
        if not context.allows(Operation.ALTER, Resource.TOPIC, grown.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = self._catalogue.topic(grown.name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._catalogue.check_growth(topic, grown.count)
        if grown.assignments is not None:
            additional = grown.count - topic.partitions
            if len(grown.assignments) != additional:
                raise ApiError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {additional} additional partition(s), but only "
                    f"{len(grown.assignments)} assignment(s) were specified.",
                )
            for replicas in grown.assignments:
                check_replicas(replicas, self._layout.broker_ids, REPLICAS_OF_A_PARTITION)
        if not validate_only:
            await self._catalogue.grow(topic.topic_id, grown.count)
