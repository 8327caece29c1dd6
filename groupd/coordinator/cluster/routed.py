"""Transactions across nodes: questions to the coordinator of an id, and markers for partitions, go
to the node that owns them (KIP-98, KIP-890).

What this node owns is asked here; so a node that is alone makes no call. Nobody passes a call on: a
node answers NOT_COORDINATOR or NOT_LEADER_OR_FOLLOWER for what it does not own (any more).
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
"""Pause before a transaction whose end is under way is asked about again: Kafka's default of
`add.partitions.to.txn.retry.backoff.ms`."""

_UNKNOWN = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})

_SEEN_BY_PRODUCERS = {
    ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH,
    # The coordinator does not know of the topic yet: this node has it.
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.OPERATION_NOT_ATTEMPTED: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}
"""What a coordinator elsewhere may answer and a producer must not see."""


class RoutedVerifier:
    """The `TransactionVerifier` of a node of a cluster. `local`: that of this node. `shard_count`:
    of transactional ids."""

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
        """See `TransactionVerifier`. NETWORK_EXCEPTION: the coordinator did not answer.
        COORDINATOR_NOT_AVAILABLE: there is none now."""
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
                error = ErrorCode.INVALID_TXN_STATE  # as Kafka: not verified, and no use to retry
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
    """The `MarkerTarget` of the transaction coordinator of a node of a cluster. `local`: takes the
    markers of all partitions that this node leads. Only `catalogue` decides that a partition does
    not exist, once `catch_up()` has read what other nodes have changed: a partition that is new,
    and not known here yet, needs its marker."""

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
        """See `MarkerTarget`. NOT_LEADER_OR_FOLLOWER: the leader did not take it, or there is none;
        the next try looks for it anew."""
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
        """The topic of a partition that exists."""
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
