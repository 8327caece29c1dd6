"""The reading of one ShareFetch: it looks at all partitions of its session, again and again, and
acquires records as soon as there are enough (docs/spec/share-group.md#4.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from groupd.coordinator.core.slices import Pace
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.security.quotas import Limit
from groupd.coordinator.share_partitions.acquisition import Acquisition
from groupd.coordinator.share_partitions.group_settings import ShareGroupSettings
from groupd.coordinator.share_partitions.leaders import ShareLeaders
from groupd.coordinator.share_partitions.reading import ReadBatches
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.coordinator.share_partitions.share_sessions import ShareTarget
from groupd.coordinator.topics.checks import ReadRights, not_hosted
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.fetch_reading import reading_error
from groupd.coordinator.topics.layout import CurrentLeaders
from groupd.coordinator.topics.long_polls import WatchedPosition
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_fetch import (
    NO_LEADER_GIVEN,
    ShareFetchedPartition,
    ShareFetchRequest,
)
from groupd.storage.log import LogError

LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})
"""Errors for which a reply names the partition's leader."""


class ShareAttempt:
    """One look at all partitions: an `Attempt`. `answers`: of the partitions that were read or have
    failed. `readable`: the share-partitions that are being read. `has_enough`: of one of them all
    was read that the member may acquire. `throttle_ms`: how long the client has to wait because of
    its quota; then nothing was acquired. `counted`: how many bytes its quota has counted."""

    __slots__ = (
        "answers",
        "complete",
        "counted",
        "has_enough",
        "readable",
        "seen",
        "size",
        "throttle_ms",
    )

    def __init__(self) -> None:
        self.size = self.counted = self.throttle_ms = 0
        self.complete = self.has_enough = False
        self.answers: dict[ShareTarget, ShareFetchedPartition] = {}
        self.readable: list[tuple[ShareTarget, SharePartition]] = []
        self.seen: dict[SharePartition, int] = {}
        """The positions of the share-partitions when they were looked at."""

    @property
    def watched(self) -> Sequence[WatchedPosition]:
        return list(self.seen.items())


class _ReadShare(Struct, frozen=True):
    """The record batches that were read for a share-partition, from `offset` on."""

    target: ShareTarget
    share: SharePartition
    offset: int
    read: ReadBatches


class AskedShareFetch(Struct, frozen=True):
    """A ShareFetch that reads. `group_id`, `member_id`: its session. `targets`: what it reads, in
    order. `max_bytes`: as the limits of the node and the client's quota `limit` allow. `until_ms`:
    the end of its wait. `is_current()`: whether its session still waits for this request."""

    rights: ReadRights
    request: ShareFetchRequest
    group_id: str
    member_id: str
    targets: Sequence[ShareTarget]
    settings: ShareGroupSettings
    limit: Limit | None
    max_bytes: int
    until_ms: int
    is_current: Callable[[], bool]


class ShareReader:
    """Reads for one ShareFetch. `clock`: of the locks. A share-partition that could not be loaded,
    and one that was refused at the first look, stay so for this request; as in Kafka they do not
    keep it from waiting for the others."""

    def __init__(
        self,
        plane: DataPlane,
        leaders: ShareLeaders,
        clock: Clock,
        elapsed: Callable[[], Instant],
        asked: AskedShareFetch,
        pace: Pace,
    ) -> None:
        self._plane = plane
        self._leaders = leaders
        self._clock = clock
        self._elapsed = elapsed
        self._asked = asked
        self._pace = pace
        self._failed: dict[ShareTarget, ShareFetchedPartition] = {}
        self._shares: dict[ShareTarget, SharePartition] = {}
        self._first = True
        self.leaders = CurrentLeaders(plane.layout, asked.rights.context, 1, LEADER_ERRORS)
        self.load_failed = False
        """Whether a share-partition could not be loaded."""

    async def look(self, room: int) -> ShareAttempt:
        """Look at all partitions, and acquire records if there are enough or the time is over.
        `room`: how many bytes may be read."""
        attempt = ShareAttempt()
        shares, taken = [], list[SharePartition]()
        for target in self._asked.targets:
            if self._pace.due():
                await self._pace.turn()
            share = await self._find(target, attempt)
            if share is not None:
                shares.append((target, share))
        self._first = False
        try:
            for target, share in shares:
                if self._pace.due():
                    await self._pace.turn()
                attempt.seen[share] = share.position
                if share.begin_reading(self._asked.settings.max_record_locks):
                    attempt.readable.append((target, share))
                    taken.append(share)
            found = await self._read(attempt, room)
            await self._acquire_if_enough(attempt, found)
            while taken:
                if self._pace.due():
                    await self._pace.turn()
                # It is no news for this request that it has stopped reading.
                share = taken.pop()
                attempt.seen[share] += share.end_reading()
        finally:
            for share in taken:  # the client is gone
                share.end_reading()
        return attempt

    # Which partitions can be read ---------------------------------------------------------

    async def _find(self, target: ShareTarget, attempt: ShareAttempt) -> SharePartition | None:
        """The share-partition; None if it cannot be read."""
        failed = self._failed.get(target)
        if failed is not None:
            attempt.answers[target] = failed
            return None
        share, topic = self._shares.get(target), None
        if share is not None and not share.closed:
            return share
        try:
            topic = self._plane.partitions.resolve(
                "", *target.key, self._asked.rights.may_read, by_id=True
            )
            if share is not None and share.error is not None:
                self.load_failed = True
                self._fail(target, topic, share.error, attempt)
                return None
            share = self._leaders.led(self._asked.group_id, target.key)
            if share is None:
                if topic.internal:
                    raise not_hosted()
                share = await self._leaders.open(self._asked.group_id, topic, target.partition)
            self._shares[target] = share
        except (ApiError, LogError) as error:
            self._fail(target, topic, error, attempt)
            attempt.complete = attempt.complete or not self._first
            return None
        return share

    def _fail(
        self,
        target: ShareTarget,
        topic: Topic | None,
        error: ApiError | LogError,
        attempt: ShareAttempt,
    ) -> None:
        code = reading_error(self._plane.partitions, error)
        leader = self.leaders.of(topic, target.partition, code) or NO_LEADER_GIVEN
        answer = ShareFetchedPartition(target.partition, code, current_leader=leader)
        attempt.answers[target] = self._failed[target] = answer

    # Reading and acquiring ----------------------------------------------------------------

    async def _read(self, attempt: ShareAttempt, room: int) -> list[_ReadShare]:
        """Read the partitions that were taken, until there is enough for this request."""
        found: list[_ReadShare] = []
        asked, left = self._asked, self._asked.request.max_records
        for target, share in attempt.readable:
            if left <= 0:
                break
            if self._pace.due():  # a partition without news is read without any wait
                await self._pace.turn()
            assert share.records is not None
            offset, last_offset = share.records.to_read(left, asked.settings.max_record_locks)
            try:
                read = await self._leaders.kept.read(
                    share,
                    offset,
                    last_offset,
                    min(room, asked.max_bytes) // len(attempt.readable),
                    asked.settings.isolation_level,
                    self._pace,
                    expected_bytes=int((last_offset - offset + 1) * share.bytes_per_record),
                    whole_first=attempt.size == 0,
                )
            except ApiError:
                # OFFSET_OUT_OF_RANGE: records were deleted. As in Kafka that is no error for
                # members, and the next request goes on behind them. An offset behind the end is not
                # there yet: a group may be told to begin anywhere.
                start_offset = share.partition.start_offset
                if offset < start_offset and not share.closed:
                    share.log_start_moved(start_offset)
                    attempt.complete = True
                continue
            except LogError as error:
                self._fail(target, None, error, attempt)
                attempt.complete = True
                continue
            size = read.starts[-1] - read.starts[0]
            attempt.size += size
            if read.batches:
                records = read.batches[-1][1] - read.batches[0][0] + 1
                left -= records
                share.bytes_per_record = size / records
                attempt.has_enough |= read.batches[-1][1] >= last_offset
            found.append(_ReadShare(target, share, offset, read))
        return found

    async def _acquire_if_enough(self, attempt: ShareAttempt, found: Sequence[_ReadShare]) -> None:
        """Acquire records if there are enough, a partition has failed, or the time is over. Enough
        are those that have the bytes that were asked for, or that the member may acquire at most.
        An attempt that acquires nothing goes on until the time is over."""
        asked = self._asked
        size, attempt.size = attempt.size, 0
        wanted = min(asked.request.min_bytes, asked.max_bytes)
        if self._elapsed().monotonic_ms >= asked.until_ms:
            attempt.complete = True
        if not asked.is_current():
            attempt.complete = True
            return
        has_enough = attempt.has_enough or size >= wanted
        if not attempt.complete and not (has_enough and attempt.readable):
            return
        if asked.limit is not None:
            attempt.throttle_ms = self._plane.quotas.fetched(asked.limit, size)
            if attempt.throttle_ms:
                attempt.complete = True
                return
            attempt.counted = size
        await self._acquire(attempt, found)
        attempt.complete = attempt.complete or attempt.size > 0 or wanted == 0
        if asked.limit is not None and not attempt.complete:
            self._plane.quotas.sent(asked.limit, -size)
            attempt.counted = 0
        for target, _ in attempt.readable:
            if target not in attempt.answers:
                attempt.answers[target] = ShareFetchedPartition(target.partition)

    async def _acquire(self, attempt: ShareAttempt, found: Sequence[_ReadShare]) -> None:
        request, settings = self._asked.request, self._asked.settings
        left = request.max_records
        lock_until_ms = self._leaders.same_ms(
            self._clock.monotonic_ms() + settings.lock_duration_ms
        )
        for one in found:
            if self._pace.due():
                await self._pace.turn()
                if not self._asked.is_current():
                    break
            if left <= 0 or not one.read.batches or one.share.closed:
                continue
            if not self._plane.partitions.leads(one.share.partition):
                continue  # the next leader may give the same records to another member already
            asked = Acquisition(
                self._asked.member_id,
                left,
                request.batch_size,
                request.acquire_mode,
                settings.max_record_locks,
                settings.delivery_count_limit,
                lock_until_ms,
            )
            acquired = one.share.acquire(asked, one.offset, one.read.batches, one.read.aborted)
            if acquired:
                for some in acquired:
                    left -= some.last_offset - some.first_offset + 1
                records = one.read.around(acquired)
                attempt.size += len(records)
                attempt.answers[one.target] = ShareFetchedPartition(
                    one.target.partition, records=records, acquired=acquired
                )
