"""Where replicas are and who leads, which clients cannot change: ElectLeaders (43),
AlterPartitionReassignments (45), ListPartitionReassignments (46), DescribeLogDirs (35) and
AlterReplicaLogDirs (34). A partition has one replica, on the node that leads it, and the cluster
itself chooses that node. The store is the only log directory. A request for the present state
succeeds; every other one is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from groupd.coordinator.core.types import DataHandler, Operation, RequestContext
from groupd.coordinator.topics.broker_keys import LOG_DIR
from groupd.coordinator.topics.checks import check_cluster_access
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.layout import (
    NO_LEADER,
    REPLICAS_OF_A_PARTITION,
    check_replicas,
)
from groupd.coordinator.topics.quorum import Answering, update_features
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.quorum import UpdateFeaturesRequest
from groupd.protocol.messages.replicas import (
    AlterPartitionReassignmentsReply,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsReply,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsReply,
    DescribeLogDirsRequest,
    ElectLeadersReply,
    ElectLeadersRequest,
    ListPartitionReassignmentsReply,
    ListPartitionReassignmentsRequest,
    LogDir,
    PartitionOutcome,
    TopicOutcomes,
)
from groupd.storage.log import LogError

_PREFERRED, _UNCLEAN = 0, 1


# Leaders ------------------------------------------------------------------------------------


def _elect_leaders(plane: DataPlane, request: ElectLeadersRequest) -> Answering:
    """Elects nobody. Either a partition has its only replica as leader and needs no election, or
    none can be held."""
    if request.election_type not in (_PREFERRED, _UNCLEAN):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    # A request for all partitions gets only those back for which an election changed something.
    asked = request.topics
    if asked is None:
        asked = tuple((topic.name, ()) for topic in plane.catalogue.topics())
    topics = []
    for name, partitions in asked:
        yield 1
        outcomes = []
        for number in partitions:
            yield 1
            outcomes.append(_election(plane, name, number, request.election_type))
        topics.append(TopicOutcomes(name, tuple(outcomes)))
    return ElectLeadersReply(topics=tuple(topics))


def _election(plane: DataPlane, name: str, partition: int, kind: int) -> PartitionOutcome:
    topic = plane.catalogue.topic(name)
    if topic is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"
    elif not 0 <= partition < topic.partitions:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        message = f"No such partition as {name}-{partition}"
    elif plane.layout.leader(topic, partition) == NO_LEADER:
        preferred = kind == _PREFERRED
        code = (
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            if preferred
            else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        )
        message = "The partition goes to another node by itself."
    else:
        code = ErrorCode.ELECTION_NOT_NEEDED
        message = "Leader election not needed for topic partition."
    return PartitionOutcome(partition, code, message)


# Reassignments ------------------------------------------------------------------------------


def _list_reassignments(plane: DataPlane, request: ListPartitionReassignmentsRequest) -> Answering:
    """No reassignment is ever under way: to assign a partition to its own node takes effect at
    once."""
    yield 1
    return ListPartitionReassignmentsReply()


def _reassign(plane: DataPlane, request: AlterPartitionReassignmentsRequest) -> Answering:
    """A partition can only be assigned to the node that leads it already."""
    may_change = request.allow_replication_factor_change

    def reassigned(name: str, number: int, replicas: tuple[int, ...] | None) -> PartitionOutcome:
        try:
            _check_reassignment(plane, name, number, replicas, may_change)
        except ApiError as error:
            return PartitionOutcome(number, error.code, error.message)
        return PartitionOutcome(number)

    topics = []
    for topic in request.topics:
        yield 1
        outcomes = []
        for number, replicas in topic.partitions:
            yield 1 + len(replicas or ())
            outcomes.append(reassigned(topic.name, number, replicas))
        topics.append(TopicOutcomes(topic.name, tuple(outcomes)))
    return AlterPartitionReassignmentsReply(
        allow_replication_factor_change=may_change, topics=tuple(topics)
    )


def _check_reassignment(
    plane: DataPlane,
    name: str,
    partition: int,
    replicas: tuple[int, ...] | None,
    may_change_count: bool,
) -> None:
    """Raises ApiError unless the partition is already on `replicas`. `replicas` None: the request
    cancels a reassignment."""
    topic = plane.catalogue.topic(name)
    if topic is None:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}."
        )
    if not 0 <= partition < topic.partitions:
        raise ApiError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{partition}."
        )
    if replicas is None:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_replicas(replicas, plane.layout.broker_ids)
    if not may_change_count and len(replicas) != REPLICAS_OF_A_PARTITION:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {REPLICAS_OF_A_PARTITION} to {len(replicas)}",
        )
    leader = plane.layout.leader(topic, partition)
    if replicas != (leader,):
        where = "has no leader now" if leader == NO_LEADER else f"stays on node {leader}"
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Partition {name}-{partition} {where}: partitions of this cluster do not move by "
            "hand.",
        )


# Log directories ----------------------------------------------------------------------------


async def describe_log_dirs(
    plane: DataPlane, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsReply:
    """Handles DescribeLogDirs. Sizes in bytes are those of the stored batches. As in Kafka, a
    partition that does not exist or is led by another node is left out."""
    check_cluster_access(context, Operation.DESCRIBE)
    try:
        sizes = await plane.log_sizes.ask(None)
    except LogError:
        failed = LogDir(LOG_DIR, error=ErrorCode.KAFKA_STORAGE_ERROR)
        return DescribeLogDirsReply(log_dirs=(failed,))

    pace = plane.work.pace()
    topics = []
    for topic, asked in _asked(plane, request):
        if pace.due():
            await pace.turn()
        found = []
        for number in asked:
            if pace.due():
                await pace.turn()
            if topic is not None and _is_here(plane, topic, number):
                found.append((number, sizes.get(topic.log_name(number), 0)))
        if topic is not None and found:
            topics.append((topic.name, tuple(found)))
    return DescribeLogDirsReply(log_dirs=(LogDir(LOG_DIR, tuple(topics)),))


def _asked(
    plane: DataPlane, request: DescribeLogDirsRequest
) -> Iterator[tuple[Topic | None, Iterable[int]]]:
    """The topics (None if one does not exist), each with the requested partitions."""
    if request.topics is None:
        for topic in plane.catalogue.topics():
            yield topic, range(topic.partitions)
        return
    for name, partitions in request.topics:
        yield plane.catalogue.topic(name), partitions


def _is_here(plane: DataPlane, topic: Topic, partition: int) -> bool:
    return 0 <= partition < topic.partitions and plane.layout.serves(topic, partition)


def _alter_log_dirs(plane: DataPlane, request: AlterReplicaLogDirsRequest) -> Answering:
    """There is no other directory to move a partition to."""

    def code(path: str, name: str, partition: int) -> ErrorCode:
        if path != LOG_DIR:
            return ErrorCode.LOG_DIR_NOT_FOUND
        topic = plane.catalogue.topic(name)
        if topic is None or not 0 <= partition < topic.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        here = plane.layout.serves(topic, partition)
        return ErrorCode.NONE if here else ErrorCode.REPLICA_NOT_AVAILABLE

    outcomes: dict[str, list[tuple[int, ErrorCode]]] = {}
    for path, topics in request.dirs:
        yield 1
        for name, partitions in topics:
            yield 1
            codes = outcomes.setdefault(name, [])
            for number in partitions:
                yield 1
                codes.append((number, code(path, name, number)))
    return AlterReplicaLogDirsReply(tuple(outcomes.items()))


# All of them --------------------------------------------------------------------------------

Answers = Callable[[DataPlane, Any], Answering]

_UNCHANGEABLE: Mapping[type, tuple[Operation, Answers]] = {
    ElectLeadersRequest: (Operation.ALTER, _elect_leaders),
    AlterPartitionReassignmentsRequest: (Operation.ALTER, _reassign),
    ListPartitionReassignmentsRequest: (Operation.DESCRIBE, _list_reassignments),
    AlterReplicaLogDirsRequest: (Operation.ALTER, _alter_log_dirs),
    UpdateFeaturesRequest: (Operation.ALTER, update_features),
}
"""Requests about what clients cannot change: the right on the cluster that the client needs, and
the function that answers."""


def unchangeable(plane: DataPlane) -> Mapping[type, DataHandler]:
    """The handlers of the requests in `_UNCHANGEABLE`."""
    return {asked: partial(_answer, plane, *row) for asked, row in _UNCHANGEABLE.items()}


async def _answer(
    plane: DataPlane, right: Operation, answers: Answers, context: RequestContext, request: Any
) -> Any:
    check_cluster_access(context, right)
    pace, answering = plane.work.pace(), answers(plane, request)
    while True:
        try:
            items = next(answering)
        except StopIteration as ended:
            return ended.value
        if pace.due(items):
            await pace.turn()
