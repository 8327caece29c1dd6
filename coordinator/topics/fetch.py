"""Fetch (1): read record batches, waiting for new ones.

Rules: only data below the high watermark, for READ_COMMITTED below the last stable offset, together
with the aborted transactions in it; as many bytes as asked for and as there is room for in the
memory of the connection and in the quota of its client, the last batch cut where a limit says so,
but the first batch of a reply is whole however large it is. An error while reading, enough bytes, a
limit that is reached or the end of the wait completes the request; so does a lack of memory for
others. A client that has used up its quota waits. Waiting costs nothing: appends set an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.slices import Steps
from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    Instant,
    Operation,
    RequestContext,
    Resource,
)
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.pace import STEP, Pace
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.topics.catalogue import Topic
from groupd.coordinator.topics.fetch_sessions import (
    Answer,
    FetchContext,
    FetchSessions,
    FetchTarget,
)
from groupd.coordinator.topics.leader_epochs import check_leader_epoch
from groupd.coordinator.topics.partition import ReadableLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    READ_COMMITTED,
    FetchedDataTopic,
    FetchedPartition,
    FetchPartition,
    FetchReply,
    FetchRequest,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.records.batch import parse_header
from groupd.storage.log import LogCorrupt, LogError

BY_ID_FROM = 13
"""Fetch versions that name topics by id."""


WAITED_FOR_MAX = 250_000
"""Limit on the partitions that all waiting requests wait for together."""

UNWATCHED_MS = 100
"""How long a request rests before it reads again, if there was no room to wait for its partitions.
If it were answered at once, its client would only ask again."""

Watched = tuple[ReadableLog, int]
"""A log and the high watermark that was seen."""

Wait = Callable[[asyncio.Event, int], Awaitable[None]]
"""`wait(event, timeout_ms)`: returns when the event is set or the time is over."""


async def wait_for_event(event: asyncio.Event, timeout_ms: int) -> None:
    """The `Wait` of the real clock."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await event.wait()
    except TimeoutError:
        return


class Fetch:
    """`elapsed()` measures how long a request has waited; `wait` is how it waits."""

    def __init__(
        self,
        partitions: Partitions,
        sessions: FetchSessions,
        config: CoordinatorConfig,
        work: LongWork,
        elapsed: Callable[[], Instant],
        wait: Wait = wait_for_event,
        *,
        quotas: Quotas,
    ) -> None:
        self._partitions = partitions
        self._sessions = sessions
        self._quotas = quotas
        self._config = config
        self._work = work
        self._waited_for = 0
        """Partitions that requests wait for."""
        self._elapsed = elapsed
        self._wait = wait

    async def handle(self, context: RequestContext, request: FetchRequest) -> FetchReply:
        """Read all partitions, again and again until there is enough or `max_wait_ms` is over."""
        now_ms = self._elapsed().monotonic_ms
        try:
            by_id = context.api_version >= BY_ID_FROM
            pace = Pace(self._work)
            asked = await self._sessions.begin(request, by_id=by_id, now_ms=now_ms, pace=pace)
        except ApiError as error:
            return FetchReply(error.code)
        max_bytes = min(request.max_bytes, self._config.fetch_max_bytes)
        limit = None
        if self._quotas.active:
            limit = self._quotas.fetch_limit(context.principal, context.client_id)
        if limit is not None:
            max_bytes = min(max_bytes, self._quotas.fetch_max(limit))
        enough = min(request.min_bytes, max_bytes)
        deadline_ms = now_ms + min(request.max_wait_ms, self._config.fetch_max_wait_ms)
        admission = _Admission(self._partitions, context, request)
        while True:
            room = context.token.room(max_bytes)
            reading = _Reading(self._partitions, admission, request.isolation_level, room)
            await reading.read(asked.targets, pace)
            admission.first = False
            context.token.holds(reading.size)
            now_ms = self._elapsed().monotonic_ms
            left_ms = deadline_ms - now_ms
            done = reading.complete or reading.size >= enough or left_ms <= 0
            if done or not reading.watched:
                throttle_ms = 0 if limit is None else self._quotas.fetched(limit, reading.size)
                if throttle_ms:
                    context.token.holds(0)
                    return _throttled(asked, throttle_ms)
                return await _reply(asked, reading, now_ms, pace)
            watched = reading.watched
            del reading  # everything will be read again
            context.token.holds(0)
            event = _MoreOrShort()
            context.token.when_short(event.short)
            try:
                if self._waited_for + len(watched) <= WAITED_FOR_MAX:
                    await self._wait_for_data(watched, event, left_ms, pace)
                else:
                    await self._wait(event, min(left_ms, UNWATCHED_MS))
            finally:
                context.token.when_short(None)
            if event.is_short:
                deadline_ms = now_ms

    async def _wait_for_data(
        self, watched: list[Watched], event: asyncio.Event, timeout_ms: int, pace: Pace
    ) -> None:
        fresh = True
        self._waited_for += len(watched)
        try:
            for log, seen in watched:
                if pace.due():
                    await pace.turn()
                log.add_waiter(event)
                # Records that were appended between reading and watching have not set the event.
                fresh = fresh and not log.closed and log.high_watermark == seen
            if fresh:
                await self._wait(event, timeout_ms)
        finally:
            self._waited_for -= len(watched)
            self._work.add(_unwatch(watched, event), lambda _: None)


class _MoreOrShort(asyncio.Event):
    """Set by new records, or because others wait for the memory of this request (`is_short`)."""

    is_short = False

    def short(self) -> None:
        self.is_short = True
        self.set()


def _unwatch(watched: list[Watched], event: asyncio.Event) -> Steps[None]:
    for number, (log, _) in enumerate(watched, 1):
        log.remove_waiter(event)
        if number % STEP == 0:
            yield


def _throttled(asked: FetchContext, throttle_ms: int) -> FetchReply:
    """The client has to wait, and asks again for what was read (KIP-219)."""
    return FetchReply(asked.left_alone(), asked.session_id, throttle_ms=throttle_ms)


async def _reply(asked: FetchContext, reading: _Reading, now_ms: int, pace: Pace) -> FetchReply:
    try:
        session_id, answers = await asked.finish(reading.answers, now_ms, pace)
    except ApiError as error:
        return FetchReply(error.code, asked.session_id)
    for target, log, changes in reading.exhausted:
        if pace.due():
            await pace.turn()
        target.exhausted(log, changes, reading.isolation_level)
    topics: list[tuple[FetchTarget, list[FetchedPartition]]] = []
    for target, answer in answers:
        if pace.due():
            await pace.turn()
        last = topics[-1][0] if topics else None
        if last is None or (last.name, last.topic_id) != (target.name, target.topic_id):
            topics.append((target, []))
        topics[-1][1].append(answer)

    def fetched(topic: tuple[FetchTarget, list[FetchedPartition]]) -> FetchedDataTopic:
        return FetchedDataTopic(topic[0].name, topic[0].topic_id, tuple(topic[1]))

    return FetchReply(session_id=session_id, topics=mapped(fetched, topics), counted=reading.size)


class _Admission:
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
        partition = target.asked.partition
        return self._partitions.resolve(target.name, target.topic_id, partition, self.may_read)

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


class _Reading:
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
        "size",
        "watched",
    )

    def __init__(
        self, partitions: Partitions, admission: _Admission, isolation_level: int, max_bytes: int
    ) -> None:
        self._partitions = partitions
        self._admission = admission
        self._room = max_bytes
        self.isolation_level = isolation_level
        self.size = 0
        self.complete = False
        self.answers: list[Answer] = []
        self.exhausted: list[tuple[FetchTarget, ReadableLog, int]] = []
        self.watched: list[Watched] = []

    async def read(self, targets: list[FetchTarget], pace: Pace) -> None:
        for target in targets:
            if pace.due():
                await pace.turn()
            log = target.unchanged(self.isolation_level)
            if log is not None and self._admission.may_read(target.topic_name):
                self.watched.append((log, log.high_watermark))
                continue
            try:
                answer = await self._partition(target)
            except (ApiError, LogError) as failed:
                # As in Kafka: nothing is aborted in what was never looked at.
                refused = self._admission.was_refused(target)
                answer = FetchedPartition(
                    target.asked.partition, self._code(failed), aborted=() if refused else None
                )
                self.complete = self.complete or not refused
            if answer.diverging_epoch is not None:
                self.complete = True
            self.answers.append((target, answer))

    def _code(self, error: ApiError | LogError) -> ErrorCode:
        """Kafka's code for the error: consumers stop at damage, but ask again after a failure."""
        code = self._partitions.refusal(error).code
        return ErrorCode.CORRUPT_MESSAGE if isinstance(error, LogCorrupt) else code

    async def _partition(self, target: FetchTarget) -> FetchedPartition:
        asked = target.asked
        log = await self._partitions.readable(self._admission.topic(target), asked.partition)
        check_leader_epoch(log.epochs.latest, asked.current_leader_epoch)
        start_offset, high_watermark = log.start_offset, log.high_watermark
        stable_offset = log.last_stable_offset
        committed = self.isolation_level == READ_COMMITTED
        end_offset = stable_offset if committed else high_watermark
        diverging = _diverging_epoch(log, asked)
        if not start_offset <= asked.fetch_offset <= log.next_offset and diverging is None:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        records, next_offset = b"", asked.fetch_offset
        if diverging is None and asked.fetch_offset < end_offset:
            records, next_offset = await self._records(log, asked, end_offset)
        elif diverging is None and log.changes >= 0:
            self.exhausted.append((target, log, log.changes))
        self.watched.append((log, high_watermark))
        if committed and asked.fetch_offset < log.start_offset:
            # Deleted while it was read, and with it what is known of aborted transactions.
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        return FetchedPartition(
            partition=asked.partition,
            high_watermark=high_watermark,
            last_stable_offset=stable_offset,
            log_start_offset=start_offset,
            aborted=log.aborted(asked.fetch_offset, next_offset) if committed else None,
            records=records,
            diverging_epoch=diverging,
        )

    async def _records(
        self, log: ReadableLog, asked: FetchPartition, end_offset: int
    ) -> tuple[bytes, int]:
        """Batches below `end_offset`, and the offset after the last whole one. As in Kafka a limit
        cuts the batch that does not fit, for which clients are prepared; only the first batch of
        a reply is whole in any case."""
        first = self.size == 0
        limit = max(0, min(asked.partition_max_bytes, self._room))
        payloads: list[bytes] = []
        size, next_offset = 0, asked.fetch_offset
        while next_offset < end_offset and (size < limit or (first and not payloads)):
            found = await log.read(next_offset, limit - size, min_one=True)
            # Above the end; without open transactions there is nothing of that kind.
            while found and parse_header(found[-1]).base_offset >= end_offset:
                found.pop()
            if not found:
                break
            payloads += found
            size += sum(map(len, found))
            next_offset = parse_header(found[-1]).next_offset
        if next_offset < end_offset or size > limit:
            # A limit cuts it short.
            self.complete = True
        if not payloads or (not first and len(payloads[0]) > limit):
            return b"", asked.fetch_offset
        if size > limit and len(payloads) > 1:
            whole = size - len(payloads[-1])
            next_offset = parse_header(payloads[-1]).base_offset
            payloads[-1] = payloads[-1][: max(0, limit - whole)]
        records = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        self.size += len(records)
        self._room -= len(records)
        return records, next_offset


def _diverging_epoch(log: ReadableLog, asked: FetchPartition) -> tuple[int, int] | None:
    """KIP-595: where a reader that names the epoch it has read last has left our log. Raises
    ApiError OFFSET_OUT_OF_RANGE if that is not known."""
    if asked.last_fetched_epoch < 0:
        return None
    epoch, end_offset = log.epochs.end_of(asked.last_fetched_epoch, log.high_watermark)
    if epoch < 0 or asked.fetch_offset < log.start_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    return (epoch, end_offset) if end_offset < asked.fetch_offset else None
