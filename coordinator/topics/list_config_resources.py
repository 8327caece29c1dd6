"""ListConfigResources (74): what has configs, for tools that describe everything of a kind.

Groups are those with overrides, whether they have members or not. There are no broker loggers here;
asking for them is no mistake.
"""

from __future__ import annotations

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.client_metrics import ClientMetrics
from groupd.coordinator.topics.group_overrides import GroupOverrides
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.names import CLUSTER_NAME
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_BROKER_LOGGER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    ListConfigResourcesReply,
    ListConfigResourcesRequest,
)


class ListConfigResources:
    """Groups first, then the brokers, then topics, each in the order of names."""

    def __init__(
        self,
        catalogue: TopicCatalogue,
        groups: GroupOverrides,
        client_metrics: ClientMetrics,
        layout: Layout,
    ) -> None:
        self._catalogue = catalogue
        self._layout = layout
        self._groups = groups
        self._client_metrics = client_metrics

    async def handle(
        self, context: RequestContext, request: ListConfigResourcesRequest
    ) -> ListConfigResourcesReply:
        if not context.allows(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
            return ListConfigResourcesReply(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        known = {
            RESOURCE_GROUP: sorted(self._groups.all()),
            RESOURCE_CLIENT_METRICS: sorted(self._client_metrics.all()),
            RESOURCE_BROKER_LOGGER: [],
            RESOURCE_BROKER: [str(node_id) for node_id in self._layout.broker_ids],
            RESOURCE_TOPIC: sorted(topic.name for topic in self._catalogue.topics()),
        }
        if not set(request.resource_types) <= known.keys():
            return ListConfigResourcesReply(ErrorCode.UNSUPPORTED_VERSION)
        return ListConfigResourcesReply(
            resources=tuple(
                (resource_type, name)
                for resource_type, names in known.items()
                if not request.resource_types or resource_type in request.resource_types
                for name in names
            )
        )
