"""One reading of the partitions of a Fetch: which of them may be read, what a reader gets from
each, and where it has to go back to after a divergence.
"""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.core.slices import Pace
from groupd.coordinator.core.types import CLUSTER_NAME, Operation, RequestContext, Resource
from groupd.coordinator.topics.fetch_sessions import FetchTarget, SessionAnswer
from groupd.coordinator.topics.layout import CurrentLeaders
from groupd.coordinator.topics.long_polls import WatchedPosition
from groupd.coordinator.topics.partition import ReadableLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    READ_COMMITTED,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
)
from groupd.protocol.records.batch import parse_header
from groupd.storage.log import LogCorrupt, LogError

# This module knows neither the client nor how the reply is sent. `Partitions.resolve` finds the
# topic by name or id, `Partitions.readable` finds the log, and `long_polls` waits for more records.


class LogPart(Struct, frozen=True):
    """What a reader gets of a log.

    `records`: whole batches; a limit may have cut the last one. `next_offset`: the offset of the
    first batch that is not whole in `records`. `high_watermark`, `last_stable_offset`,
    `log_start_offset`: as they were when the log was read. `aborted`: the aborted transactions, as
    (producer id, first offset), that have records in it; None unless only committed data was read.
    `cut`: a limit has held something back. `exhausted_at`: if the reader has seen everything, the
    value of `ReadableLog.changes` at that moment; else -1.
    """

    records: bytes
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] | None
    cut: bool = False
    exhausted_at: int = -1


async def read_log(
    log: ReadableLog,
    offset: int,
    max_bytes: int,
    isolation_level: int,
    *,
    whole_first: bool,
    may_cut: bool = True,
) -> LogPart:
    """Read from `offset` on, at most `max_bytes`: below the high watermark or, for READ_COMMITTED,
    below the last stable offset. As in Kafka the batch at the limit is cut, which clients expect;
    with `whole_first` the first batch is always whole. `may_cut` False: whole batches only, which
    may also be fewer than there is room for. Raises LogError, and ApiError OFFSET_OUT_OF_RANGE,
    also if the records were deleted while they were read."""
    start_offset, high_watermark = log.start_offset, log.high_watermark
    stable_offset = log.last_stable_offset
    if not start_offset <= offset <= log.next_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    committed = isolation_level == READ_COMMITTED
    end_offset = stable_offset if committed else high_watermark
    records, next_offset, cut, exhausted_at = b"", offset, False, -1
    if offset < end_offset:
        records, next_offset, cut = await _batches(
            log, offset, end_offset, max_bytes, whole_first, may_cut
        )
        if committed and offset < log.start_offset:
            # Deleted during the read, together with what was known of aborted transactions.
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    else:
        exhausted_at = log.changes
    return LogPart(
        records,
        next_offset,
        high_watermark,
        stable_offset,
        start_offset,
        log.aborted(offset, next_offset) if committed else None,
        cut,
        exhausted_at,
    )


async def _batches(
    log: ReadableLog,
    offset: int,
    end_offset: int,
    limit: int,
    whole_first: bool,
    may_cut: bool,
) -> tuple[bytes, int, bool]:
    """Batches below `end_offset`, the offset after the last whole one, and whether the limit has
    held something back."""
    limit = max(0, limit)
    payloads: list[bytes] = []
    size, next_offset = 0, offset
    while next_offset < end_offset and (size < limit or (whole_first and not payloads)):
        found = await log.read(next_offset, limit - size, min_one=True)
        # Drop batches above the end. Without open transactions there are none.
        while found and (header := parse_header(found[-1])).base_offset >= end_offset:
            found.pop()
        if not found:
            break
        payloads += found
        size += sum(map(len, found))
        next_offset = header.next_offset
        if not may_cut:
            break  # one more reading would only be for a batch that is cut
    cut = next_offset < end_offset or size > limit
    if not payloads or (not whole_first and len(payloads[0]) > limit):
        return b"", offset, cut
    if size > limit and len(payloads) > 1:
        whole = size - len(payloads[-1])
        next_offset = parse_header(payloads[-1]).base_offset
        payloads[-1] = payloads[-1][: max(0, limit - whole)]
    return payloads[0] if len(payloads) == 1 else b"".join(payloads), next_offset, cut


BY_ID_FROM = 13
"""From this Fetch version on, topics are named by id."""


def reading_error(partitions: Partitions, error: ApiError | LogError) -> ErrorCode:
    """Kafka's code for the error: consumers stop at damage, but retry after a failure."""
    code = partitions.refusal(error).code
    return ErrorCode.CORRUPT_MESSAGE if isinstance(error, LogCorrupt) else code


class Admission:
    """Decides which partitions a request may read. Rights are checked only once, however long the
    request waits. `first`: the request has not waited yet. A partition that is refused then stays
    refused and, as in Kafka, does not keep the request from waiting for the others."""

    __slots__ = ("_context", "_may_read", "_partitions", "_refused", "_replica", "first")

    def __init__(
        self, partitions: Partitions, context: RequestContext, request: FetchRequest
    ) -> None:
        self.first = True
        self._partitions = partitions
        self._context = context
        self._may_read: dict[str, bool] = {}  # by topic
        self._refused: dict[FetchTarget, ErrorCode] = {}
        self._replica: bool | None = None
        """Whether the request, sent by a replica, may read everything; None if a consumer sent
        it."""
        if request.replica_id >= 0:
            self._replica = context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)

    def topic(self, target: FetchTarget) -> Topic:
        """The topic of the target, if it may be read. Raises ApiError."""
        code = self._refused.get(target)
        if code is not None:
            raise ApiError(code)
        try:
            found = self._find(target)
        except ApiError as error:
            if self.first:
                self._refused[target] = error.code
            raise
        target.topic_name = found.name
        return found

    def _find(self, target: FetchTarget) -> Topic:
        if self._replica is False:
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return self._partitions.resolve(
            target.name,
            target.topic_id,
            target.asked.partition,
            self.may_read,
            by_id=not target.name and self._context.api_version >= BY_ID_FROM,
        )

    def was_refused(self, target: FetchTarget) -> bool:
        return target in self._refused

    def may_read(self, name: str) -> bool:
        if self._replica is not None:
            return self._replica
        allowed = self._may_read.get(name)
        if allowed is None:
            allowed = self._context.allows(Operation.READ, Resource.TOPIC, name)
            self._may_read[name] = allowed
        return allowed


class Reading:
    """One reading of all partitions of a request.

    `complete`: there is no point in waiting for more. `exhausted`: the logs of which the reader has
    seen everything, each with its number of changes at that moment. `watched`: the logs without an
    error, each with the high watermark that was seen; the request may wait for these.
    """

    __slots__ = (
        "_admission",
        "_partitions",
        "_room",
        "answers",
        "complete",
        "exhausted",
        "isolation_level",
        "leaders",
        "size",
        "watched",
    )

    def __init__(
        self,
        partitions: Partitions,
        admission: Admission,
        leaders: CurrentLeaders,
        request: FetchRequest,
        max_bytes: int,
    ) -> None:
        self._partitions = partitions
        self._admission = admission
        self._room = max_bytes
        self.isolation_level = request.isolation_level
        self.leaders = leaders
        self.size = 0
        self.complete = False
        self.answers: list[SessionAnswer] = []
        self.exhausted: list[tuple[FetchTarget, ReadableLog, int]] = []
        self.watched: list[WatchedPosition] = []

    async def read(self, targets: list[FetchTarget], pace: Pace) -> None:
        for target in targets:
            if pace.due():
                await pace.turn()
            log = target.unchanged(self.isolation_level)
            if log is not None and self._admission.may_read(target.topic_name):
                self.watched.append((log, log.high_watermark))
                continue
            topic = None
            try:
                topic = self._admission.topic(target)
                answer = await self._partition(target, topic)
            except (ApiError, LogError) as failed:
                # As in Kafka the reply has an empty list here, because the log was never read.
                refused = self._admission.was_refused(target)
                number, code = target.asked.partition, reading_error(self._partitions, failed)
                answer = FetchedPartition(
                    number,
                    code,
                    aborted=() if refused else None,
                    current_leader=self.leaders.of(topic, number, code),
                )
                self.complete = self.complete or not refused
            self.answers.append((target, answer))

    async def _partition(self, target: FetchTarget, topic: Topic) -> FetchedPartition:
        asked = target.asked
        log = await self._partitions.readable(topic, asked.partition, asked.current_leader_epoch)
        diverging = _diverging_epoch(log, asked)
        if diverging is not None:
            self.complete = True
            return self._diverged(log, asked, diverging)
        limit, room = asked.partition_max_bytes, self._room
        part = await read_log(
            log,
            asked.fetch_offset,
            limit if limit < room else room,
            self.isolation_level,
            whole_first=self.size == 0,
        )
        records = part.records
        if records:
            self.size += len(records)
            self._room -= len(records)
        if part.cut:
            self.complete = True
        self.watched.append((log, part.high_watermark))
        if part.exhausted_at >= 0:
            self.exhausted.append((target, log, part.exhausted_at))
        return FetchedPartition(
            partition=asked.partition,
            high_watermark=part.high_watermark,
            last_stable_offset=part.last_stable_offset,
            log_start_offset=part.log_start_offset,
            aborted=part.aborted,
            records=records,
        )

    def _diverged(
        self, log: ReadableLog, asked: FetchPartition, diverging: tuple[int, int]
    ) -> FetchedPartition:
        """The answer to a reader whose log has diverged from ours: it must go back to the point
        where they differ."""
        committed, offset = self.isolation_level == READ_COMMITTED, asked.fetch_offset
        return FetchedPartition(
            partition=asked.partition,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted=log.aborted(offset, offset) if committed else None,
            diverging_epoch=diverging,
        )


def _diverging_epoch(log: ReadableLog, asked: FetchPartition) -> tuple[int, int] | None:
    """The (epoch, end offset) at which the reader's log diverges from ours, told from the epoch
    that it has read last (KIP-595); None if it does not. Raises ApiError OFFSET_OUT_OF_RANGE if
    that is unknown."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.epochs.end_of(asked.last_fetched_epoch, log.high_watermark)
    if epoch < 0 or asked.fetch_offset < log.start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return (epoch, end_offset) if end_offset < asked.fetch_offset else None
