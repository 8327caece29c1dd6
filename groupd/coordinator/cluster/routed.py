"""Transactions across nodes: questions to the coordinator of a transactional id, and markers for
partitions, are sent to the node that owns them (KIP-98, KIP-890).

If this node is the owner it asks itself, so a node that is alone makes no call. No node forwards a
call: for what it does not own (any more) it answers NOT_COORDINATOR or NOT_LEADER_OR_FOLLOWER.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from groupd.client.errors import CallFailed
from groupd.coordinator.cluster.peer_batches import PeerBatches
from groupd.coordinator.cluster.peers import Peers
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.producers.transactions import (
    Marker,
    MarkerTarget,
    TransactionalWrite,
    TransactionVerifier,
)
from groupd.coordinator.runtime.clock import pause
from groupd.coordinator.runtime.ownership import Ownership
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.topic import Topic
from groupd.coordinator.transactions.coordinator import VERIFY_WAIT_MS
from groupd.coordinator.transactions.metadata import by_topic
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.producers import (
    MarkedTopic,
    MarkerTopic,
    WritableMarker,
    WriteTxnMarkersReply,
    WriteTxnMarkersRequest,
)
from groupd.protocol.messages.transactions import (
    AddedTopic,
    AddPartitionsToTxnReply,
    AddPartitionsToTxnRequest,
    AddPartitionsTransaction,
    TxnTopic,
)
from groupd.storage.log import LogError
from groupd.storage.units import TRANSACTIONS, Unit

Codes = dict[TopicPartition, ErrorCode]

CONCURRENT_PAUSE_MS = 20
"""The pause before asking again about a transaction whose end is under way: Kafka's default of
`add.partitions.to.txn.retry.backoff.ms`."""

_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

_SEEN_BY_PRODUCERS = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    # The coordinator does not know the topic yet, but this node does.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""Codes of a coordinator on another node -> the codes that producers get instead."""


class RoutedVerifier:
    """The `TransactionVerifier` of a node of a cluster. `local`: the verifier for the ids of this
    node. `shard_count`: of transactional ids."""

    def __init__(
        self, local: TransactionVerifier, ownership: Ownership, peers: Peers, shard_count: int
    ) -> None:
        self._local = local
        self._ownership = ownership
        self._peers = peers
        self._shard_count = shard_count
        self._batches: PeerBatches[AddPartitionsTransaction, Codes] = PeerBatches(
            self._send,
            key=lambda one: one.transactional_id,
            weight=lambda one: sum([len(topic.partitions) for topic in one.topics]),
        )

    async def verify(self, write: TransactionalWrite, *, add: bool) -> Codes:
        """Verify as `TransactionVerifier` says. Further codes: NETWORK_EXCEPTION: the coordinator
        did not answer; COORDINATOR_NOT_AVAILABLE: there is none now."""
        unit = Unit(TRANSACTIONS, partition_for(write.transactional_id, self._shard_count))
        clock = self._peers.clock
        until_ms = clock.monotonic_ms() + VERIFY_WAIT_MS
        while True:
            leader = self._ownership.leader(unit)
            if leader == self._peers.node_id:
                return await self._local.verify(write, add=add)
            if leader is None:
                return dict.fromkeys(write.partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            codes = await self._ask(leader, write, add)
            if (
                ErrorCode.CONCURRENT_TRANSACTIONS not in codes.values()
                or clock.monotonic_ms() >= until_ms
            ):
                return codes
            await pause(clock, CONCURRENT_PAUSE_MS)

    async def close(self) -> None:
        await self._batches.close()

    async def _ask(self, node_id: int, write: TransactionalWrite, add: bool) -> Codes:
        asked = AddPartitionsTransaction(
            write.transactional_id,
            write.producer_id,
            write.producer_epoch,
            tuple([TxnTopic(*topic) for topic in by_topic(set(write.partitions))]),
            verify_only=not add,
        )
        try:
            codes = await self._batches.ask(node_id, asked)
        except CallFailed:
            codes = {}
        return {
            partition: codes.get(partition, ErrorCode.NETWORK_EXCEPTION)
            for partition in write.partitions
        }

    async def _send(
        self, node_id: int, transactions: list[AddPartitionsTransaction]
    ) -> list[Codes]:
        reply: AddPartitionsToTxnReply = await self._peers.call(
            node_id, AddPartitionsToTxnRequest(tuple(transactions))
        )
        if reply.error:
            error = reply.error
            if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                self._peers.denied(node_id)
                # As in Kafka: not verified, and trying again is of no use.
                error = ErrorCode.INVALID_TXN_STATE
            return [
                {(topic.name, part): error for topic in one.topics for part in topic.partitions}
                for one in transactions
            ]
        found = {one.transactional_id: _codes(one.topics) for one in reply.transactions}
        return [
            {
                partition: _SEEN_BY_PRODUCERS.get(code, code)
                for partition, code in found.get(one.transactional_id, {}).items()
            }
            for one in transactions
        ]


class RoutedMarkers:
    """The `MarkerTarget` of the transaction coordinator on a node of a cluster. `local`: takes the
    markers for all partitions that this node leads. A partition does not exist only if `catalogue`
    lacks it after `catch_up()` has read the changes of other nodes: a new partition that is not
    known here yet needs its marker."""

    def __init__(
        self,
        local: MarkerTarget,
        ownership: Ownership,
        peers: Peers,
        catalogue: TopicCatalogue,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._local = local
        self._ownership = ownership
        self._peers = peers
        self._catalogue = catalogue
        self._catch_up = catch_up
        self._batches: PeerBatches[WritableMarker, Codes] = PeerBatches(
            self._send,
            key=lambda one: one.producer_id,
            weight=lambda one: sum([len(topic.partitions) for topic in one.topics]),
        )

    async def write_marker(self, marker: Marker, partitions: Sequence[TopicPartition]) -> Codes:
        """Write markers as `MarkerTarget` says. NOT_LEADER_OR_FOLLOWER: the leader did not take the
        marker, or there is no leader; the next attempt looks for the leader again."""
        codes: Codes = {}
        here: list[TopicPartition] = []
        elsewhere: dict[int, list[TopicPartition]] = {}
        if any(self._topic(partition) is None for partition in partitions):
            try:
                await self._catch_up()
            except LogError:
                return dict.fromkeys(partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        for partition in partitions:
            topic = self._topic(partition)
            if topic is None:
                codes[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            leader = self._ownership.leader(topic.unit(partition[1]))
            if leader == self._peers.node_id:
                here.append(partition)
            elif leader is None:
                codes[partition] = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                elsewhere.setdefault(leader, []).append(partition)
        calls = [self._write_there(leader, marker, some) for leader, some in elsewhere.items()]
        if here:
            calls.append(self._write_here(marker, here))
        for answered in await asyncio.gather(*calls):
            codes |= answered
        return codes

    async def close(self) -> None:
        await self._batches.close()

    def _topic(self, partition: TopicPartition) -> Topic | None:
        """Returns the topic of a partition; None if the partition does not exist."""
        topic = self._catalogue.topic(partition[0])
        return topic if topic is not None and 0 <= partition[1] < topic.partitions else None

    async def _write_here(self, marker: Marker, partitions: Sequence[TopicPartition]) -> Codes:
        return await self._local.write_marker(marker, partitions)

    async def _write_there(
        self, node_id: int, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> Codes:
        asked = WritableMarker(
            marker.producer_id,
            marker.producer_epoch,
            marker.committed,
            tuple([MarkerTopic(*topic) for topic in by_topic(set(partitions))]),
            marker.coordinator_epoch,
            marker.transaction_version,
        )
        try:
            codes = await self._batches.ask(node_id, asked)
        except CallFailed:
            codes = {}
        return {
            partition: self._judged(partition, codes.get(partition)) for partition in partitions
        }

    def _judged(self, partition: TopicPartition, code: ErrorCode | None) -> ErrorCode:
        if code is None:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code not in _UNKNOWN:
            return code
        topic = self._catalogue.topic(partition[0])
        gone = topic is None or not 0 <= partition[1] < topic.partitions
        return code if gone else ErrorCode.NOT_LEADER_OR_FOLLOWER

    async def _send(self, node_id: int, markers: list[WritableMarker]) -> list[Codes]:
        reply: WriteTxnMarkersReply = await self._peers.call(
            node_id, WriteTxnMarkersRequest(tuple(markers))
        )
        found = {one.producer_id: _codes(one.topics) for one in reply.markers}
        if any(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes.values() for codes in found.values()
        ):
            self._peers.denied(node_id)
        return [found.get(one.producer_id, {}) for one in markers]


def _codes(topics: Iterable[AddedTopic | MarkedTopic]) -> Codes:
    return {(topic.name, part): code for topic in topics for part, code in topic.partitions}
