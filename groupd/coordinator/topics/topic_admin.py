"""CreateTopics (19), DeleteTopics (20), DeleteRecords (21) and CreatePartitions (37). Rules and
texts are those of Kafka's controller. Each topic of a request is answered separately; a topic that
is named twice gets one INVALID_REQUEST. `coordinator.topics.layout` decides where partitions may be
placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from groupd.coordinator.core.slices import Pace, repeated_in_steps
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.security.quotas import Mutations
from groupd.coordinator.topics.checks import (
    check_topic_access,
    denied,
    id_not_hosted,
    may_create,
    not_hosted,
    refusal,
)
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.layout import (
    NewPartitions,
    check_added_replicas,
    new_partitions,
    place_new_topic,
)
from groupd.coordinator.topics.partition_queries import answer_each
from groupd.coordinator.topics.topic import Topic, log_name
from groupd.coordinator.topics.topic_configs import TOPIC_CONFIGS, TopicSettings, new_topic_configs
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.data import (
    DeletedRecords,
    DeletedRecordsTopic,
    DeleteRecordsReply,
    DeleteRecordsRequest,
)
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.topics import (
    CreatedTopic,
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    CreateTopicsReply,
    CreateTopicsRequest,
    DeletedTopic,
    DeleteTopicsReply,
    DeleteTopicsRequest,
    GrownTopic,
    NewTopic,
)
from groupd.storage.log import LogError

_TopicKey = tuple[str | None, TopicId]
"""A topic as DeleteTopics names it: by name or, from v6 on, by id with the name None."""

STRICT_CREATE_TOPICS, STRICT_DELETE_TOPICS, STRICT_CREATE_PARTITIONS = 6, 5, 3
"""From these versions on, a request that is beyond a quota is refused. Older clients do not know
that error: their requests are served, and the clients wait afterwards (KIP-599)."""

_NAMED_TWICE = "Duplicate topic name."
_TOPIC_NAMED_TWICE = "Duplicate topic name or id."
_NOT_ALLOWED = "Authorization failed."
_TO_HIGH_WATERMARK = -1


# CreateTopics -------------------------------------------------------------------------------


async def create_topics(
    plane: DataPlane, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsReply:
    """Handles CreateTopics. Raises ApiError POLICY_VIOLATION for a request with too many
    partitions."""
    pace, mutations = plane.work.pace(), plane.mutations(context, STRICT_CREATE_TOPICS)
    twice = await pace.through(repeated_in_steps(topic.name for topic in request.topics))
    topics = [topic for topic in request.topics if topic.name not in twice]
    refused = await _denied(pace, topics, lambda name: may_create(context, name))
    room = NewPartitions()
    for topic in topics:
        if pace.due():
            await pace.turn()
        if topic.name not in refused:
            room.take(new_partitions(topic, plane.broker_configs.config))
    created = []
    for topic in topics:
        if pace.due(1 + len(topic.assignments) + len(topic.configs)):
            await pace.turn()
        if topic.name in refused:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            created.append(CreatedTopic(topic.name, error=code, error_message=_NOT_ALLOWED))
        else:
            only = request.validate_only
            created.append(await _create_one(plane, context, topic, only, mutations))
    created += [
        CreatedTopic(name, error=ErrorCode.INVALID_REQUEST, error_message=_NAMED_TWICE)
        for name in twice
    ]
    return CreateTopicsReply(tuple(created), throttle_ms=mutations.throttle_ms)


async def _denied(
    pace: Pace, topics: Iterable[NewTopic | GrownTopic], may: Callable[[str], bool]
) -> set[str]:
    """The names of the topics for which `may(name)` is false."""
    denied: set[str] = set()
    for topic in topics:
        if pace.due():
            await pace.turn()
        if not may(topic.name):
            denied.add(topic.name)
    return denied


async def _create_one(
    plane: DataPlane,
    context: RequestContext,
    topic: NewTopic,
    validate_only: bool,
    mutations: Mutations,
) -> CreatedTopic:
    try:
        return await _create(plane, context, topic, validate_only, mutations)
    except (ApiError, LogError) as failed:
        error = refusal(failed)
        return CreatedTopic(topic.name, error=error.code, error_message=error.message)


async def _create(
    plane: DataPlane,
    context: RequestContext,
    topic: NewTopic,
    validate_only: bool,
    mutations: Mutations,
) -> CreatedTopic:
    config = plane.broker_configs.config
    plane.catalogue.check_name(topic.name)
    overrides = new_topic_configs(topic.configs)
    partitions, replication_factor = place_new_topic(topic, config, plane.layout.broker_ids)
    plane.catalogue.check_new(topic.name, partitions)
    mutations.take(partitions)
    topic_id = NO_TOPIC_ID
    if not validate_only:
        topic_id = (await plane.catalogue.create(topic.name, partitions, overrides)).topic_id
    if not context.sees(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name):
        hidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return CreatedTopic(topic.name, topic_id, config_error=hidden)
    return CreatedTopic(
        name=topic.name,
        topic_id=topic_id,
        partitions=partitions,
        replication_factor=replication_factor,
        configs=Lazily(
            len(TOPIC_CONFIGS.keys),
            lambda: iter(
                TopicSettings(config, overrides).describe(plane.broker_configs.topic_synonyms)
            ),
        ),
    )


# CreatePartitions ---------------------------------------------------------------------------


async def create_partitions(
    plane: DataPlane, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsReply:
    """Handles CreatePartitions. A topic may grow, never shrink. Raises ApiError POLICY_VIOLATION
    for a request with too many partitions."""
    pace, mutations = plane.work.pace(), plane.mutations(context, STRICT_CREATE_PARTITIONS)
    twice = await pace.through(repeated_in_steps(topic.name for topic in request.topics))
    topics = [topic for topic in request.topics if topic.name not in twice]
    refused = await _denied(
        pace, topics, lambda name: context.allows(Operation.ALTER, Resource.TOPIC, name)
    )
    room = NewPartitions()
    for topic in topics:
        if pace.due():
            await pace.turn()
        known = plane.catalogue.topic(topic.name)
        if known is not None and topic.name not in refused:
            room.take(topic.count - known.partitions)
    results = []
    for topic in topics:
        if pace.due(1 + len(topic.assignments or ())):
            await pace.turn()
        if topic.name in refused:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            results.append(CreatePartitionsResult(topic.name, code))
        else:
            results.append(await _grow_one(plane, topic, request.validate_only, mutations))
    results += [
        CreatePartitionsResult(name, ErrorCode.INVALID_REQUEST, _NAMED_TWICE) for name in twice
    ]
    return CreatePartitionsReply(tuple(results), throttle_ms=mutations.throttle_ms)


async def _grow_one(
    plane: DataPlane, grown: GrownTopic, validate_only: bool, mutations: Mutations
) -> CreatePartitionsResult:
    try:
        topic = plane.catalogue.topic(grown.name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        plane.catalogue.check_growth(topic, grown.count)
        added = grown.count - topic.partitions
        if grown.assignments is not None:
            check_added_replicas(grown.assignments, added, plane.layout.broker_ids)
        mutations.take(added)
        if not validate_only:
            await plane.catalogue.grow(topic.topic_id, grown.count)
    except (ApiError, LogError) as failed:
        error = refusal(failed)
        return CreatePartitionsResult(grown.name, error.code, error.message)
    return CreatePartitionsResult(grown.name)


# DeleteTopics -------------------------------------------------------------------------------


async def delete_topics(
    plane: DataPlane, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsReply:
    """Handles DeleteTopics. First the topics are removed from the catalogues of all nodes, because
    a node that still knew a topic might make its logs again. Then the logs are deleted. If that
    fails, the topic is deleted nevertheless: names of logs contain the topic id, so nothing can
    read what is left."""
    pace, mutations = plane.work.pace(), plane.mutations(context, STRICT_DELETE_TOPICS)
    twice = await pace.through(repeated_in_steps(request.topics))
    any_topic = context.sees(Operation.DELETE, Resource.CLUSTER, CLUSTER_NAME)
    found: dict[_TopicKey, Topic | DeletedTopic] = {}
    for key in request.topics:
        if pace.due():
            await pace.turn()
        if key not in found:
            found[key] = _for_deletion(plane, context, key, key in twice, any_topic)
    # A client learns that a name and an id mean the same topic only if it may delete the topic.
    again = await pace.through(
        repeated_in_steps(topic.topic_id for topic in found.values() if isinstance(topic, Topic))
    )
    deleted: list[Topic | DeletedTopic] = []
    forgotten = False
    for key, topic in found.items():
        if pace.due():
            await pace.turn()
        if isinstance(topic, DeletedTopic):
            deleted.append(topic)
        elif (
            topic.topic_id in again
            or (topic.name, NO_TOPIC_ID) in twice
            or (None, topic.topic_id) in twice
        ):
            deleted.append(DeletedTopic(*key, ErrorCode.INVALID_REQUEST, _TOPIC_NAMED_TWICE))
        else:
            outcome = await _delete_one(plane, key, topic, mutations)
            deleted.append(outcome)
            forgotten = forgotten or isinstance(outcome, Topic)
    if forgotten:
        await plane.changes.spread(plane.changes.made)
    results = []
    for one in deleted:
        if pace.due():
            await pace.turn()
        results.append(await _delete_logs(plane, pace, one) if isinstance(one, Topic) else one)
    return DeleteTopicsReply(tuple(results), throttle_ms=mutations.throttle_ms)


async def _delete_one(
    plane: DataPlane, key: _TopicKey, topic: Topic, mutations: Mutations
) -> Topic | DeletedTopic:
    """Delete a topic from the catalogue. Returns the topic, or the entry that says why it is not
    deleted."""
    try:
        mutations.take(topic.partitions)
        topic = await plane.catalogue.delete(topic.topic_id)
    except (ApiError, LogError) as failed:
        error = refusal(failed)
        return DeletedTopic(topic.name, key[1], error.code, error.message)
    return topic


async def _delete_logs(plane: DataPlane, pace: Pace, topic: Topic) -> DeletedTopic:
    logs = []
    for number in range(topic.partitions):
        if pace.due():
            await pace.turn()
        logs.append(log_name(topic.topic_id, number))
    try:
        await plane.store.delete(logs)
    except LogError as failed:
        message = f"deleted; its logs remain: {failed}"
        return DeletedTopic(topic.name, topic.topic_id, error_message=message)
    return DeletedTopic(topic.name, topic.topic_id)


def _for_deletion(
    plane: DataPlane, context: RequestContext, key: _TopicKey, twice: bool, any_topic: bool
) -> Topic | DeletedTopic:
    """The topic, or the entry that says why it is not deleted. `any_topic`: the client may delete
    all topics."""
    name, topic_id = key
    try:
        if name is None and topic_id == NO_TOPIC_ID:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
        if name is not None and topic_id != NO_TOPIC_ID:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Topic name and topic id can not both be given."
            )
        if twice:
            raise ApiError(ErrorCode.INVALID_REQUEST, _TOPIC_NAMED_TWICE)
        if name is not None:
            if not any_topic:
                check_topic_access(context, Operation.DESCRIBE, name)
            topic = plane.catalogue.topic(name)
            if topic is None:
                raise not_hosted()
        else:
            topic = plane.catalogue.topic_by_id(topic_id)
            if topic is None:
                raise id_not_hosted()
        if not any_topic and not context.allows(Operation.DELETE, Resource.TOPIC, topic.name):
            # A client that may describe the topic may know its name.
            if name is None and context.sees(Operation.DESCRIBE, Resource.TOPIC, topic.name):
                name = topic.name
            raise denied(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    except ApiError as error:
        return DeletedTopic(name, topic_id, error.code, error.message)
    return topic


# DeleteRecords ------------------------------------------------------------------------------


async def delete_records(
    plane: DataPlane, context: RequestContext, request: DeleteRecordsRequest
) -> DeleteRecordsReply:
    """Handles DeleteRecords, which moves the start offset of partitions up."""

    async def delete(name: str, asked: tuple[int, int]) -> DeletedRecords:
        partition, offset = asked
        check_topic_access(context, Operation.DELETE, name)
        topic = plane.partitions.resolve_name(name, partition)
        if topic.internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        if not TopicSettings(plane.broker_configs.config, topic.configs).has_policy("delete"):
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        log = await plane.partitions.open(topic, partition)
        if offset == _TO_HIGH_WATERMARK:
            offset = log.high_watermark
        if not 0 <= offset <= log.high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset > log.start_offset:
            log = await plane.partitions.delete_before(topic, partition, offset)
        return DeletedRecords(partition, log.start_offset)

    def refused(asked: tuple[int, int], error: ApiError) -> DeletedRecords:
        return DeletedRecords(asked[0], error=error.code)

    return DeleteRecordsReply(
        await answer_each(
            plane.partitions,
            plane.work.pace(),
            request.topics,
            delete,
            refused,
            DeletedRecordsTopic,
        )
    )
