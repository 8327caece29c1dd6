"""AlterConfigs (33), IncrementalAlterConfigs (44), DescribeConfigs (32) and ListConfigResources
(74), for every type of resource that has configs. Either all changes of a resource apply, or none.
Append and subtract are for lists. AlterConfigs replaces all overrides: a key that it does not name
goes back to its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from msgspec.structs import replace

from groupd.coordinator.config.keys import WantedKeys, changes_to, check_changes
from groupd.coordinator.config.values import SOURCE_DEFAULT, SOURCE_TOPIC
from groupd.coordinator.core.slices import repeated_in_steps
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.checks import (
    check_cluster_access,
    denied,
    not_hosted,
    refusal,
)
from groupd.coordinator.topics.topic import check_topic_name
from groupd.coordinator.topics.topic_configs import (
    TOPIC_CONFIGS,
    TopicSettings,
    check_configs_together,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.lazily import Lazily
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

_DESCRIBED_WEIGHT = 10
"""To find one resource and its overrides counts as this many items of a `Pace`."""

_GUARDS = {
    RESOURCE_GROUP: (Resource.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    RESOURCE_CLIENT_METRICS: (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    RESOURCE_BROKER: (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    RESOURCE_BROKER_LOGGER: (Resource.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    RESOURCE_TOPIC: (Resource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
}
"""By the type of a resource: the type on which the principal needs a right, and the error code if
it lacks it."""


_KEYS = tuple(key for _, key in sorted(TOPIC_CONFIGS.keys.items()))
"""The topic configs, sorted by name."""


class ConfiguredResources(Protocol):
    """All resources of one type."""

    def names(self) -> list[str]:
        """The names for ListConfigResources."""
        ...

    def describe(self, name: str, wanted: WantedKeys) -> Sequence[ConfigValue]:
        """The wanted configs of the resource `name`. Raises ApiError."""
        ...

    async def alter(self, asked: AlterResource, *, validate_only: bool) -> None:
        """Change the configs of a resource. Raises ApiError, after which nothing has changed, and
        LogError."""
        ...


class TopicConfigs:
    """The configs of topics, which the catalogue keeps."""

    def __init__(self, catalogue: TopicCatalogue, broker: BrokerConfigs) -> None:
        self._catalogue = catalogue
        self._broker = broker

    def names(self) -> list[str]:
        return [topic.name for topic in self._catalogue.topics()]

    def describe(self, name: str, wanted: WantedKeys) -> Sequence[ConfigValue]:
        check_topic_name(name)
        topic = self._catalogue.topic(name)
        if topic is None:
            raise not_hosted()
        own, synonyms = topic.configs, self._broker.topic_synonyms
        settings = TopicSettings(self._broker.config, own)
        keys = [key for key in _KEYS if wanted is None or key.name in wanted]

        def described() -> Iterator[ConfigValue]:
            for key in keys:
                value, found = settings.text(key.name), synonyms[key.name]
                if key.name in own:
                    found = (ConfigSynonym(key.name, value, SOURCE_TOPIC), *found)
                source = found[0].source if found else SOURCE_DEFAULT
                yield key.described(value, source, found)

        return Lazily(len(keys), described)

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

    def __init__(self, resources: Mapping[int, ConfiguredResources], work: LongWork) -> None:
        self._resources = resources
        self._work = work

    async def alter(
        self,
        context: RequestContext,
        request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    ) -> AlterConfigsReply:
        """Returns one entry per resource, in the order of the request. A resource that is named
        twice gets INVALID_REQUEST."""
        pace = self._work.pace()
        twice = await pace.through(
            repeated_in_steps((asked.resource_type, asked.name) for asked in request.resources)
        )
        results: dict[tuple[int, str], AlteredResource] = {}
        for asked in request.resources:
            if pace.due(1 + len(asked.configs)):
                await pace.turn()
            key = (asked.resource_type, asked.name)
            if key in results:
                continue
            try:
                if key in twice:
                    raise ApiError(
                        ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                    )
                check_changes(asked.configs)
                resources = self._allowed(context, Operation.ALTER_CONFIGS, *key)
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
        """Returns one entry per resource, in the order of the request. A resource that is named
        twice gets the keys of both. Raises ApiError INVALID_REQUEST for an unknown type of
        resource."""
        pace = self._work.pace()
        wanted: dict[tuple[int, str], set[str] | None] = {}
        for asked in request.resources:
            if pace.due():
                await pace.turn()
            if asked.resource_type not in _GUARDS:
                raise _unsupported(asked.resource_type)
            key = (asked.resource_type, asked.name)
            keys = wanted.setdefault(key, set())
            if not asked.keys:
                wanted[key] = None
            elif keys is not None:
                for name in asked.keys:
                    if pace.due():
                        await pace.turn()
                    keys.add(name)
        results = []
        for key, keys in wanted.items():
            if pace.due(_DESCRIBED_WEIGHT):
                await pace.turn()
            results.append(self._described(context, request, key, keys))
        return DescribeConfigsReply(tuple(results))

    def _described(
        self,
        context: RequestContext,
        request: DescribeConfigsRequest,
        key: tuple[int, str],
        wanted: WantedKeys,
    ) -> DescribedConfigs:
        try:
            resources = self._allowed(context, Operation.DESCRIBE_CONFIGS, *key)
            configs = resources.describe(key[1], wanted)
        except ApiError as error:
            return DescribedConfigs(*key, error.code, error.message)

        def shown(value: ConfigValue) -> ConfigValue:
            return replace(
                value,
                documentation=value.documentation if request.include_documentation else None,
                synonyms=value.synonyms if request.include_synonyms else (),
            )

        return DescribedConfigs(*key, configs=Lazily(len(configs), lambda: map(shown, configs)))

    async def list(
        self, context: RequestContext, request: ListConfigResourcesRequest
    ) -> ListConfigResourcesReply:
        """Lists every resource that has configs, for tools that describe all of a type. A group is
        listed if it has overrides, with or without members. There are no broker loggers here, but
        asking for them is not an error."""
        check_cluster_access(context, Operation.DESCRIBE_CONFIGS)
        types = set(request.resource_types)
        if not types <= {*self._resources, RESOURCE_BROKER_LOGGER}:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        listed: list[tuple[int, str]] = []
        for resource_type, resources in self._resources.items():
            if not types or resource_type in types:
                listed += [(resource_type, name) for name in resources.names()]
        return ListConfigResourcesReply(resources=tuple(listed))

    def _allowed(
        self, context: RequestContext, operation: Operation, resource_type: int, name: str
    ) -> ConfiguredResources:
        """The resources of the type, if the client has the right to `operation`. Raises ApiError
        TOPIC_, CLUSTER_ or GROUP_AUTHORIZATION_FAILED, or INVALID_REQUEST for a type that has no
        configs."""
        if resource_type in _GUARDS:
            kind, code = _GUARDS[resource_type]
            guarded = CLUSTER_NAME if kind is Resource.CLUSTER else name
            if not context.allows(operation, kind, guarded):
                raise denied(code)
        resources = self._resources.get(resource_type)
        if resources is None:
            raise _unsupported(resource_type)
        return resources


def _unsupported(resource_type: int) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource_type}")
