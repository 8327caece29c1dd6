"""IncrementalAlterConfigs (44): topics and groups; the broker's own settings are read-only.

Rules: all changes of a resource apply, or none. Append and subtract are for lists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from coordinator.config import CoordinatorConfig
from coordinator.core.types import Operation, RequestContext
from coordinator.topics.catalogue import TopicCatalogue
from coordinator.topics.describe_configs import check_config_access
from coordinator.topics.group_overrides import GroupOverrides
from coordinator.topics.layout import Layout
from coordinator.topics.names import check_topic_name
from coordinator.topics.topic_configs import (
    LIST,
    TOPIC_CONFIGS,
    TopicSettings,
    check_topic_config,
    split_list,
)
from protocol.errors import ApiError, ErrorCode
from protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_TOPIC,
    AlterConfig,
    AlteredResource,
    AlterResource,
    ConfigResource,
    IncrementalAlterConfigsReply,
    IncrementalAlterConfigsRequest,
)
from storage.log import LogError

SET, DELETE, APPEND, SUBTRACT = range(4)


class IncrementalAlterConfigs:
    """Answers one entry per resource, in the order asked; a repeated one gets INVALID_REQUEST."""

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
        self, context: RequestContext, request: IncrementalAlterConfigsRequest
    ) -> IncrementalAlterConfigsReply:
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
        return IncrementalAlterConfigsReply(tuple(results.values()))

    async def _alter(
        self, context: RequestContext, asked: AlterResource, validate_only: bool
    ) -> None:
        check_config_access(
            context, Operation.ALTER_CONFIGS, ConfigResource(asked.resource_type, asked.name)
        )
        _check_changes(asked.configs)
        if asked.resource_type == RESOURCE_TOPIC:
            await self._topic(asked, validate_only)
        elif asked.resource_type == RESOURCE_BROKER:
            if asked.name:
                self._layout.check_broker_name(asked.name)
            if asked.configs:
                names = ", ".join(change.name for change in asked.configs)
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"Cannot update these configs dynamically, they are read-only: {names}",
                )
        else:
            if not asked.name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty.")
            await self._groups.alter(asked.name, asked.configs, validate_only=validate_only)

    async def _topic(self, asked: AlterResource, validate_only: bool) -> None:
        check_topic_name(asked.name)
        topic = self._catalogue.topic(asked.name)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        if topic.internal:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"The internal topic {topic.name} can not be changed.",
            )

        def change(overrides: Mapping[str, str]) -> Mapping[str, str]:
            return changed_overrides(self._config, overrides, asked.configs)

        if validate_only:
            change(topic.configs)
        else:
            await self._catalogue.change_configs(topic.topic_id, change)


def _check_changes(changes: tuple[AlterConfig, ...]) -> None:
    names = [change.name for change in changes]
    if len(set(names)) != len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys.")
    missing = [
        change.name for change in changes if change.value is None and change.operation != DELETE
    ]
    if missing:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for: {', '.join(missing)}"
        )


def changed_overrides(
    config: CoordinatorConfig, overrides: Mapping[str, str], changes: tuple[AlterConfig, ...]
) -> Mapping[str, str]:
    """A topic's overrides after the changes. Raises ApiError INVALID_CONFIG or
    INVALID_REQUEST."""
    result = dict(overrides)
    for change in changes:
        entry = TOPIC_CONFIGS.get(change.name)
        if entry is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {change.name}")
        if change.operation == DELETE:
            result.pop(change.name, None)
            continue
        value = change.value or ""
        if change.operation in (APPEND, SUBTRACT):
            if entry.config_type != LIST:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't append to or subtract from {change.name}: it is not a list.",
                )
            items = split_list(TopicSettings(config, result).text(change.name))
            value = ",".join(_combined(items, split_list(value), change.operation))
        elif change.operation != SET:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown operation type {change.operation}")
        result[change.name] = check_topic_config(change.name, value)
    return result


def _combined(items: list[str], given: list[str], operation: int) -> list[str]:
    if operation == SUBTRACT:
        return [item for item in items if item not in given]
    return items + [item for item in dict.fromkeys(given) if item not in items]
