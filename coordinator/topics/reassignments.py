"""AlterPartitionReassignments (45) and ListPartitionReassignments (46).

A partition stays on the node that leads it. To assign it there is done at once; nothing is ever
under way.
"""

from __future__ import annotations

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.names import CLUSTER_NAME
from groupd.coordinator.topics.placement import REPLICAS_OF_A_PARTITION, check_replicas
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.replicas import (
    AlterPartitionReassignmentsReply,
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsReply,
    ListPartitionReassignmentsRequest,
    PartitionOutcome,
    TopicOutcomes,
)


class Reassignments:
    def __init__(self, catalogue: TopicCatalogue, layout: Layout) -> None:
        self._catalogue = catalogue
        self._layout = layout

    async def list(
        self, context: RequestContext, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsReply:
        if not context.allows(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return ListPartitionReassignmentsReply()

    async def alter(
        self, context: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsReply:
        if not context.allows(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        may_change = request.allow_replication_factor_change
        return AlterPartitionReassignmentsReply(
            allow_replication_factor_change=may_change,
            topics=tuple(
                TopicOutcomes(
                    topic.name,
                    tuple(
                        self._outcome(topic.name, number, replicas, may_change)
                        for number, replicas in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    def _outcome(
        self, name: str, partition: int, replicas: tuple[int, ...] | None, may_change: bool
    ) -> PartitionOutcome:
        try:
            self._reassign(name, partition, replicas, may_change)
        except ApiError as error:
            return PartitionOutcome(partition, error.code, error.message)
        return PartitionOutcome(partition)

    def _reassign(
        self, name: str, partition: int, replicas: tuple[int, ...] | None, may_change: bool
    ) -> None:
        topic = self._catalogue.topic(name)
        if topic is None:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
            )
        if not 0 <= partition < topic.partitions:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Unable to find partition {name}:{partition}.",
            )
        if replicas is None:
            raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        check_replicas(replicas, self._layout.broker_ids)
        if not may_change and len(replicas) != REPLICAS_OF_A_PARTITION:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"The replication factor is changed from {REPLICAS_OF_A_PARTITION} to "
                f"{len(replicas)}",
            )
        (info,) = self._layout.partition_infos(topic, partition, partition + 1)
        if replicas != (info.leader,):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Partition {name}-{partition} stays on node {info.leader}: partitions of this "
                "cluster do not move.",
            )
