"""ElectLeaders (43): every partition is led by its only replica, so no election is needed."""

from __future__ import annotations

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.names import CLUSTER_NAME
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.replicas import (
    ElectLeadersReply,
    ElectLeadersRequest,
    PartitionOutcome,
    TopicOutcomes,
)

_ELECTION_TYPES = (0, 1)
"""Preferred, unclean."""


class ElectLeaders:
    def __init__(self, catalogue: TopicCatalogue) -> None:
        self._catalogue = catalogue

    async def handle(
        self, context: RequestContext, request: ElectLeadersRequest
    ) -> ElectLeadersReply:
        if not context.allows(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if request.election_type not in _ELECTION_TYPES:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
            )
        if request.topics is None:
            # Who asks for all is told only of those that an election did something for.
            topics = tuple(TopicOutcomes(topic.name, ()) for topic in self._catalogue.topics())
        else:
            topics = tuple(
                TopicOutcomes(name, tuple(self._outcome(name, number) for number in partitions))
                for name, partitions in request.topics
            )
        return ElectLeadersReply(topics=topics)

    def _outcome(self, name: str, partition: int) -> PartitionOutcome:
        if self._catalogue.topic(name) is None:
            code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
        elif not self._catalogue.has_partition(name, partition):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            message = f"No such partition as {name}-{partition}"
        else:
            code = ErrorCode.ELECTION_NOT_NEEDED
            message = "Leader election not needed for topic partition."
        return PartitionOutcome(partition, code, message)
