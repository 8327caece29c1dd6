"""The cluster as clients see it: its nodes and features, the leaders of partitions, and where new
partitions may be placed. Also the leaders that a reply names when a client has asked the wrong node
(KIP-951).
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

# A node without a cluster leads everything. In a cluster, a partition is led by the owner of its
# unit; as in Kafka the coordinator of a group leads the partition of `__consumer_offsets` that
# holds the group.
#
# The rules for new partitions are those of Kafka's controller. Tools may ask for a replication
# factor of 2 or 3 and are shown that number in the reply, but Metadata shows the one replica that
# there is. Replicas that a client names must be existing nodes.

NO_LEADER = -1

MAX_REPLICATION_FACTOR = 3

MAX_PARTITIONS_PER_REQUEST = 10000
"""Kafka's limit on the partitions that one CreateTopics or CreatePartitions request may create."""

_REPLICAS_MAX = 1000
"""How many replicas a request may name for one partition. There are never so many nodes."""

REPLICAS_OF_A_PARTITION = 1
"""The replication factor that Metadata shows. Replicas that are given for further partitions must
match it."""


class Layout:
    """The nodes of the cluster and the leaders of partitions. `nodes` is read at every call, so it
    may be filled after the sockets are bound; until then only `node_id` is known. `ownership`:
    which node leads what."""

    def __init__(self, node_id: int, nodes: Sequence[Node], ownership: Ownership) -> None:
        self.node_id = node_id
        self.nodes = nodes
        self._ownership = ownership

    def nodes_on(self, listener: str) -> tuple[Node, ...]:
        """The nodes with the addresses for clients of this listener."""
        return tuple([node.on(listener) for node in self.nodes])

    def partition_runs(self, topic: Topic, start: int, end: int) -> tuple[PartitionRun, ...]:
        """The leaders and replicas of the partitions from `start` to below `end`, in runs of equal
        ones."""
        if start >= end:
            return ()
        same = self._ownership.only_leader()
        if same is not None:
            return (_run(start, end, *same),)
        alive = frozenset(self.broker_ids)
        found = groupby(range(start, end), lambda number: self.current_leader(topic, number))
        return tuple(_run_of(leader, list(some), alive) for leader, some in found)

    def current_leader(self, topic: Topic, partition: int) -> tuple[int, int]:
        """(leader, leader epoch). The leader is -1 if there is none or this node knows of none. It
        may be a node that has just died."""
        unit = topic.unit(partition)
        leader = self._ownership.leader(unit)
        epoch = self._ownership.leader_epoch(unit, topic.first_epoch(partition))
        return NO_LEADER if leader is None or epoch == NO_EPOCH else leader, epoch

    def leader(self, topic: Topic, partition: int) -> int:
        """The leader if clients can reach it, else -1."""
        (run,) = self.partition_runs(topic, partition, partition + 1)
        return run.leader

    def serves(self, topic: Topic, partition: int) -> bool:
        """Whether this node serves the partition now."""
        return self._ownership.serves(topic.unit(partition))

    @property
    def broker_ids(self) -> list[int]:
        return [node.node_id for node in self.nodes] or [self.node_id]

    @property
    def controllers(self) -> list[int]:
        """The ids of all nodes, sorted: every node can do what a controller does."""
        return sorted(self.broker_ids)


def _run(first: int, end: int, leader: int, epoch: int) -> PartitionRun:
    here = (leader,)
    return PartitionRun(first, end, leader, epoch, here, here)


def _run_of(found: tuple[int, int], partitions: list[int], alive: Collection[int]) -> PartitionRun:
    first, end, (leader, epoch) = partitions[0], partitions[-1] + 1, found
    if leader in alive:
        return _run(first, end, leader, epoch)
    # As in Kafka the only replica stays with its node while that node is gone.
    last = () if leader == NO_LEADER else (leader,)
    error = ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionRun(first, end, NO_LEADER, epoch, last, last, error, offline=last)


def features_of(config: CoordinatorConfig) -> tuple[Feature, ...]:
    """The finalized features, as ApiVersions shows them."""
    return (
        Feature("group.version", config.group_version, 0, 1),
        Feature("share.version", config.share_version, 0, 2),
        Feature("transaction.version", config.transaction_version, 0, 2),
    )


# Where new partitions lie ---------------------------------------------------------------------


class NewPartitions:
    """Counts the partitions that one request creates."""

    def __init__(self) -> None:
        self._left = MAX_PARTITIONS_PER_REQUEST

    def take(self, partitions: int) -> None:
        """Count partitions. Raises ApiError POLICY_VIOLATION, for the whole request, if they are
        too many."""
        self._left -= max(0, partitions)
        if self._left < 0:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request."
            )


def new_partitions(topic: NewTopic, config: CoordinatorConfig) -> int:
    """How many partitions the request asks for; 0 or less if it is wrong."""
    if topic.assignments:
        return len(topic.assignments)
    return config.num_partitions if topic.partitions == -1 else topic.partitions


def place_new_topic(
    topic: NewTopic, config: CoordinatorConfig, brokers: Collection[int]
) -> tuple[int, int]:
    """The (partitions, replication factor) of a new topic. Raises ApiError INVALID_REQUEST,
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
    """Check the replicas that a client names for partitions that are added to a topic. Raises
    ApiError INVALID_REPLICA_ASSIGNMENT."""
    if len(assignments) != added:
        raise _refused(
            f"Attempted to add {added} additional partition(s), but only {len(assignments)} "
            "assignment(s) were specified."
        )
    # The replicas that were named for the earlier partitions are not stored, so the new ones are
    # only compared with each other. Equal ones are checked once: a request may name the same
    # replicas ten thousand times.
    for replicas in dict.fromkeys(assignments):
        check_replicas(replicas, brokers, len(assignments[0]))


def check_replicas(
    replicas: tuple[int, ...], brokers: Collection[int], factor: int | None = None
) -> None:
    """Check the replicas that a client names for one partition: at least one, each an existing
    broker and named once, and as many as `factor`. Raises ApiError INVALID_REPLICA_ASSIGNMENT."""
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


# Leaders in replies -------------------------------------------------------------------------

# Produce and Fetch replies name the leader of a partition for which the client has asked the wrong
# node, and the addresses of these leaders, so that clients go on there without asking for metadata.
# As in Kafka the leader is -1 while there is none. A leader that has just died has no address.


class CurrentLeaders:
    """The leaders that one reply names. `since`: the first version of its API with fields for them.
    `errors`: the errors with which they are named."""

    def __init__(
        self, layout: Layout, context: RequestContext, since: int, errors: Collection[ErrorCode]
    ) -> None:
        self._layout = layout
        self._listener = context.listener
        self._errors = errors if context.api_version >= since else ()
        self._named: set[int] = set()

    def of(self, topic: Topic | None, partition: int, error: ErrorCode) -> tuple[int, int] | None:
        """(leader, leader epoch) of a partition that failed with `error`; None if the reply does
        not name it. `topic` None: the topic was not found."""
        if topic is None or error not in self._errors:
            return None
        found = self._layout.current_leader(topic, partition)
        self._named.add(found[0])
        return found

    @property
    def endpoints(self) -> tuple[Node, ...]:
        """The leaders that were named, with the addresses for clients of the request's listener."""
        if not self._named:
            return ()
        nodes = self._layout.nodes_on(self._listener)
        return tuple([node for node in nodes if node.node_id in self._named])
