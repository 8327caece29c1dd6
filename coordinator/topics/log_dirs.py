"""DescribeLogDirs (35) and AlterReplicaLogDirs (34): the store is the one log directory.

Sizes are those of the batches as they are stored. Nothing can move anywhere, so a partition that is
asked to lie where it lies is content, and there is no other directory.
"""

from __future__ import annotations

from collections.abc import Iterator

from groupd.coordinator.core.partitioning import compacted_log_name
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.broker_keys import LOG_DIR
from groupd.coordinator.topics.catalogue import Topic, TopicCatalogue
from groupd.coordinator.topics.names import (
    CLUSTER_NAME,
    COMPACTED_TOPIC,
    OFFSETS_TOPIC,
    TRANSACTIONS_LOG,
    TRANSACTIONS_TOPIC,
    log_name,
    offsets_log_name,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.replicas import (
    AlterReplicaLogDirsReply,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsReply,
    DescribeLogDirsRequest,
    LogDir,
)
from groupd.storage.log import Catalogue, LogError


class LogDirs:
    def __init__(self, catalogue: TopicCatalogue, store: Catalogue) -> None:
        self._catalogue = catalogue
        self._store = store

    async def describe(
        self, context: RequestContext, request: DescribeLogDirsRequest
    ) -> DescribeLogDirsReply:
        if not context.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        try:
            sizes = await self._store.log_sizes()
        except LogError:
            return DescribeLogDirsReply(
                log_dirs=(LogDir(LOG_DIR, error=ErrorCode.KAFKA_STORAGE_ERROR),)
            )
        topics = tuple(
            (
                topic.name,
                tuple((number, sizes.get(_log_of(topic, number), 0)) for number in asked),
            )
            for topic, asked in self._asked(request)
            if asked
        )
        return DescribeLogDirsReply(log_dirs=(LogDir(LOG_DIR, topics),))

    def _asked(self, request: DescribeLogDirsRequest) -> Iterator[tuple[Topic, list[int]]]:
        """Those that exist; the others are left out, as in Kafka."""
        if request.topics is None:
            for topic in self._catalogue.topics():
                yield topic, list(range(topic.partitions))
            return
        for name, partitions in request.topics:
            found = self._catalogue.topic(name)
            if found is not None:
                yield found, [number for number in partitions if 0 <= number < found.partitions]

    async def alter(
        self, context: RequestContext, request: AlterReplicaLogDirsRequest
    ) -> AlterReplicaLogDirsReply:
        if not context.allows(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        outcomes: dict[str, list[tuple[int, ErrorCode]]] = {}
        for path, topics in request.dirs:
            for name, partitions in topics:
                codes = [(number, self._code(path, name, number)) for number in partitions]
                outcomes.setdefault(name, []).extend(codes)
        return AlterReplicaLogDirsReply(
            tuple((name, tuple(codes)) for name, codes in outcomes.items())
        )

    def _code(self, path: str, name: str, partition: int) -> ErrorCode:
        if path != LOG_DIR:
            return ErrorCode.LOG_DIR_NOT_FOUND
        known = self._catalogue.has_partition(name, partition)
        return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _log_of(topic: Topic, partition: int) -> str:
    if topic.name == OFFSETS_TOPIC:
        return offsets_log_name(partition)
    if topic.name == COMPACTED_TOPIC:
        return compacted_log_name(partition)
    if topic.name == TRANSACTIONS_TOPIC:
        return TRANSACTIONS_LOG
    return log_name(topic.topic_id, partition)
