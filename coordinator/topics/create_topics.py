"""CreateTopics (19). Rules are the Kafka controller's, in its order: size of the request, names,
configs, where the partitions lie (`coordinator.topics.placement`)."""

from __future__ import annotations

from collections import Counter

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.names import CLUSTER_NAME
from groupd.coordinator.topics.placement import check_request_size, placement
from groupd.coordinator.topics.topic_configs import (
    TopicSettings,
    check_topic_config,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.topics import (
    CreatedTopic,
    CreateTopicsReply,
    CreateTopicsRequest,
    NewTopic,
)
from groupd.storage.log import LogError


class CreateTopics:
    """Answers one entry per topic name; a name given twice fails once with INVALID_REQUEST."""

    def __init__(self, catalogue: TopicCatalogue, broker: BrokerConfigs, layout: Layout) -> None:
        self._catalogue = catalogue
        self._broker = broker
        self._layout = layout

    async def handle(
        self, context: RequestContext, request: CreateTopicsRequest
    ) -> CreateTopicsReply:
        counts = Counter(topic.name for topic in request.topics)
        once = [topic for topic in request.topics if counts[topic.name] == 1]
        check_request_size(once, self._broker.config)
        anywhere = context.allows(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME)
        created = [
            await self._one(context, topic, request.validate_only, anywhere) for topic in once
        ]
        created.extend(
            CreatedTopic(
                name, error=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
            )
            for name in sorted(counts)
            if counts[name] > 1
        )
        return CreateTopicsReply(tuple(created))

    async def _one(
        self, context: RequestContext, topic: NewTopic, validate_only: bool, anywhere: bool
    ) -> CreatedTopic:
        try:
            if not anywhere and not context.allows(Operation.CREATE, Resource.TOPIC, topic.name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            return await self._create(context, topic, validate_only)
        except ApiError as error:
            return CreatedTopic(topic.name, error=error.code, error_message=error.message)
        except LogError as error:
            return CreatedTopic(
                topic.name, error=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(error)
            )

    async def _create(
        self, context: RequestContext, topic: NewTopic, validate_only: bool
    ) -> CreatedTopic:
        self._catalogue.check_name(topic.name)
        overrides = new_configs(topic)
        partitions, replication_factor = placement(
            topic, self._broker.config, self._layout.broker_ids
        )
        self._catalogue.check_new(topic.name, partitions)
        topic_id = NO_TOPIC_ID
        if not validate_only:
            topic_id = (await self._catalogue.create(topic.name, partitions, overrides)).topic_id
        if not context.allows(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name):
            return CreatedTopic(topic.name, topic_id)
        return CreatedTopic(
            name=topic.name,
            topic_id=topic_id,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=TopicSettings(self._broker.config, overrides).describe(),
        )


def new_configs(topic: NewTopic) -> dict[str, str]:
    """The overrides of a new topic. Raises ApiError INVALID_CONFIG, also for null values."""
    missing = [name for name, value in topic.configs if value is None]
    if missing:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Null value not supported for topic configs: {','.join(missing)}",
        )
    return {
        name: check_topic_config(name, value) for name, value in topic.configs if value is not None
    }
