"""Markers into the logs: the `MarkerTarget` of this broker, and WriteTxnMarkers (27) onto it.

Rules: the log decides by epochs whether a marker is stale; one that was written already is
written again. All topic partitions of a marker go to the writer in one call. A refusal of the
group coordinator's side becomes NOT_LEADER_OR_FOLLOWER, which transaction coordinators retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from groupd.coordinator.core.types import Instant, Operation, RequestContext, Resource
from groupd.coordinator.producers.transactions import Marker, MarkerTarget
from groupd.coordinator.topics.appends import Appends, Staged
from groupd.coordinator.topics.names import CLUSTER_NAME, OFFSETS_TOPIC
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.producers import (
    MarkedTopic,
    WritableMarker,
    WriteTxnMarkersReply,
    WriteTxnMarkersRequest,
    WrittenMarker,
)
from groupd.storage.log import LogError

Place = tuple[str, int]

_NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class NoOffsetsMarkers:
    """The marker target of a data plane without group coordinator."""

    async def write_marker(
        self, marker: Marker, partitions: Sequence[Place]
    ) -> dict[Place, ErrorCode]:
        return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR)


class TransactionMarkers:
    """`offsets` takes the markers of `__consumer_offsets`."""

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
        self, marker: Marker, partitions: Sequence[Place]
    ) -> dict[Place, ErrorCode]:
        """See `MarkerTarget`. UNKNOWN_TOPIC_OR_PARTITION for what does not exist,
        INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED for a marker that comes too
        late; what else fails may be tried again."""
        places = list(dict.fromkeys(partitions))
        offsets = [place for place in places if place[0] == OFFSETS_TOPIC]
        data = [place for place in places if place[0] != OFFSETS_TOPIC]
        into_data, into_offsets = await asyncio.gather(
            self._into_data(marker, data), self._into_offsets(marker, offsets)
        )
        return {**into_data, **into_offsets}

    async def _into_offsets(
        self, marker: Marker, places: Sequence[Place]
    ) -> dict[Place, ErrorCode]:
        if not places:
            return {}
        codes = await self._offsets.write_marker(marker, places)
        return {
            place: ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code
            for place, code in codes.items()
        }

    async def _into_data(self, marker: Marker, places: Sequence[Place]) -> dict[Place, ErrorCode]:
        codes: dict[Place, ErrorCode] = {}
        logs: dict[Place, PartitionLog] = {}
        for place in places:
            try:
                logs[place] = await self._partitions.open(
                    self._partitions.resolve_name(*place), place[1]
                )
            except ApiError as error:
                codes[place] = error.code
            except LogError:
                codes[place] = ErrorCode.KAFKA_STORAGE_ERROR
        # From here on nothing is awaited until all is staged.
        staged: dict[Place, Staged] = {}
        timestamp_ms = self._now().wall_ms
        for place, log in logs.items():
            try:
                if log.closed:
                    raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
                staged[place] = (log, log.stage_marker(marker, timestamp_ms))
            except ApiError as error:
                codes[place] = error.code
        if staged:
            failure = await asyncio.shield(self._appends.start(list(staged.values())))
            code = ErrorCode.NONE if failure is None else failure.code
            codes.update(dict.fromkeys(staged, code))
        return codes


class WriteTxnMarkers:
    """The API for coordinators elsewhere, and for operators who end a hanging transaction."""

    def __init__(self, target: MarkerTarget) -> None:
        self._target = target

    async def handle(
        self, context: RequestContext, request: WriteTxnMarkersRequest
    ) -> WriteTxnMarkersReply:
        """Raises ApiError CLUSTER_AUTHORIZATION_FAILED, and UNKNOWN_SERVER_ERROR for a marker of no
        producer, as Kafka."""
        if not any(
            context.allows(operation, Resource.CLUSTER, CLUSTER_NAME)
            for operation in (Operation.ALTER, Operation.CLUSTER_ACTION)
        ):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if any(asked.producer_id < 0 or asked.producer_epoch < 0 for asked in request.markers):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
        # One entry per producer, also when several markers are for the same.
        merged: dict[int, dict[Place, ErrorCode]] = {}
        for asked in request.markers:
            codes = await self._write(asked)
            merged.setdefault(asked.producer_id, {}).update(codes)
        return WriteTxnMarkersReply(
            tuple(
                WrittenMarker(producer_id, _by_topic(codes))
                for producer_id, codes in merged.items()
            )
        )

    async def _write(self, asked: WritableMarker) -> dict[Place, ErrorCode]:
        marker = Marker(
            asked.producer_id,
            asked.producer_epoch,
            asked.committed,
            asked.coordinator_epoch,
            max(asked.transaction_version, 1),
        )
        places = [
            (topic.name, partition) for topic in asked.topics for partition in topic.partitions
        ]
        return await self._target.write_marker(marker, places)


def _by_topic(codes: dict[Place, ErrorCode]) -> tuple[MarkedTopic, ...]:
    topics: dict[str, list[tuple[int, ErrorCode]]] = {}
    for (name, partition), code in codes.items():
        topics.setdefault(name, []).append((partition, code))
    return tuple(MarkedTopic(name, tuple(partitions)) for name, partitions in topics.items())
