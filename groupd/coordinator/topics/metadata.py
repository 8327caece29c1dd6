"""Metadata (3), DescribeCluster (60) and DescribeTopicPartitions (75, KIP-966): how clients find
nodes and topics. Every partition has one replica, its leader. While it has none, or the leader's
node is dead, Metadata says LEADER_NOT_AVAILABLE. A node shows itself as the controller, because
every node can do what a controller does. A topic that a Metadata request creates is in the reply,
so the client need not ask again. For a topic that the principal may not describe, the reply has
only the name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from groupd.coordinator.core.slices import Pace, sorted_in_steps
from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    Operation,
    RequestContext,
    Resource,
)
from groupd.coordinator.runtime.coordinator_types import is_internal
from groupd.coordinator.security.quotas import Mutations
from groupd.coordinator.topics.checks import may_create
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.topic import (
    CLUSTER_METADATA_TOPIC,
    Topic,
    check_topic_name,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.cluster import (
    DescribeClusterReply,
    DescribeClusterRequest,
    DescribeTopicPartitionsReply,
    DescribeTopicPartitionsRequest,
    MetadataReply,
    MetadataRequest,
    TopicInfo,
)
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED
from groupd.protocol.messages.lazily import Lazily
from groupd.storage.log import LogError

_BROKERS, _CONTROLLERS = 1, 2


# Metadata and DescribeCluster ---------------------------------------------------------------


async def metadata(
    plane: DataPlane, context: RequestContext, request: MetadataRequest
) -> MetadataReply:
    """Handles Metadata. Raises ApiError INVALID_REQUEST for a topic with neither name nor id."""
    with_operations = request.include_topic_authorized_operations
    pace, mutations = plane.work.pace(), plane.mutations(context)
    infos: Sequence[TopicInfo]
    if request.topics is None:
        infos = await _all_topics(plane, context, pace, with_operations)
    else:
        infos = await _asked_topics(plane, context, request, pace, mutations)
    return MetadataReply(
        nodes=plane.layout.nodes_on(context.listener),
        cluster_id=plane.catalogue.cluster_id,
        controller_id=plane.config.node_id,
        topics=infos,
        cluster_authorized_operations=_cluster_operations(
            context, request.include_cluster_authorized_operations
        ),
        throttle_ms=mutations.throttle_ms,
    )


async def _all_topics(
    plane: DataPlane, context: RequestContext, pace: Pace, with_operations: bool
) -> Sequence[TopicInfo]:
    visible = []
    for topic in plane.catalogue.topics():
        if pace.due():
            await pace.turn()
        if context.sees(Operation.DESCRIBE, Resource.TOPIC, topic.name):
            visible.append(topic)

    def infos() -> Iterator[TopicInfo]:
        return (_info(plane, context, topic, with_operations) for topic in visible)

    return Lazily(len(visible), infos)


async def _asked_topics(
    plane: DataPlane,
    context: RequestContext,
    request: MetadataRequest,
    pace: Pace,
    mutations: Mutations,
) -> Sequence[TopicInfo]:
    """The topics that the request names, without repetitions."""
    infos: dict[tuple[str | None, TopicId], TopicInfo] = {}
    for name, topic_id in request.topics or ():
        if pace.due():
            await pace.turn()
        if (name, topic_id) in infos:
            continue
        found = await _asked(plane, context, request, name, topic_id, mutations)
        if isinstance(found, Topic):
            found = _info(plane, context, found, request.include_topic_authorized_operations)
        infos[name, topic_id] = found
    return tuple(infos.values())


async def describe_cluster(
    plane: DataPlane, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterReply:
    """Handles DescribeCluster. It lists brokers; there is no endpoint of controllers."""
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterReply(
            error=ErrorCode.MISMATCHED_ENDPOINT_TYPE
            if known
            else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="This endpoint serves brokers, endpoint type 1.",
            endpoint_type=request.endpoint_type,
        )
    return DescribeClusterReply(
        cluster_id=plane.catalogue.cluster_id,
        controller_id=plane.config.node_id,
        nodes=plane.layout.nodes_on(context.listener),
        cluster_authorized_operations=_cluster_operations(
            context, request.include_cluster_authorized_operations
        ),
    )


async def _asked(
    plane: DataPlane,
    context: RequestContext,
    request: MetadataRequest,
    name: str | None,
    topic_id: TopicId,
    mutations: Mutations,
) -> Topic | TopicInfo:
    """The topic, or the entry that says why it is not shown."""
    if topic_id != NO_TOPIC_ID:
        topic = plane.catalogue.topic_by_id(topic_id)
        if topic is None:
            return TopicInfo(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        if not _may_describe(context, topic.name):
            return TopicInfo(None, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return topic
    if name is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, "A topic has neither a name nor an id.")
    if not _may_describe(context, name):
        return TopicInfo(name, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic = plane.catalogue.topic(name)
    if topic is not None:
        return topic
    try:
        return await _auto_created(plane, context, request, name, mutations)
    except ApiError as error:
        # As in Kafka, a client that may not create the topic does not learn what else it may do
        # with it.
        with_operations = (
            request.include_topic_authorized_operations
            and error.code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED
        )
        return _missing(context, name, error.code, with_operations)


async def _auto_created(
    plane: DataPlane,
    context: RequestContext,
    request: MetadataRequest,
    name: str,
    mutations: Mutations,
) -> Topic:
    """Create the topic if that is wanted and allowed. Raises ApiError."""
    wanted = request.allow_auto_topic_creation and plane.config.auto_create_topics_enable
    if wanted and not may_create(context, name):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    check_topic_name(name)
    if not wanted or name == CLUSTER_METADATA_TOPIC:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    try:
        mutations.take(plane.config.num_partitions)
    except ApiError as error:
        # Every client retries after this error.
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) from error
    try:
        return await plane.catalogue.create(name, plane.config.num_partitions, {})
    except ApiError as error:
        topic = plane.catalogue.topic(name)
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS or topic is None:
            raise
        return topic
    except LogError as error:
        # Every client retries after this error, until the store is back.
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, str(error)) from error


def _info(
    plane: DataPlane,
    context: RequestContext,
    topic: Topic,
    with_operations: bool,
    first: int = 0,
    end: int | None = None,
) -> TopicInfo:
    """The topic with its partitions from `first` to below `end`."""
    end = topic.partitions if end is None else min(end, topic.partitions)
    return TopicInfo(
        name=topic.name,
        topic_id=topic.topic_id,
        internal=topic.internal,
        partitions=plane.layout.partition_runs(topic, first, end),
        authorized_operations=context.authorized_operations(Resource.TOPIC, topic.name)
        if with_operations
        else OPERATIONS_NOT_ASKED,
    )


def _missing(
    context: RequestContext, name: str, code: ErrorCode, with_operations: bool
) -> TopicInfo:
    """The entry of a topic that the client may describe but that does not exist."""
    return TopicInfo(
        name=name,
        error=code,
        internal=is_internal(name),
        authorized_operations=context.authorized_operations(Resource.TOPIC, name)
        if with_operations
        else OPERATIONS_NOT_ASKED,
    )


def _may_describe(context: RequestContext, name: str) -> bool:
    return context.allows(Operation.DESCRIBE, Resource.TOPIC, name)


def _cluster_operations(context: RequestContext, asked: bool) -> int:
    """The bit field of the operations that the principal may do on the cluster, if the request
    wants it."""
    if not asked:
        return OPERATIONS_NOT_ASKED
    if not context.sees(Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return 0
    return context.authorized_operations(Resource.CLUSTER, CLUSTER_NAME)


# DescribeTopicPartitions --------------------------------------------------------------------


async def describe_topic_partitions(
    plane: DataPlane, context: RequestContext, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsReply:
    """Handles DescribeTopicPartitions: topics sorted by name, page by page. The reply stops after
    the requested number of partitions (at most max.request.partition.size.limit), and `next_cursor`
    says where to continue. Raises ApiError INVALID_REQUEST for a cursor that fits no topic of the
    request."""
    pace = plane.work.pace()
    names, refused = await _names_from_cursor(plane, context, request, pace)
    most = plane.broker_configs.config.max_request_partition_size_limit
    room = max(1, min(most, request.response_partition_limit))
    infos: list[TopicInfo] = []
    next_cursor: tuple[str, int] | None = None
    for name in await pace.through(sorted_in_steps(names)):
        if pace.due():
            await pace.turn()
        first = request.cursor[1] if request.cursor and request.cursor[0] == name else 0
        if room == 0:
            next_cursor = (name, first)
            break
        topic = plane.catalogue.topic(name)
        if topic is None:
            infos.append(_unknown(context, name))
            continue
        info = _info(plane, context, topic, True, first, first + room)
        # As in Kafka a partition without a leader is not an error here.
        partition_runs = tuple([replace(run, error=ErrorCode.NONE) for run in info.partitions])
        infos.append(replace(info, partitions=partition_runs))
        room -= info.partition_count
        end = first + info.partition_count
        if room == 0 and end < topic.partitions:
            next_cursor = (name, end)
            break
    if request.topics:
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for name in await pace.through(sorted_in_steps(refused)):
            if pace.due():
                await pace.turn()
            infos.append(TopicInfo(name, error=denied))
    return DescribeTopicPartitionsReply(tuple(infos), next_cursor)


async def _names_from_cursor(
    plane: DataPlane, context: RequestContext, request: DescribeTopicPartitionsRequest, pace: Pace
) -> tuple[set[str], set[str]]:
    """The requested names from the cursor on: those of topics that the client may describe, and the
    others."""
    cursor = request.cursor
    if cursor is not None and request.topics and cursor[0] not in request.topics:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"The topic list should contain the cursor topic: {cursor[0]}",
        )
    if cursor is not None and cursor[1] < 0:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"The cursor partition must be valid: {cursor[1]}"
        )
    allowed: set[str] = set()
    refused: set[str] = set()
    may = context.allows if request.topics else context.sees
    for name in request.topics or (topic.name for topic in plane.catalogue.topics()):
        if pace.due():
            await pace.turn()
        if cursor is None or name >= cursor[0]:
            seen = may(Operation.DESCRIBE, Resource.TOPIC, name)
            (allowed if seen else refused).add(name)
    return allowed, refused


def _unknown(context: RequestContext, name: str) -> TopicInfo:
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        check_topic_name(name)
    except ApiError as error:
        code = error.code
    return _missing(context, name, code, True)
