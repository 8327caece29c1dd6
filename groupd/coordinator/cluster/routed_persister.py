"""The state of share-partitions across nodes: the node that owns the shard of a share-partition is
asked about it (KIP-932)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from groupd.client.errors import CallFailed
from groupd.coordinator.cluster.peer_batches import PeerBatches
from groupd.coordinator.cluster.peers import Peers
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.persister import (
    AskedPartition,
    Persister,
    ShareStateRequest,
    asked_partitions,
    entries_of,
    is_empty,
    refused,
    reply_of,
    with_partitions,
)
from groupd.coordinator.runtime.coordinator_types import SHARE_COORDINATOR, share_partition_text
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.ownership import Ownership
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_state import ShareStateReply
from groupd.protocol.records.share_state_records import SharePartitionKey
from groupd.storage.units import Unit


class RoutedPersister:
    """The `Persister` of a node of a cluster, which makes one attempt. `local`: answers for the
    share-partitions of this node. A partition whose node does not answer, or that has none, is
    answered with COORDINATOR_NOT_AVAILABLE."""

    def __init__(
        self,
        local: Persister,
        ownership: Ownership,
        peers: Peers,
        config: CoordinatorConfig,
        work: LongWork,
    ) -> None:
        self._local = local
        self._work = work
        self._ownership = ownership
        self._peers = peers
        self._shard_count = SHARE_COORDINATOR.shards(config)
        self._batches: PeerBatches[ShareStateRequest, list[Any]] = PeerBatches(
            self._send, key=id, weight=lambda one: len(asked_partitions(one))
        )

    async def ask(self, request: ShareStateRequest) -> ShareStateReply:
        if is_empty(request):
            return ShareStateReply()
        partitions, pace = asked_partitions(request), self._work.pace()
        places: dict[int | None, list[int]] = {}
        for at, partition in enumerate(partitions):
            if pace.due():
                await pace.turn()
            places.setdefault(self._node_of(request.group_id, partition), []).append(at)
        parts = {
            node: with_partitions(request, [partitions[at] for at in some])
            for node, some in places.items()
        }
        answered = await asyncio.gather(*[self._ask(*one) for one in parts.items()])
        entries: list[Any] = [None] * len(partitions)
        for some, found in zip(places.values(), answered, strict=True):
            for at, entry in zip(some, found, strict=True):
                entries[at] = entry
        return reply_of(request, entries)

    async def close(self) -> None:
        await self._batches.close()

    def _node_of(self, group_id: str, partition: AskedPartition) -> int | None:
        topic_id, asked = partition
        number = asked if isinstance(asked, int) else asked.partition
        text = share_partition_text(SharePartitionKey(group_id, topic_id, number))
        unit = Unit(SHARE_COORDINATOR.kind, partition_for(text, self._shard_count))
        return self._ownership.leader(unit)

    async def _ask(self, node_id: int | None, request: ShareStateRequest) -> list[Any]:
        if node_id == self._peers.node_id:
            return entries_of(await self._local.ask(request))
        try:
            if node_id is not None:
                return await self._batches.ask(node_id, request)
        except CallFailed:
            pass
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return [refused(type(request), asked, code) for _, asked in asked_partitions(request)]

    async def _send(self, node_id: int, requests: list[ShareStateRequest]) -> list[list[Any]]:
        """Send requests, those of one type and group as one."""
        merged: dict[tuple[type, str], list[ShareStateRequest]] = {}
        for request in requests:
            merged.setdefault((type(request), request.group_id), []).append(request)
        calls = [self._send_one(node_id, some) for some in merged.values()]
        found: dict[int, list[Any]] = {}
        for some, entries in zip(merged.values(), await asyncio.gather(*calls), strict=True):
            for request in some:
                count = len(asked_partitions(request))
                found[id(request)], entries = entries[:count], entries[count:]
        return [found[id(request)] for request in requests]

    async def _send_one(self, node_id: int, requests: Sequence[ShareStateRequest]) -> list[Any]:
        if not self._ownership.may_answer():
            # Another node may have the group by now. What this one asks for, for example after it
            # stood still, could undo what that node has done.
            raise CallFailed("the lease of this node is in doubt")
        partitions = [one for request in requests for one in asked_partitions(request)]
        reply = await self._peers.call(node_id, with_partitions(requests[0], partitions))
        entries = entries_of(reply)
        if len(entries) != len(partitions):
            raise CallFailed(f"node {node_id} has not answered all partitions")
        if entries[0].error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            self._peers.denied(node_id)
        return entries
