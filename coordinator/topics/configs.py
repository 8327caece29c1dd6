"""AlterConfigs (33), IncrementalAlterConfigs (44), DescribeConfigs (32) and ListConfigResources
(74), of every kind of resource that has configs.

Rules: all changes of a resource apply, or none. Append and subtract are for lists. AlterConfigs
replaces: a key that it does not name goes back to its default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from groupd.coordinator.config_keys import changes_to, check_changes
from groupd.coordinator.config_values import SOURCE_DEFAULT, SOURCE_TOPIC
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.checks import (
    DENIED,
    check_cluster_access,
    not_hosted,
    refusal,
)
from groupd.coordinator.topics.names import CLUSTER_NAME, check_topic_name
from groupd.coordinator.topics.topic_configs import (
    TOPIC_CONFIGS,
    TopicSettings,
    check_configs_together,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    AlterConfigsReply,
    AlterConfigsRequest,
    AlteredResource,
    AlterResource,
    ConfigSynonym,
    ConfigValue,
    DescribeConfigsReply,
    DescribeConfigsRequest,
    DescribedConfigs,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesReply,
    ListConfigResourcesRequest,
)
from groupd.storage.log import LogError

_GUARDS = {
    RESOURCE_GROUP: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    RESOURCE_CLIENT_METRICS: (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    RESOURCE_BROKER: (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    RESOURCE_TOPIC: (Resource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
}
"""Type of a resource -> what the principal needs a right on, and the code if it has none."""


class ConfiguredResources(Protocol):
    """All resources of one type."""

    def names(self) -> list[str]:
        """The names that ListConfigResources answers."""
        ...

    def describe(self, name: str) -> Sequence[ConfigValue]:
        """All configs. Raises ApiError."""
        ...

    async def alter(self, asked: AlterResource, *, validate_only: bool) -> None:
        """Raises ApiError (nothing has changed), and LogError."""
        ...


class TopicConfigs:
    """The topics of the catalogue, which keeps their configs."""

    def __init__(self, catalogue: TopicCatalogue, broker: BrokerConfigs) -> None:
        self._catalogue = catalogue
        self._broker = broker

    def names(self) -> list[str]:
        return [topic.name for topic in self._catalogue.topics()]

    def describe(self, name: str) -> list[ConfigValue]:
        check_topic_name(name)
        topic = self._catalogue.topic(name)
        if topic is None:
            raise not_hosted()
        settings = TopicSettings(self._broker.config, topic.configs)
        described = []
        for _, key in sorted(TOPIC_CONFIGS.keys.items()):
            value = settings.text(key.name)
            synonyms = () if key.broker_key is None else self._broker.synonyms(key.broker_key)
            if key.name in topic.configs:
                synonyms = (ConfigSynonym(key.name, value, SOURCE_TOPIC), *synonyms)
            source = synonyms[0].source if synonyms else SOURCE_DEFAULT
            described.append(key.described(value, source, synonyms))
        return described

    async def alter(self, asked: AlterResource, *, validate_only: bool) -> None:
        if not asked.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(asked.name)
        topic = self._catalogue.topic(asked.name)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{asked.name}' does not exist."
            )
        self._catalogue.refuse_internal(topic)

        def altered(current: Mapping[str, str]) -> Mapping[str, str]:
            result = TOPIC_CONFIGS.changed(
                current,
                changes_to(asked, current),
                lambda own, key: TopicSettings(self._broker.config, own).text(key),
            )
            check_configs_together(result)
            return result

        if validate_only:
            altered(topic.configs)
        else:
            await self._catalogue.change_configs(topic.topic_id, altered)


class Configs:
    """Handles the requests. `resources`: by type, in the order in which they are listed."""

    def __init__(self, resources: Mapping[int, ConfiguredResources]) -> None:
        self._resources = resources

    async def alter(
        self,
        context: RequestContext,
        request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    ) -> AlterConfigsReply:
        """One entry per resource, in the order asked; a repeated one gets INVALID_REQUEST."""
        counts = Counter((asked.resource_type, asked.name) for asked in request.resources)
        results: dict[tuple[int, str], AlteredResource] = {}
        for asked in request.resources:
            key = (asked.resource_type, asked.name)
            if key in results:
                continue
            try:
                if counts[key] > 1:
                    raise ApiError(
                        ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                    )
                resources = self._allowed(context, Operation.ALTER_CONFIGS, *key)
                check_changes(asked.configs)
                await resources.alter(asked, validate_only=request.validate_only)
            except (ApiError, LogError) as failed:
                error = refusal(failed)
                results[key] = AlteredResource(*key, error.code, error.message)
            else:
                results[key] = AlteredResource(*key)
        return AlterConfigsReply(tuple(results.values()))

    async def describe(
        self, context: RequestContext, request: DescribeConfigsRequest
    ) -> DescribeConfigsReply:
        """One entry per resource, in the order asked."""
        results = []
        for asked in request.resources:
            key = (asked.resource_type, asked.name)
            try:
                resources = self._allowed(context, Operation.DESCRIBE_CONFIGS, *key)
                configs = resources.describe(asked.name)
            except ApiError as error:
                results.append(DescribedConfigs(*key, error.code, error.message))
                continue
            wanted = [value for value in configs if not asked.keys or value.name in asked.keys]
            if not request.include_documentation:
                wanted = [replace(value, documentation=None) for value in wanted]
            if not request.include_synonyms:
                wanted = [replace(value, synonyms=()) for value in wanted]
            results.append(DescribedConfigs(*key, configs=tuple(wanted)))
        return DescribeConfigsReply(tuple(results))

    async def list(
        self, context: RequestContext, request: ListConfigResourcesRequest
    ) -> ListConfigResourcesReply:
        """Everything that has configs, for tools that describe all of a kind. Groups are those with
        overrides, whether they have members or not. There are no broker loggers here, but to ask
        for them is no mistake."""
        check_cluster_access(context, Operation.DESCRIBE_CONFIGS)
        types = set(request.resource_types)
        if not types <= {*self._resources, RESOURCE_BROKER_LOGGER}:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesReply(
            resources=tuple(
                (resource_type, name)
                for resource_type, resources in self._resources.items()
                if not types or resource_type in types
                for name in resources.names()
            )
        )

    def _allowed(
        self, context: RequestContext, operation: Operation, resource_type: int, name: str
    ) -> ConfiguredResources:
        """Raises ApiError TOPIC_, CLUSTER_ or GROUP_AUTHORIZATION_FAILED, or INVALID_REQUEST for a
        type of resource that has no configs."""
        resources = self._resources.get(resource_type)
        if resources is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")
        kind, code = _GUARDS[resource_type]
        guarded = CLUSTER_NAME if kind is Resource.CLUSTER else name
        if not context.allows(operation, kind, guarded):
            raise ApiError(code, DENIED)
        return resources
