"""Metadata (3) and DescribeCluster (60): what clients need to find topics.

Rules: every partition has one replica, its leader, at leader epoch 0. A topic that an
auto-creating request names is created before the answer and is in it, so the client need not ask
again; with groupd.auto.create.topics.at.once=false the answer is UNKNOWN_TOPIC_OR_PARTITION, as
from Kafka, and the next one has the topic.
Topics that the principal may not describe look as if only their name were known.
"""

from __future__ import annotations

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.catalogue import Topic, TopicCatalogue
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.names import (
    CLUSTER_METADATA_TOPIC,
    CLUSTER_NAME,
    INTERNAL_TOPICS,
    check_topic_name,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.cluster import (
    DescribeClusterReply,
    DescribeClusterRequest,
    MetadataReply,
    MetadataRequest,
    TopicInfo,
)
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED
from groupd.storage.log import LogError

_TOPIC_OPERATIONS = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_CLUSTER_OPERATIONS = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)
_BROKERS, _CONTROLLERS = 1, 2


def topic_operations(context: RequestContext, name: str) -> int:
    """The bit field of operations that the principal may do on a topic."""
    return sum(
        1 << operation
        for operation in _TOPIC_OPERATIONS
        if context.allows(operation, Resource.TOPIC, name)
    )


def cluster_operations(context: RequestContext) -> int:
    """The bit field for the cluster."""
    return sum(
        1 << operation
        for operation in _CLUSTER_OPERATIONS
        if context.allows(operation, Resource.CLUSTER, CLUSTER_NAME)
    )


class Metadata:
    """The first node is told as the controller."""

    def __init__(
        self, catalogue: TopicCatalogue, config: CoordinatorConfig, layout: Layout
    ) -> None:
        self._catalogue = catalogue
        self._config = config
        self._layout = layout

    async def handle(self, context: RequestContext, request: MetadataRequest) -> MetadataReply:
        if request.topics is None:
            infos = [
                self._info(context, request, topic)
                for topic in self._catalogue.topics()
                if context.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name)
            ]
        else:
            infos = [
                await self._asked(context, request, name, topic_id)
                for name, topic_id in dict.fromkeys(request.topics)
            ]
        operations = OPERATIONS_NOT_ASKED
        if request.include_cluster_authorized_operations:
            described = context.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
            operations = cluster_operations(context) if described else 0
        return MetadataReply(
            nodes=tuple(self._layout.nodes),
            cluster_id=self._catalogue.cluster_id,
            controller_id=self._config.node_id,
            topics=tuple(infos),
            cluster_authorized_operations=operations,
        )

    async def describe_cluster(
        self, context: RequestContext, request: DescribeClusterRequest
    ) -> DescribeClusterReply:
        if request.endpoint_type != _BROKERS:
            known = request.endpoint_type == _CONTROLLERS
            return DescribeClusterReply(
                error=ErrorCode.MISMATCHED_ENDPOINT_TYPE
                if known
                else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
                error_message="This endpoint serves brokers, endpoint type 1.",
                endpoint_type=request.endpoint_type,
            )
        operations = OPERATIONS_NOT_ASKED
        if request.include_cluster_authorized_operations:
            described = context.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME)
            operations = cluster_operations(context) if described else 0
        return DescribeClusterReply(
            cluster_id=self._catalogue.cluster_id,
            controller_id=self._config.node_id,
            nodes=tuple(self._layout.nodes),
            cluster_authorized_operations=operations,
        )

    async def _asked(
        self, context: RequestContext, request: MetadataRequest, name: str | None, topic_id: TopicId
    ) -> TopicInfo:
        if topic_id != NO_TOPIC_ID:
            return self._by_id(context, request, topic_id)
        if name is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, "A topic has neither a name nor an id.")
        if not context.allows(Operation.DESCRIBE, Resource.TOPIC, name):
            return TopicInfo(name, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = self._catalogue.topic(name)
        if topic is None:
            try:
                topic = await self._missing(context, request, name)
            except ApiError as error:
                return TopicInfo(name, error=error.code, internal=name in INTERNAL_TOPICS)
        return self._info(context, request, topic)

    def _by_id(
        self, context: RequestContext, request: MetadataRequest, topic_id: TopicId
    ) -> TopicInfo:
        topic = self._catalogue.topic_by_id(topic_id)
        if topic is None:
            return TopicInfo(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        if not context.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name):
            return TopicInfo(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._info(context, request, topic)

    async def _missing(self, context: RequestContext, request: MetadataRequest, name: str) -> Topic:
        """Create the topic where that is wanted and allowed. Raises ApiError, which may also mean
        that the topic is there for the next request (groupd.auto.create.topics.at.once)."""
        check_topic_name(name)
        wanted = request.allow_auto_topic_creation and self._config.auto_create_topics_enable
        if not wanted or name == CLUSTER_METADATA_TOPIC:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not (
            context.allows(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME)
            or context.allows(Operation.CREATE, Resource.TOPIC, name)
        ):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        try:
            created = await self._catalogue.create(name, self._config.num_partitions, {})
        except ApiError as error:
            topic = self._catalogue.topic(name)
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or topic is None:
                raise
            return topic
        except LogError as error:
            # Retriable for every client: it asks again until the store is back.
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from error
        if not self._config.auto_create_topics_at_once:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return created

    def _info(self, context: RequestContext, request: MetadataRequest, topic: Topic) -> TopicInfo:
        return TopicInfo(
            name=topic.name,
            topic_id=topic.topic_id,
            internal=topic.internal,
            partitions=self._layout.partition_infos(topic, 0, topic.partitions),
            authorized_operations=topic_operations(context, topic.name)
            if request.include_topic_authorized_operations
            else OPERATIONS_NOT_ASKED,
        )
