"""DescribeQuorum (55): this node as the one controller of its cluster.

There is no metadata log; the number of the last change of the topics stands for its end.
"""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.core.types import Instant, Operation, RequestContext, Resource
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.names import CLUSTER_METADATA_TOPIC, CLUSTER_NAME
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.quorum import (
    DescribeQuorumReply,
    DescribeQuorumRequest,
    QuorumPartition,
    QuorumReplica,
)

DIRECTORY_ID = bytes.fromhex("0c9a5f0ec0f543d6a7b1636f66667303")
_LEADER_EPOCH = 1


class DescribeQuorum:
    def __init__(
        self, catalogue: TopicCatalogue, layout: Layout, now: Callable[[], Instant]
    ) -> None:
        self._catalogue = catalogue
        self._layout = layout
        self._now = now

    async def handle(
        self, context: RequestContext, request: DescribeQuorumRequest
    ) -> DescribeQuorumReply:
        if not context.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if request.topics != ((CLUSTER_METADATA_TOPIC, (0,)),):
            unknown = tuple(
                (name, tuple(_unknown(number) for number in partitions))
                for name, partitions in request.topics
            )
            return DescribeQuorumReply(topics=unknown)
        leader = self._layout.node_id
        return DescribeQuorumReply(
            topics=((CLUSTER_METADATA_TOPIC, (self._partition(leader),)),),
            nodes=tuple(node for node in self._layout.nodes if node.node_id == leader),
        )

    def _partition(self, leader: int) -> QuorumPartition:
        end, now_ms = self._catalogue.image.version, self._now().wall_ms
        voter = QuorumReplica(leader, DIRECTORY_ID, end, now_ms, now_ms)
        return QuorumPartition(
            partition=0,
            leader_id=leader,
            leader_epoch=_LEADER_EPOCH,
            high_watermark=end,
            voters=(voter,),
        )


def _unknown(partition: int) -> QuorumPartition:
    return QuorumPartition(
        partition,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "This server does not host this topic-partition.",
    )
