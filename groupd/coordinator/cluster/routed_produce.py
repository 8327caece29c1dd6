"""Records that a node itself writes to a topic, and that another node may have to append: copies
for dead-letter queues (KIP-1191)."""

from __future__ import annotations

from groupd.client.errors import CallFailed
from groupd.coordinator.cluster.peers import Peers
from groupd.coordinator.share_partitions.dead_letters import SendRecords
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import ProduceReply, ProduceRequest


class RoutedProduce:
    """Sends records to the node that leads their partition. `local`: appends to the partitions of
    this node."""

    def __init__(self, local: SendRecords, layout: Layout, peers: Peers) -> None:
        self._local = local
        self._layout = layout
        self._peers = peers

    async def __call__(self, topic: Topic, partition: int, request: ProduceRequest) -> ProduceReply:
        """Raises ApiError NETWORK_EXCEPTION if the leader does not answer."""
        node_id, _ = self._layout.current_leader(topic, partition)
        if node_id in (self._peers.node_id, -1):
            return await self._local(topic, partition, request)
        try:
            reply: ProduceReply = await self._peers.call(node_id, request)
        except CallFailed as error:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, str(error)) from error
        return reply
