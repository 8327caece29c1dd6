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

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import Steps
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.pace import STEP, Pace
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.topics.current_leaders import CurrentLeaders
from groupd.coordinator.topics.fetch_reading import BY_ID_FROM, Admission, Reading, Watched
from groupd.coordinator.topics.fetch_sessions import (
    FetchContext,
    FetchSessions,
    FetchTarget,
)
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    FetchedDataTopic,
    FetchedPartition,
    FetchReply,
    FetchRequest,
)
from groupd.protocol.messages.lazily import mapped

_LEADERS_SINCE = 16
_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

WAITED_FOR_MAX = 250_000
"""Limit on the partitions that all waiting requests wait for together."""

UNWATCHED_MS = 100
"""How long a request rests before it reads again, if there was no room to wait for its partitions.
If it were answered at once, its client would only ask again."""

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
        layout: Layout,
        sessions: FetchSessions,
        config: CoordinatorConfig,
        work: LongWork,
        elapsed: Callable[[], Instant],
        wait: Wait = wait_for_event,
        *,
        quotas: Quotas,
    ) -> None:
        self._partitions = partitions
        self._layout = layout
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
        admission = Admission(self._partitions, context, request)
        while True:
            room = context.token.room(max_bytes)
            leaders = CurrentLeaders(self._layout, context, _LEADERS_SINCE, _LEADER_ERRORS)
            reading = Reading(self._partitions, admission, leaders, request, room)
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


async def _reply(asked: FetchContext, reading: Reading, now_ms: int, pace: Pace) -> FetchReply:
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

    return FetchReply(
        session_id=session_id,
        topics=mapped(fetched, topics),
        node_endpoints=reading.leaders.endpoints,
        counted=reading.size,
    )
