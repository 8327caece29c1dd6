"""Writes markers into the logs: the `MarkerTarget` of this broker, and WriteTxnMarkers (27). The
log decides by epochs whether a marker is stale; a marker that is already in the log is written
again. The markers for topic partitions go to the writer in one call; a caller with more than
`MARKERS_AT_ONCE` partitions calls several times. When the group coordinator is not ready, the
answer is NOT_LEADER_OR_FOLLOWER, which transaction coordinators retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.slices import Pace
from groupd.coordinator.core.types import Instant, Operation, RequestContext
from groupd.coordinator.producers.transactions import MARKERS_AT_ONCE, Marker, MarkerTarget
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.topics.appends import Appends, Staged
from groupd.coordinator.topics.checks import check_cluster_access
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.producers import (
    MarkedTopic,
    WritableMarker,
    WriteTxnMarkersReply,
    WriteTxnMarkersRequest,
    WrittenMarker,
)
from groupd.storage.log import LogError

PRODUCERS_AT_ONCE = 20
"""The markers of this many producers of a WriteTxnMarkers are written together, so that they share
transactions of the store."""

_NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class TransactionMarkers:
    """Writes markers into topic partitions, and hands those for `__consumer_offsets` to
    `offsets`."""

    def __init__(
        self,
        partitions: Partitions,
        appends: Appends,
        now: Callable[[], Instant],
        offsets: MarkerTarget,
    ) -> None:
        self._partitions = partitions
        self._appends = appends
        self._now = now
        self._offsets = offsets

    async def write_marker(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """See `MarkerTarget`. The error is UNKNOWN_TOPIC_OR_PARTITION for a partition that does not
        exist, and INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED for a stale marker.
        After any other error the coordinator may retry."""
        distinct = list(dict.fromkeys(partitions))
        offsets = [partition for partition in distinct if partition[0] == OFFSETS_TOPIC]
        data = [partition for partition in distinct if partition[0] != OFFSETS_TOPIC]
        into_data, into_offsets = await asyncio.gather(
            self._into_data(marker, data), self._into_offsets(marker, offsets)
        )
        return {**into_data, **into_offsets}

    async def _into_offsets(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        if not partitions:
            return {}
        codes = await self._offsets.write_marker(marker, partitions)
        return {
            partition: ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code
            for partition, code in codes.items()
        }

    async def _into_data(
        self, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        codes: dict[TopicPartition, ErrorCode] = {}
        logs: dict[TopicPartition, PartitionLog] = {}
        for partition in partitions:
            try:
                logs[partition] = await self._partitions.open(
                    self._partitions.resolve_name(*partition), partition[1]
                )
            except (ApiError, LogError) as error:
                codes[partition] = self._partitions.refusal(error).code
        # Nothing is awaited until all markers are staged.
        staged: dict[TopicPartition, Staged] = {}
        timestamp_ms = self._now().wall_ms
        for partition, log in logs.items():
            try:
                if log.closed:
                    raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                staged[partition] = (log, log.stage_marker(marker, timestamp_ms))
            except ApiError as error:
                codes[partition] = error.code
        if staged:
            failure = await asyncio.shield(self._appends.start(list(staged.values())))
            code = ErrorCode.NONE if failure is None else failure.code
            codes.update(dict.fromkeys(staged, code))
        return codes


async def write_txn_markers(
    target: MarkerTarget, work: LongWork, context: RequestContext, request: WriteTxnMarkersRequest
) -> WriteTxnMarkersReply:
    """Handles WriteTxnMarkers, for coordinators elsewhere and for operators who end a hanging
    transaction. Raises ApiError CLUSTER_AUTHORIZATION_FAILED and, as Kafka, UNKNOWN_SERVER_ERROR
    for a marker with a negative producer id or epoch."""
    check_cluster_access(context, Operation.CLUSTER_ACTION, instead=Operation.ALTER)
    pace = work.pace()
    for asked in request.markers:
        if pace.due():
            await pace.turn()
        if asked.producer_id < 0 or asked.producer_epoch < 0:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    # The reply has one entry for each producer, even if several markers are for the same one.
    by_producer: dict[int, list[WritableMarker]] = {}
    for asked in request.markers:
        if pace.due():
            await pace.turn()
        by_producer.setdefault(asked.producer_id, []).append(asked)
    written: list[WrittenMarker] = []
    producers = list(by_producer.values())
    for first in range(0, len(producers), PRODUCERS_AT_ONCE):
        some = producers[first : first + PRODUCERS_AT_ONCE]
        written += await asyncio.gather(*(_write_one(target, work, its) for its in some))
    return WriteTxnMarkersReply(tuple(written))


async def _write_one(
    target: MarkerTarget, work: LongWork, markers: Sequence[WritableMarker]
) -> WrittenMarker:
    """Write the markers of one producer, one after the other."""
    pace = work.pace()
    codes: dict[TopicPartition, ErrorCode] = {}
    for asked in markers:
        if pace.due():
            await pace.turn()
        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.committed,
            asked.coordinator_epoch,
            max(asked.transaction_version, 1),
        )
        some: dict[TopicPartition, None] = {}
        for topic in asked.topics:
            if pace.due():
                await pace.turn()
            for partition in topic.partitions:
                if len(some) == MARKERS_AT_ONCE:
                    await pace.turn()
                    codes.update(await target.write_marker(marker, list(some)))
                    some = {}
                some[topic.name, partition] = None
        codes.update(await target.write_marker(marker, list(some)))
    return WrittenMarker(markers[0].producer_id, await _by_topic(pace, codes))


async def _by_topic(pace: Pace, codes: dict[TopicPartition, ErrorCode]) -> Sequence[MarkedTopic]:
    topics: dict[str, list[tuple[int, ErrorCode]]] = {}
    for (name, partition), code in codes.items():
        if pace.due():
            await pace.turn()
        topics.setdefault(name, []).append((partition, code))
    return mapped(lambda topic: MarkedTopic(topic[0], tuple(topic[1])), list(topics.items()))
