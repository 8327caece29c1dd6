"""DescribeConfigs (32) for topics, this broker and groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coordinator.config import FIELDS_BY_KEY, CoordinatorConfig
from coordinator.core.types import Operation, RequestContext, Resource
from coordinator.topics.catalogue import TopicCatalogue
from coordinator.topics.group_overrides import GroupOverrides
from coordinator.topics.layout import Layout
from coordinator.topics.names import CLUSTER_NAME, check_topic_name
from coordinator.topics.topic_configs import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    SOURCE_DEFAULT,
    SOURCE_STATIC_BROKER,
    STRING,
    TopicSettings,
    broker_value,
)
from protocol.errors import ApiError, ErrorCode
from protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ConfigResource,
    ConfigValue,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    DescribedConfigs,
)

_INT_MAX = 2**31 - 1


class DescribeConfigs:
    """Answers one entry per resource, in the order asked."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        config: CoordinatorConfig,
        groups: GroupOverrides,
        layout: Layout,
    ) -> None:
        self._catalogue = catalogue
        self._layout = layout
        self._config = config
        self._groups = groups

    async def handle(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> DescribeConfigsReply:
        return DescribeConfigsReply(
            tuple(
                self._one(context, resource, request.include_documentation)
                for resource in request.resources
            )
        )

    def _one(
        self, context: RequestContext, resource: ConfigResource, documentation: bool
    ) -> DescribedConfigs:
        try:
            configs = self._configs(context, resource)
        except ApiError as error:
            return DescribedConfigs(
                resource.resource_type, resource.name, error.code, error.message
            )
        wanted = [value for value in configs if not resource.keys or value.name in resource.keys]
        if not documentation:
            wanted = [replace(value, documentation=None) for value in wanted]
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
            return TopicSettings(self._config, topic.configs).describe()
        if resource.resource_type == RESOURCE_BROKER:
            return self._broker(resource.name)
        if not resource.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty.")
        return self._groups.describe(resource.name)

    def _broker(self, name: str) -> Sequence[ConfigValue]:
        if not name:
            return ()  # the dynamic defaults of all brokers: there are none
        self._layout.check_broker_name(name)
        # All nodes run with the same settings but for this one.
        config = replace(self._config, node_id=int(name))
        return [broker_config(config, key) for key in sorted(FIELDS_BY_KEY)]


def broker_config(config: CoordinatorConfig, key: str) -> ConfigValue:
    """One setting of the daemon as DescribeConfigs shows it."""
    field = FIELDS_BY_KEY[key]
    is_default = getattr(config, field.name) == field.default
    if isinstance(field.default, bool):
        config_type = BOOLEAN
    elif field.default is None or isinstance(field.default, int):
        high = field.metadata["high"]
        small = (field.default or 0) <= _INT_MAX and (high is None or high <= _INT_MAX)
        config_type = INT if small else LONG
    else:
        config_type = LIST if isinstance(field.default, tuple) else STRING
    return ConfigValue(
        name=key,
        value=broker_value(config, key),
        read_only=True,
        is_default=is_default,
        source=SOURCE_DEFAULT if is_default else SOURCE_STATIC_BROKER,
        config_type=config_type,
        documentation=field.metadata["doc"],
    )


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
