"""CreateTopics (19).

Rules are the Kafka controller's. There is one node: a replication factor of 1 to 3 is granted in
words (tools that ask for 3 go on working), and metadata shows the one replica that there is.
"""

from __future__ import annotations

from collections import Counter

from coordinator.config import CoordinatorConfig
from coordinator.core.types import Operation, RequestContext, Resource
from coordinator.topics.catalogue import TopicCatalogue
from coordinator.topics.names import CLUSTER_NAME
from coordinator.topics.topic_configs import TopicSettings, check_topic_config
from protocol.errors import ApiError, ErrorCode
from protocol.messages import NO_TOPIC_ID
from protocol.messages.topics import CreatedTopic, CreateTopicsReply, CreateTopicsRequest, NewTopic
from storage.log import LogError

MAX_REPLICATION_FACTOR = 3


class CreateTopics:
    """Answers one entry per topic name; a name given twice fails once with INVALID_REQUEST."""

    def __init__(self, catalogue: TopicCatalogue, config: CoordinatorConfig) -> None:
        self._catalogue = catalogue
        self._config = config

    async def handle(
        self, context: RequestContext, request: CreateTopicsRequest
    ) -> CreateTopicsReply:
        counts = Counter(topic.name for topic in request.topics)
        anywhere = context.allows(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME)
        created = [
            await self._one(context, topic, request.validate_only, anywhere)
            for topic in request.topics
            if counts[topic.name] == 1
        ]
        created.extend(
            CreatedTopic(
                name, error=ErrorCode.INVALID_REQUEST, error_message="Duplicate topic name."
            )
            for name in sorted(counts)
            if counts[name] > 1
        )
        return CreateTopicsReply(tuple(created))

    async def _one(
        self, context: RequestContext, topic: NewTopic, validate_only: bool, anywhere: bool
    ) -> CreatedTopic:
        try:
            if not anywhere and not context.allows(Operation.CREATE, Resource.TOPIC, topic.name):
                raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
            return await self._create(context, topic, validate_only)
        except ApiError as error:
            return CreatedTopic(topic.name, error=error.code, error_message=error.message)
        except LogError as error:
            return CreatedTopic(
                topic.name, error=ErrorCode.KAFKA_STORAGE_ERROR, error_message=str(error)
            )

    async def _create(
        self, context: RequestContext, topic: NewTopic, validate_only: bool
    ) -> CreatedTopic:
        self._catalogue.check_name(topic.name)
        partitions, replication_factor = placement(topic, self._config)
        self._catalogue.check_new(topic.name, partitions)
        overrides = new_configs(topic)
        topic_id = NO_TOPIC_ID
        if not validate_only:
            topic_id = (await self._catalogue.create(topic.name, partitions, overrides)).topic_id
        if not context.allows(Operation.DESCRIBE_CONFIGS, Resource.TOPIC, topic.name):
            return CreatedTopic(topic.name, topic_id)
        return CreatedTopic(
            name=topic.name,
            topic_id=topic_id,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=TopicSettings(self._config, overrides).describe(),
        )


def new_configs(topic: NewTopic) -> dict[str, str]:
    """The overrides of a new topic. Raises ApiError INVALID_CONFIG; a null value is one."""
    overrides: dict[str, str] = {}
    for name, value in topic.configs:
        if value is None:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {name}"
            )
        overrides[name] = check_topic_config(name, value)
    return overrides


def placement(topic: NewTopic, config: CoordinatorConfig) -> tuple[int, int]:
    """(partitions, replication factor) that a new topic gets. Raises ApiError INVALID_REQUEST,
    INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR or INVALID_PARTITIONS."""
    if topic.assignments:
        return _manual_placement(topic)
    factor = topic.replication_factor
    if factor == 0 or factor < -1:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if topic.partitions == 0 or topic.partitions < -1:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    if factor > MAX_REPLICATION_FACTOR:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {factor} time(s): at most "
            f"{MAX_REPLICATION_FACTOR} is accepted.",
        )
    return (
        config.num_partitions if topic.partitions == -1 else topic.partitions,
        config.default_replication_factor if factor == -1 else factor,
    )


def _manual_placement(topic: NewTopic) -> tuple[int, int]:
    if topic.replication_factor != -1 or topic.partitions != -1:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "With a manual partition assignment, replication factor and number of partitions "
            "must be -1.",
        )
    numbers = [partition for partition, _ in topic.assignments]
    if len(set(numbers)) != len(numbers):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for one partition.",
        )
    if sorted(numbers) != list(range(len(numbers))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    factor = len(topic.assignments[0][1])
    for _, replicas in topic.assignments:
        check_replicas(replicas, factor)
    return len(numbers), factor


def check_replicas(replicas: tuple[int, ...], factor: int | None = None) -> None:
    """A replica list by hand: not empty, no repetition, at most three, all of equal length.
    Raises ApiError INVALID_REPLICA_ASSIGNMENT."""
    if not replicas:
        reason = "includes an empty replica list"
    elif len(set(replicas)) != len(replicas):
        reason = f"includes a broker more than once: {list(replicas)}"
    elif min(replicas) < 0:
        reason = "includes an invalid broker id"
    elif len(replicas) > MAX_REPLICATION_FACTOR:
        reason = f"has more than {MAX_REPLICATION_FACTOR} replicas"
    elif factor is not None and len(replicas) != factor:
        reason = f"has a partition with {len(replicas)} replica(s) where others have {factor}"
    else:
        return
    raise ApiError(
        ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {reason}."
    )
