"""The acknowledgements of a ShareFetch or ShareAcknowledge (docs/spec/share-group.md#4.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from groupd.coordinator.core.slices import Pace
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.share_partitions.acknowledgements import check_batches
from groupd.coordinator.share_partitions.counts import ShareCounts
from groupd.coordinator.share_partitions.group_settings import ShareGroupSettings
from groupd.coordinator.share_partitions.leaders import ShareLeaders
from groupd.coordinator.share_partitions.share_partition import Durable
from groupd.coordinator.share_partitions.share_sessions import ShareSessionKey
from groupd.coordinator.topics.checks import ReadRights
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_fetch import AcknowledgementBatch

ACKNOWLEDGEMENTS_MAX = 250_000
"""The most batches and types of acknowledgements in one request. A partition beyond them is
refused."""

MORE_BATCHES = 1000
"""A partition has at most so many batches of acknowledgements more than offsets in flight. All of
them are checked and applied in one turn of the loop."""

ShareKey = tuple[TopicId, int]
"""(topic id, partition)"""

ShareResults = dict[ShareKey, ApiError | None]
"""By partition: None if its acknowledgements are durable."""


class AcknowledgementsUnderWay:
    """Acknowledgements that were applied, and wait until they are durable."""

    def __init__(self) -> None:
        self.results: ShareResults = {}
        self.pending: dict[ShareKey, tuple[Durable, Sequence[AcknowledgementBatch]]] = {}

    async def finish(self, counts: ShareCounts, pace: Pace) -> ShareResults:
        """Wait until all are durable or undone. A second call returns the same."""
        pending, self.pending = self.pending, {}
        for key, (durable, batches) in pending.items():
            self.results[key] = error = await durable
            if pace.due(1 + len(batches)):
                await pace.turn()
            if error is None:
                _count_by_type(counts.acknowledged, batches)
        return self.results


class Acknowledging:
    """Applies acknowledgements."""

    def __init__(self, leaders: ShareLeaders, plane: DataPlane, clock: Clock) -> None:
        self._leaders = leaders
        self._plane = plane
        self._clock = clock

    async def begin(
        self,
        rights: ReadRights,
        session: ShareSessionKey,
        named: Mapping[ShareKey, Sequence[AcknowledgementBatch]],
        settings: ShareGroupSettings,
        pace: Pace,
        *,
        is_renew_ack: bool,
    ) -> AcknowledgementsUnderWay:
        """Apply what a request acknowledges of the partitions that it names. One without
        acknowledgements has a result only if others have some."""
        group_id, member_id = session
        under_way = AcknowledgementsUnderWay()
        renew_until_ms = None
        if is_renew_ack and settings.may_renew:
            renew_until_ms = self._clock.monotonic_ms() + settings.lock_duration_ms
        empty: list[ShareKey] = []
        applied, left = False, ACKNOWLEDGEMENTS_MAX
        for key, batches in named.items():
            if pace.due(1 + len(batches)):
                await pace.turn()
            share, most = self._leaders.get(group_id, key), MORE_BATCHES
            if len(batches) > most and share is not None:
                most += share.in_flight
            left -= len(batches) + sum(map(len, map(attrgetter("types"), batches[:most])))
            too_many = left < 0 or len(batches) > most
            try:
                self._check(rights, key, batches, too_many, is_renew_ack=is_renew_ack)
                if not batches:
                    empty.append(key)
                    continue
                applied = True
                if share is None:
                    raise ApiError(
                        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        "No member has read records of this share-partition here.",
                    )
                durable = share.acknowledge(
                    member_id, batches, settings, renew_until_ms=renew_until_ms
                )
                under_way.results[key] = None
                under_way.pending[key] = durable, batches
            except ApiError as error:
                under_way.results[key] = error
        if applied:
            under_way.results.update(dict.fromkeys(empty))
        return under_way

    def _check(
        self,
        rights: ReadRights,
        key: ShareKey,
        batches: Sequence[AcknowledgementBatch],
        too_many: bool,
        *,
        is_renew_ack: bool,
    ) -> None:
        """Raises ApiError UNKNOWN_TOPIC_ID, INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED,
        UNKNOWN_TOPIC_OR_PARTITION, in this order."""
        topic_id, partition = key
        if self._plane.catalogue.topic_by_id(topic_id) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if too_many:
            raise ApiError(ErrorCode.INVALID_REQUEST, "too many acknowledgements")
        check_batches(batches, rights.context.api_version, is_renew_ack)
        self._plane.partitions.resolve("", topic_id, partition, rights.may_read, by_id=True)


def _count_by_type(counts: Counter[int], batches: Iterable[AcknowledgementBatch]) -> None:
    """Count how many records were acknowledged with each type."""
    for batch in batches:
        if len(batch.types) == 1:
            counts[batch.types[0]] += batch.last_offset - batch.first_offset + 1
        else:
            counts.update(batch.types)
