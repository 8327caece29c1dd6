"""The cluster: its nodes and features, which node leads a partition, where new partitions may lie.
And who leads the partitions for which a client has asked the wrong node (KIP-951).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.ownership import Ownership
from groupd.coordinator.topics.stored_batches import NO_EPOCH
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Feature, Node, PartitionRun
from groupd.protocol.messages.topics import NewTopic

# A node that is alone leads everything. Otherwise partitions are led by the owners of their units;
# as in Kafka the coordinator of a group leads the partition of `__consumer_offsets` that it keeps
# the group in.
#
# Rules for new partitions are those of Kafka's controller. Tools that ask for a replication factor
# of 2 or 3 get it in words; Metadata shows the one replica that there is. Replicas that a client
# names must be nodes that exist.

NO_LEADER = -1

MAX_REPLICATION_FACTOR = 3

MAX_PARTITIONS_PER_REQUEST = 10000
"""Kafka's limit on the partitions that one CreateTopics or CreatePartitions may make."""

_REPLICAS_MAX = 1000
"""Most replicas that a request may name for one partition. There are never so many nodes."""

REPLICAS_OF_A_PARTITION = 1
"""What Metadata shows, and so what replicas of further partitions are compared with."""


class Layout:
    """`nodes` is read at every question, so it may be filled after the sockets are bound; until
    then there is `node_id` only. `ownership`: says who leads what."""

    def __init__(self, node_id: int, nodes: Sequence[Node], ownership: Ownership) -> None:
        self.node_id = node_id
        self.nodes = nodes
        self._ownership = ownership

    def nodes_on(self, listener: str) -> tuple[Node, ...]:
        """The nodes, with the addresses that clients of that listener see."""
        return tuple([node.on(listener) for node in self.nodes])

    def runs(self, topic: Topic, start: int, end: int) -> tuple[PartitionRun, ...]:
        """The nodes of the partitions from `start` to below `end`."""
        if start >= end:
            return ()
        same = self._ownership.only_leader()
        if same is not None:
            return (_run(start, end, *same),)
        alive = frozenset(self.broker_ids)
        found = groupby(range(start, end), lambda number: self.current_leader(topic, number))
        return tuple(_run_of(leader, list(some), alive) for leader, some in found)

    def current_leader(self, topic: Topic, partition: int) -> tuple[int, int]:
        """(leader, leader epoch); the leader is -1 while there is none, or none is known here. It
        may be a node that has died a moment ago."""
        unit = topic.unit(partition)
        leader = self._ownership.leader(unit)
        epoch = self._ownership.epoch(unit, topic.first_epoch(partition))
        return NO_LEADER if leader is None or epoch == NO_EPOCH else leader, epoch

    def leader(self, topic: Topic, partition: int) -> int:
        """The leader, if it is a node that clients can reach; else -1."""
        (run,) = self.runs(topic, partition, partition + 1)
        return run.leader

    def serves(self, topic: Topic, partition: int) -> bool:
        """Whether this node answers for the partition now."""
        return self._ownership.serves(topic.unit(partition))

    @property
    def broker_ids(self) -> list[int]:
        return [node.node_id for node in self.nodes] or [self.node_id]

    @property
    def controllers(self) -> list[int]:
        """The nodes that can do what a controller does, in order: all."""
        return sorted(self.broker_ids)


def _run(first: int, end: int, leader: int, epoch: int) -> PartitionRun:
    here = (leader,)
    return PartitionRun(first, end, leader, epoch, here, here)


def _run_of(found: tuple[int, int], partitions: list[int], alive: Collection[int]) -> PartitionRun:
    first, end, (leader, epoch) = partitions[0], partitions[-1] + 1, found
    if leader in alive:
        return _run(first, end, leader, epoch)
    # As in Kafka the one replica stays where it is while its node is gone.
    last = () if leader == NO_LEADER else (leader,)
    error = ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionRun(first, end, NO_LEADER, epoch, last, last, error, offline=last)


def features_of(config: CoordinatorConfig) -> tuple[Feature, ...]:
    """The finalized features, as ApiVersions shows them."""
    return (
        Feature("group.version", config.group_version, 0, 1),
        Feature("transaction.version", config.transaction_version, 0, 2),
    )


# Where new partitions lie ---------------------------------------------------------------------


class NewPartitions:
    """Counts the partitions that one request makes."""

    def __init__(self) -> None:
        self._left = MAX_PARTITIONS_PER_REQUEST

    def take(self, partitions: int) -> None:
        """Count partitions. Raises ApiError POLICY_VIOLATION, for the whole request, if there are
        too many."""
        self._left -= max(0, partitions)
        if self._left < 0:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )


def new_partitions(topic: NewTopic, config: CoordinatorConfig) -> int:
    """How many a request asks for; not above 0 where it is wrong."""
    if topic.assignments:
        return len(topic.assignments)
    return config.num_partitions if topic.partitions == -1 else topic.partitions


def place_new_topic(
    topic: NewTopic, config: CoordinatorConfig, brokers: Collection[int]
) -> tuple[int, int]:
    """(partitions, replication factor) that a new topic gets. Raises ApiError INVALID_REQUEST,
    INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR or INVALID_PARTITIONS."""
    if topic.assignments:
        return _by_hand(topic, brokers)
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


def _by_hand(topic: NewTopic, brokers: Collection[int]) -> tuple[int, int]:
    for given, name in (
        (topic.replication_factor, "replication factor"),
        (topic.partitions, "numPartitions"),
    ):
        if given != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"A manual partition assignment was specified, but {name} was not set to -1.",
            )
    factor: int | None = None
    numbers: set[int] = set()
    checked: set[tuple[int, ...]] = set()
    for partition, replicas in topic.assignments:
        if partition in numbers:
            raise _refused(f"Found multiple manual partition assignments for partition {partition}")
        if len(replicas) != factor or replicas not in checked:
            check_replicas(replicas, brokers, factor)
        checked.add(replicas)
        numbers.add(partition)
        factor = len(replicas)
    if numbers != set(range(len(numbers))):
        raise _refused("partitions should be a consecutive 0-based integer sequence")
    return len(numbers), factor or 0


def check_added_replicas(
    assignments: Sequence[tuple[int, ...]], added: int, brokers: Collection[int]
) -> None:
    """The replicas, named by hand, of partitions that are added to a topic. Raises ApiError
    INVALID_REPLICA_ASSIGNMENT."""
    if len(assignments) != added:
        raise _refused(
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    # How many replicas were named for the partitions before is not kept. Each once: a request may
    # name the same replicas ten thousand times.
    for replicas in dict.fromkeys(assignments):
        check_replicas(replicas, brokers, len(assignments[0]))


def check_replicas(
    replicas: tuple[int, ...], brokers: Collection[int], factor: int | None = None
) -> None:
    """Replicas of one partition by hand: some, each an existing broker and named once, and as
    many as `factor`. Raises ApiError INVALID_REPLICA_ASSIGNMENT."""
    if not replicas:
        raise _refused("The manual partition assignment includes an empty replica list.")
    if len(replicas) > _REPLICAS_MAX:
        raise _refused(f"The manual partition assignment includes {len(replicas)} replicas.")
    previous: int | None = None
    for broker in sorted(replicas):
        if broker not in brokers:
            raise _refused(
                f"The manual partition assignment includes broker {broker}, but no such broker is "
                "registered."
            )
        if broker == previous:
            raise _refused(
                f"The manual partition assignment includes the broker {broker} more than once."
            )
        previous = broker
    if factor is not None and len(replicas) != factor:
        raise _refused(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            "replica(s), but this is not consistent with previous partitions, which have "
            f"{factor} replica(s)."
        )


def _refused(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


# Produce and Fetch replies name the leader of such a partition and give the addresses of these
# leaders, so that clients go on there without asking for metadata. As in Kafka the leader is -1
# while there is none, and one that has died a moment ago has no address.


class CurrentLeaders:
    """The leaders that one reply names. `since`: the version of its API that has room for them.
    `errors`: with which errors they are told."""

    def __init__(
        self, layout: Layout, context: RequestContext, since: int, errors: Collection[ErrorCode]
    ) -> None:
        self._layout = layout
        self._listener = context.listener
        self._errors = errors if context.api_version >= since else ()
        self._named: set[int] = set()

    def of(self, topic: Topic | None, partition: int, error: ErrorCode) -> tuple[int, int] | None:
        """(leader, leader epoch) of a partition that failed; None if the reply does not say it.
        `topic` None: it was not found."""
        if topic is None or error not in self._errors:
            return None
        found = self._layout.current_leader(topic, partition)
        self._named.add(found[0])
        return found

    @property
    def endpoints(self) -> tuple[Node, ...]:
        """The nodes that were named, as clients of the request's listener reach them."""
        if not self._named:
            return ()
        nodes = self._layout.nodes_on(self._listener)
        return tuple([node for node in nodes if node.node_id in self._named])
