"""Fetch (1): reads record batches, and waits for new ones. This module adds to reading
(`fetch_reading`) and waiting (`long_polls`) what belongs to Fetch: rights, sessions, limits of the
reply, quotas.

Readers get data below the high watermark. READ_COMMITTED readers get data below the last stable
offset, with the aborted transactions in it. A reply has as many bytes as were asked for, and as the
connection's memory and the client's quota allow. The last batch is cut at a limit, but the first
batch of a reply is whole however large it is. A request is answered when reading fails, when there
are enough bytes, when a limit or the end of the wait is reached, or when other requests are short
of memory. A client that has used up its quota has to wait.
"""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import Pace
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.topics.fetch_reading import BY_ID_FROM, Admission, Reading
from groupd.coordinator.topics.fetch_sessions import (
    FetchContext,
    FetchSessions,
    FetchTarget,
)
from groupd.coordinator.topics.layout import CurrentLeaders, Layout
from groupd.coordinator.topics.long_polls import LongPolls
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


class Fetch:
    """Handles Fetch. `elapsed()` gives the time at which a request begins and at which its session
    is opened."""

    def __init__(
        self,
        partitions: Partitions,
        layout: Layout,
        sessions: FetchSessions,
        polls: LongPolls,
        config: CoordinatorConfig,
        work: LongWork,
        elapsed: Callable[[], Instant],
        quotas: Quotas,
    ) -> None:
        self._partitions = partitions
        self._layout = layout
        self._sessions = sessions
        self._polls = polls
        self._config = config
        self._work = work
        self._elapsed = elapsed
        self._quotas = quotas

    async def begin(
        self, context: RequestContext, request: FetchRequest
    ) -> FetchContext | ErrorCode:
        """What the request is to read, or the error code of its reply. From here on its session
        remembers the request, whether the client waits for the reply or not."""
        by_id = context.api_version >= BY_ID_FROM
        now_ms = self._elapsed().monotonic_ms
        try:
            pace = self._work.pace()
            return await self._sessions.begin(request, by_id=by_id, now_ms=now_ms, pace=pace)
        except ApiError as error:
            return error.code

    async def read(
        self, context: RequestContext, request: FetchRequest, asked: FetchContext | ErrorCode
    ) -> FetchReply:
        """Read all partitions, again and again until there is enough data or `max_wait_ms` is
        over."""
        if isinstance(asked, ErrorCode):
            return FetchReply(asked)
        max_bytes = min(request.max_bytes, self._config.fetch_max_bytes)
        limit = None
        if self._quotas.active:
            limit = self._quotas.fetch_limit(context.principal, context.client_id)
        if limit is not None:
            max_bytes = min(max_bytes, self._quotas.fetch_max(limit))
        admission = Admission(self._partitions, context, request)
        pace = self._work.pace()

        async def read_all(room: int) -> Reading:
            leaders = CurrentLeaders(self._layout, context, _LEADERS_SINCE, _LEADER_ERRORS)
            reading = Reading(self._partitions, admission, leaders, request, room)
            await reading.read(asked.targets, pace)
            admission.first = False
            return reading

        reading = await self._polls.poll(
            read_all,
            context.token,
            min_bytes=min(request.min_bytes, max_bytes),
            max_bytes=max_bytes,
            until_ms=asked.begun_ms + min(request.max_wait_ms, self._config.fetch_max_wait_ms),
            pace=pace,
        )
        throttle_ms = 0 if limit is None else self._quotas.fetched(limit, reading.size)
        if throttle_ms:
            context.token.set_reserved_bytes(0)
            return _throttled(asked, throttle_ms)
        return await _reply(asked, reading, self._elapsed, pace)


def _throttled(asked: FetchContext, throttle_ms: int) -> FetchReply:
    """The empty reply that makes the client wait. The client then asks again for what was read
    (KIP-219)."""
    return FetchReply(asked.left_alone(), asked.session_id, throttle_ms=throttle_ms)


async def _reply(
    asked: FetchContext, reading: Reading, elapsed: Callable[[], Instant], pace: Pace
) -> FetchReply:
    try:
        session_id, answers = await asked.finish(reading.answers, elapsed, pace)
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
