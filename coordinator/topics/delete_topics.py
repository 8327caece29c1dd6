"""DeleteTopics (20): by name, or from v6 by id.

The catalogue forgets the topic first, then its logs go. If dropping the logs fails, the topic is
gone all the same: log names hold the id, so nothing can ever read the leftovers.
"""

from __future__ import annotations

from collections import Counter

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.catalogue import Topic, TopicCatalogue
from groupd.coordinator.topics.names import log_name
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.topics import DeletedTopic, DeleteTopicsReply, DeleteTopicsRequest
from groupd.storage.log import LogError, PartitionLogs

_TopicKey = tuple[str | None, TopicId]


class DeleteTopics:
    """Answers one entry per topic, in the order asked."""

    def __init__(self, catalogue: TopicCatalogue, logs: PartitionLogs) -> None:
        self._catalogue = catalogue
        self._logs = logs

    async def handle(
        self, context: RequestContext, request: DeleteTopicsRequest
    ) -> DeleteTopicsReply:
        counts = Counter(self._identity(key) for key in request.topics)
        deleted = [
            await self._one(context, key, duplicate)
            for key, duplicate in {
                key: counts[self._identity(key)] > 1 for key in request.topics
            }.items()
        ]
        return DeleteTopicsReply(tuple(deleted))

    def _identity(self, key: _TopicKey) -> object:
        """Equal for two ways of naming one topic."""
        topic = self._find(key)
        return key if topic is None else topic.topic_id

    def _find(self, key: _TopicKey) -> Topic | None:
        name, topic_id = key
        if name is None:
            return self._catalogue.topic_by_id(topic_id)
        return self._catalogue.topic(name)

    async def _one(self, context: RequestContext, key: _TopicKey, duplicate: bool) -> DeletedTopic:
        name, topic_id = key
        try:
            topic = self._check(context, key, duplicate)
            name = topic.name
            await self._catalogue.delete(topic.topic_id)
        except ApiError as error:
            return DeletedTopic(name, topic_id, error.code, error.message)
        except LogError as error:
            return DeletedTopic(name, topic_id, ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        try:
            await self._logs.delete([log_name(topic.topic_id, n) for n in range(topic.partitions)])
        except LogError as error:
            return DeletedTopic(
                name, topic.topic_id, error_message=f"deleted; its logs remain: {error}"
            )
        return DeletedTopic(name, topic.topic_id)

    def _check(self, context: RequestContext, key: _TopicKey, duplicate: bool) -> Topic:
        name, topic_id = key
        if name is None and topic_id == NO_TOPIC_ID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if name is not None and topic_id != NO_TOPIC_ID:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Topic name and topic id can not both be given."
            )
        if duplicate:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name or id.")
        topic = self._find(key)
        if name is not None and not self._may_describe(context, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        if topic is None:
            if name is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
                )
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        if not context.allows(Operation.DELETE, Resource.TOPIC, topic.name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
        return topic

    @staticmethod
    def _may_describe(context: RequestContext, name: str) -> bool:
        return context.allows(Operation.DESCRIBE, Resource.TOPIC, name)
