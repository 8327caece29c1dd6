"""DescribeTopicPartitions (75, KIP-966): topics page by page.

Topics come sorted by name; the reply stops after the asked number of partitions (2000 at most) and
`next_cursor` says where to go on.
"""

from __future__ import annotations

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.metadata import topic_operations
from groupd.coordinator.topics.names import INTERNAL_TOPICS, check_topic_name
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import (
    DescribeTopicPartitionsReply,
    DescribeTopicPartitionsRequest,
    TopicInfo,
)

MAX_PARTITIONS = 2000


class DescribeTopicPartitions:
    """Raises ApiError INVALID_REQUEST for a cursor that fits no topic of the request."""

    def __init__(self, catalogue: TopicCatalogue, layout: Layout) -> None:
        self._catalogue = catalogue
        self._layout = layout

    async def handle(
        self, context: RequestContext, request: DescribeTopicPartitionsRequest
    ) -> DescribeTopicPartitionsReply:
        names = self._names(request)
        refused = [
            name for name in names if not context.allows(Operation.DESCRIBE, Resource.TOPIC, name)
        ]
        room = max(1, min(MAX_PARTITIONS, request.response_partition_limit))
        infos: list[TopicInfo] = []
        next_cursor: tuple[str, int] | None = None
        for name in sorted(names.difference(refused)):
            first = request.cursor[1] if request.cursor and request.cursor[0] == name else 0
            if room == 0:
                next_cursor = (name, first)
                break
            info = self._page(context, name, first, first + room)
            room -= len(info.partitions)
            infos.append(info)
            topic = self._catalogue.topic(name)
            if topic is not None and room == 0 and first + len(info.partitions) < topic.partitions:
                next_cursor = (name, first + len(info.partitions))
                break
        if request.topics:
            infos += [
                TopicInfo(name, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for name in sorted(refused)
            ]
        return DescribeTopicPartitionsReply(tuple(infos), next_cursor)

    def _names(self, request: DescribeTopicPartitionsRequest) -> set[str]:
        cursor = request.cursor
        asked = request.topics or tuple(topic.name for topic in self._catalogue.topics())
        names = {name for name in asked if cursor is None or name >= cursor[0]}
        if cursor is not None and request.topics and cursor[0] not in names:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"The topic list should contain the cursor topic: {cursor[0]}",
            )
        if cursor is not None and cursor[1] < 0:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"The cursor partition must be valid: {cursor[1]}"
            )
        return names

    def _page(self, context: RequestContext, name: str, first: int, end: int) -> TopicInfo:
        topic = self._catalogue.topic(name)
        if topic is None:
            try:
                check_topic_name(name)
            except ApiError as error:
                return TopicInfo(name, error=error.code)
            return TopicInfo(
                name,
                error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                internal=name in INTERNAL_TOPICS,
            )
        return TopicInfo(
            name=name,
            topic_id=topic.topic_id,
            internal=topic.internal,
            partitions=self._layout.partition_infos(topic, first, min(end, topic.partitions)),
            authorized_operations=topic_operations(context, name),
        )
