"""One reading of the partitions of a Fetch: which of them may be read, what a reader gets from
each, and where it goes on.
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

# It knows neither who asks nor how the answer is sent. `Partitions.resolve` finds the topic by name
# or id, `Partitions.readable` the log; `groupd.coordinator.topics.long_polls` waits for more.


class LogPart(Struct, frozen=True):
    """What a reader gets of a log.

    `records`: whole batches, but a limit may have cut the last one. `next_offset`: that of the
    first batch that is not whole in there. `high_watermark`, `last_stable_offset` and
    `log_start_offset`: those of the moment at which it was read. `aborted`: the aborted
    transactions, as (producer id, first offset), that have records in it; None unless committed
    data was read. `cut`: a limit has kept something back. `exhausted_at`: if the reader has seen
    all that there is, how often the log had changed then (`ReadableLog.changes`); else -1.
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
    log: ReadableLog, offset: int, max_bytes: int, isolation_level: int, *, whole_first: bool
) -> LogPart:
    """Read what there is from `offset` on: below the high watermark, for READ_COMMITTED below the
    last stable offset, and at most `max_bytes`. As in Kafka a limit cuts the batch that does not
    fit, for which clients are prepared; with `whole_first` the first batch is whole in any case.
    Raises ApiError OFFSET_OUT_OF_RANGE, also where records were deleted while they were read;
    LogError."""
    start_offset, high_watermark = log.start_offset, log.high_watermark
    stable_offset = log.last_stable_offset
    if not start_offset <= offset <= log.next_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    committed = isolation_level == READ_COMMITTED
    end_offset = stable_offset if committed else high_watermark
    records, next_offset, cut, exhausted_at = b"", offset, False, -1
    if offset < end_offset:
        records, next_offset, cut = await _batches(log, offset, end_offset, max_bytes, whole_first)
        if committed and offset < log.start_offset:
            # Deleted while it was read, and with it what is known of aborted transactions.
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
    log: ReadableLog, offset: int, end_offset: int, limit: int, whole_first: bool
) -> tuple[bytes, int, bool]:
    """Batches below `end_offset`, the offset after the last whole one, and whether the limit has
    kept something back."""
    limit = max(0, limit)
    payloads: list[bytes] = []
    size, next_offset = 0, offset
    while next_offset < end_offset and (size < limit or (whole_first and not payloads)):
        found = await log.read(next_offset, limit - size, min_one=True)
        # Above the end; without open transactions there is nothing of that kind.
        while found and parse_header(found[-1]).base_offset >= end_offset:
            found.pop()
        if not found:
            break
        payloads += found
        size += sum(map(len, found))
        next_offset = parse_header(found[-1]).next_offset
    cut = next_offset < end_offset or size > limit
    if not payloads or (not whole_first and len(payloads[0]) > limit):
        return b"", offset, cut
    if size > limit and len(payloads) > 1:
        whole = size - len(payloads[-1])
        next_offset = parse_header(payloads[-1]).base_offset
        payloads[-1] = payloads[-1][: max(0, limit - whole)]
    return payloads[0] if len(payloads) == 1 else b"".join(payloads), next_offset, cut


BY_ID_FROM = 13
"""Fetch versions that name topics by id."""


class Admission:
    """Which partitions a request may read. Rights are looked at once, however long it waits.
    `first`: it has not waited yet. What is refused then stays so, and does not keep the request
    from waiting for the rest, as in Kafka."""

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
        """Whether a replica may read everything; None if a consumer asks."""
        if request.replica_id >= 0:
            self._replica = context.allows(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)

    def topic(self, target: FetchTarget) -> Topic:
        """The topic that may be read. Raises ApiError."""
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

    `complete`: there is no point in waiting for more. `exhausted`: where the reader has seen all of
    a log, after so many changes. `watched`: logs without an error and the high watermark that was
    seen; they are worth waiting for.
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
                # As in Kafka: nothing is aborted in what was never looked at.
                refused = self._admission.was_refused(target)
                number, code = target.asked.partition, self._code(failed)
                answer = FetchedPartition(
                    number,
                    code,
                    aborted=() if refused else None,
                    current_leader=self.leaders.of(topic, number, code),
                )
                self.complete = self.complete or not refused
            self.answers.append((target, answer))

    def _code(self, error: ApiError | LogError) -> ErrorCode:
        """Kafka's code for the error: consumers stop at damage, but ask again after a failure."""
        code = self._partitions.refusal(error).code
        return ErrorCode.CORRUPT_MESSAGE if isinstance(error, LogCorrupt) else code

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
        """The answer to a reader that has to go back to where its log has left ours."""
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
    """KIP-595: where a reader that names the epoch it has read last has left our log. Raises
    ApiError OFFSET_OUT_OF_RANGE if that is not known."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.epochs.end_of(asked.last_fetched_epoch, log.high_watermark)
    if epoch < 0 or asked.fetch_offset < log.start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return (epoch, end_offset) if end_offset < asked.fetch_offset else None
