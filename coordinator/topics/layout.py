"""The nodes of the cluster and which of them leads a partition.

One process is one node that leads everything. With workers the shards are spread, and as in Kafka
the coordinator of a group leads the partition of `__consumer_offsets` that the group is kept in;
all other partitions are led by the first node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from groupd.coordinator.topics.catalogue import Topic
from groupd.coordinator.topics.names import COMPACTED_TOPIC, OFFSETS_TOPIC
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node, PartitionInfo

LEADER_EPOCH = 0


class Layout:
    """`nodes` is read at every question, so it may be filled after the sockets are bound; until
    then there is `node_id` only. `offsets_leader(partition)`: the node that serves a shard."""

    def __init__(
        self,
        node_id: int,
        nodes: Sequence[Node],
        offsets_leader: Callable[[int], int] | None = None,
    ) -> None:
        self.node_id = node_id
        self.nodes = nodes
        self._offsets_leader = offsets_leader or (lambda partition: node_id)

    def partition_infos(self, topic: Topic, start: int, end: int) -> tuple[PartitionInfo, ...]:
        """Partitions `start`..`end` - 1."""
        if topic.name in (OFFSETS_TOPIC, COMPACTED_TOPIC):
            leaders = map(self._offsets_leader, range(start, end))
            return tuple(_info(start + n, leader) for n, leader in enumerate(leaders))
        return tuple(_info(n, self.node_id) for n in range(start, end))

    @property
    def broker_ids(self) -> list[int]:
        return [node.node_id for node in self.nodes] or [self.node_id]

    def check_broker_name(self, name: str) -> None:
        """Raises ApiError INVALID_REQUEST unless it is the id of one of the nodes."""
        ids = [str(node_id) for node_id in self.broker_ids]
        if name not in ids:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id: expected {' or '.join(ids)} or the empty string, "
                f"but got {name}",
            )


def _info(partition: int, leader: int) -> PartitionInfo:
    here = (leader,)
    return PartitionInfo(partition, leader, LEADER_EPOCH, here, here)
