"""AlterConfigs (33) and IncrementalAlterConfigs (44): topics, groups, subscriptions to clients'
metrics, and what of the broker can be changed while it runs.

Rules: all changes of a resource apply, or none. Append and subtract are for lists. AlterConfigs
replaces: what it does not name goes back to its default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from groupd.coordinator.core.types import Operation, RequestContext
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.client_metrics import ClientMetrics
from groupd.coordinator.topics.config_changes import changed, changes_to, check_changes
from groupd.coordinator.topics.describe_configs import check_config_access
from groupd.coordinator.topics.group_overrides import GroupOverrides
from groupd.coordinator.topics.names import check_topic_name
from groupd.coordinator.topics.topic_configs import (
    TopicSettings,
    check_topic_config,
    check_topic_configs_together,
    topic_config_type,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_TOPIC,
    AlterConfigsReply,
    AlterConfigsRequest,
    AlteredResource,
    AlterResource,
    ConfigResource,
    IncrementalAlterConfigsRequest,
)
from groupd.storage.log import LogError


class AlterConfigs:
    """Answers one entry per resource, in the order asked; a repeated one gets INVALID_REQUEST."""

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
        self,
        context: RequestContext,
        request: AlterConfigsRequest | IncrementalAlterConfigsRequest,
    ) -> AlterConfigsReply:
        counts = Counter((asked.resource_type, asked.name) for asked in request.resources)
        results: dict[tuple[int, str], AlteredResource] = {}
        for asked in request.resources:
            key = (asked.resource_type, asked.name)
            if key in results:
                continue
            error: ApiError | None = None
            try:
                if counts[key] > 1:
                    raise ApiError(
                        ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                    )
                await self._alter(context, asked, request.validate_only)
            except ApiError as refused:
                error = refused
            except LogError as failed:
                error = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(failed))
            results[key] = (
                AlteredResource(*key)
                if error is None
                else AlteredResource(*key, error.code, error.message)
            )
        return AlterConfigsReply(tuple(results.values()))

    async def _alter(
        self, context: RequestContext, asked: AlterResource, validate_only: bool
    ) -> None:
        check_config_access(
            context, Operation.ALTER_CONFIGS, ConfigResource(asked.resource_type, asked.name)
        )
        check_changes(asked.configs)
        if asked.resource_type == RESOURCE_TOPIC:
            await self._topic(asked, validate_only)
        elif asked.resource_type == RESOURCE_BROKER:
            await self._broker.alter(asked, validate_only=validate_only)
        elif asked.resource_type == RESOURCE_CLIENT_METRICS:
            await self._client_metrics.alter(asked, validate_only=validate_only)
        else:
            if not asked.name:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
                )
            await self._groups.alter(asked, validate_only=validate_only)

    async def _topic(self, asked: AlterResource, validate_only: bool) -> None:
        if not asked.name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(asked.name)
        topic = self._catalogue.topic(asked.name)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{asked.name}' does not exist."
            )
        if topic.internal:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"The internal topic {topic.name} can not be changed.",
            )

        def change(overrides: Mapping[str, str]) -> Mapping[str, str]:
            result = changed(
                overrides,
                changes_to(asked, overrides),
                topic_config_type,
                lambda own, key: TopicSettings(self._broker.config, own).text(key),
                check_topic_config,
            )
            check_topic_configs_together(result)
            return result

        if validate_only:
            change(topic.configs)
        else:
            await self._catalogue.change_configs(topic.topic_id, change)
