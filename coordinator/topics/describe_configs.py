"""DescribeConfigs (32) for topics, this broker, groups and client metrics."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from groupd.coordinator.config_values import SOURCE_DEFAULT, SOURCE_TOPIC
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.broker_keys import TOPIC_SYNONYMS
from groupd.coordinator.topics.catalogue import Topic, TopicCatalogue
from groupd.coordinator.topics.client_metrics import ClientMetrics
from groupd.coordinator.topics.group_overrides import GroupOverrides
from groupd.coordinator.topics.names import CLUSTER_NAME, check_topic_name
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
    ConfigSynonym,
    ConfigValue,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    DescribedConfigs,
)


class DescribeConfigs:
    """Answers one entry per resource, in the order asked."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        broker: BrokerConfigs,
        groups: GroupOverrides,
        client_metrics: ClientMetrics,
    ) -> None:
        self._catalogue = catalogue
        self._client_metrics = client_metrics
        self._broker = broker
        self._groups = groups

    async def handle(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> DescribeConfigsReply:
        return DescribeConfigsReply(
            tuple(self._one(context, request, resource) for resource in request.resources)
        )

    def _one(
        self, context: RequestContext, request: DescribeConfigsRequest, resource: ConfigResource
    ) -> DescribedConfigs:
        try:
            configs = self._configs(context, resource)
        except ApiError as error:
            return DescribedConfigs(
                resource.resource_type, resource.name, error.code, error.message
            )
        wanted = [value for value in configs if not resource.keys or value.name in resource.keys]
        if not request.include_documentation:
            wanted = [replace(value, documentation=None) for value in wanted]
        if not request.include_synonyms:
            wanted = [replace(value, synonyms=()) for value in wanted]
        return DescribedConfigs(resource.resource_type, resource.name, configs=tuple(wanted))

    def _configs(self, context: RequestContext, resource: ConfigResource) -> Sequence[ConfigValue]:
        check_config_access(context, Operation.DESCRIBE_CONFIGS, resource)
        if resource.resource_type == RESOURCE_TOPIC:
            check_topic_name(resource.name)
            topic = self._catalogue.topic(resource.name)
            if topic is None:
                raise ApiError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    "This server does not host this topic-partition.",
                )
            described = TopicSettings(self._broker.config, topic.configs).describe()
            return [self._with_synonyms(topic, value) for value in described]
        if resource.resource_type == RESOURCE_BROKER:
            return self._broker.describe(resource.name)
        if resource.resource_type == RESOURCE_CLIENT_METRICS:
            return self._client_metrics.describe(resource.name)
        if not resource.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return self._groups.describe(resource.name)

    def _with_synonyms(self, topic: Topic, value: ConfigValue) -> ConfigValue:
        key = TOPIC_SYNONYMS.get(value.name)
        synonyms = () if key is None else self._broker.synonyms(key)
        if value.name in topic.configs:
            synonyms = (ConfigSynonym(value.name, value.value, SOURCE_TOPIC), *synonyms)
        source = synonyms[0].source if synonyms else SOURCE_DEFAULT
        return replace(value, source=source, is_default=source == SOURCE_DEFAULT, synonyms=synonyms)


def check_config_access(
    context: RequestContext, operation: Operation, resource: ConfigResource
) -> None:
    """Raises ApiError TOPIC_, CLUSTER_ or GROUP_AUTHORIZATION_FAILED, or INVALID_REQUEST for a
    type of resource that has no configs."""
    rules = {
        RESOURCE_TOPIC: (Resource.TOPIC, resource.name, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        RESOURCE_BROKER: (
            Resource.CLUSTER,
            CLUSTER_NAME,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
        RESOURCE_CLIENT_METRICS: (
            Resource.CLUSTER,
            CLUSTER_NAME,
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ),
        RESOURCE_GROUP: (Resource.GROUP, resource.name, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    }
    rule = rules.get(resource.resource_type)
    if rule is None:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}"
        )
    kind, name, refusal = rule
    if not context.allows(operation, kind, name):
        raise ApiError(refusal, "Authorization failed.")
