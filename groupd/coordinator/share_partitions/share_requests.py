"""ShareFetch (78) and ShareAcknowledge (79): members of share groups read records, and say what has
become of them (KIP-932; docs/spec/share-group.md#1.4 and #4).

The first part of a ShareFetch takes the session's epoch and applies acknowledgements, which happens
even if the client is gone. The second part waits and acquires. So a client that is gone acquires
nothing more, and what it holds is released with its session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import REQUEST_ITEMS, Pace, Steps, chunks
from groupd.coordinator.core.types import Instant, Operation, RequestContext, Resource
from groupd.coordinator.persister import Persister
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.data_routes import DataRoute
from groupd.coordinator.share_partitions.acknowledging import (
    AcknowledgementsUnderWay,
    Acknowledging,
    ShareKey,
    ShareResults,
)
from groupd.coordinator.share_partitions.attempts import (
    LEADER_ERRORS,
    AskedShareFetch,
    ShareReader,
)
from groupd.coordinator.share_partitions.counts import ShareCounts
from groupd.coordinator.share_partitions.dead_letters import DeadLetterQueues
from groupd.coordinator.share_partitions.group_settings import ShareGroupSettings, settings_of
from groupd.coordinator.share_partitions.leaders import ShareLeaders
from groupd.coordinator.share_partitions.share_sessions import (
    ShareSession,
    ShareSessionKey,
    ShareSessions,
    ShareTarget,
)
from groupd.coordinator.topics.checks import ReadRights
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.layout import CurrentLeaders
from groupd.coordinator.topics.sessions import NEW_SESSION_EPOCH, NO_SESSION_EPOCH, TargetKey
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.share_fetch import (
    BATCH_OPTIMIZED,
    NO_LEADER_GIVEN,
    RECORD_LIMIT,
    AcknowledgedTopic,
    AcknowledgementBatch,
    ShareAcknowledgeReply,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResult,
    ShareAcknowledgeResults,
    ShareFetchedPartition,
    ShareFetchedTopic,
    ShareFetchReply,
    ShareFetchRequest,
)

MEMBER_ID_MAX = 36
"""The longest member id: a UUID has 36 characters."""


class BegunShareFetch(Struct, frozen=True):
    """What is left to do after the first part. `session` None: it has ended with this request.
    `epoch`: the session's next epoch. `targets`: what is to be read; empty if nothing is."""

    acknowledged: AcknowledgementsUnderWay
    rights: ReadRights
    settings: ShareGroupSettings
    pace: Pace
    until_ms: int
    session: ShareSession | None = None
    epoch: int = NO_SESSION_EPOCH
    targets: Sequence[ShareTarget] = ()


class NoShareSession(Struct, frozen=True):
    """All sessions are taken: the member is told so when its wait is over."""

    max_wait_ms: int


class ShareRequests:
    """Handles ShareFetch and ShareAcknowledge. `elapsed()` measures long polls, `clock` the locks
    of records."""

    def __init__(
        self,
        config: CoordinatorConfig,
        plane: DataPlane,
        persister: Persister,
        clock: Clock,
        elapsed: Callable[[], Instant],
    ) -> None:
        self._config = config
        self._plane = plane
        self._clock = clock
        self._elapsed = elapsed
        self._defaults = settings_of(config, None)
        self._own_settings: dict[str, ShareGroupSettings] = {}
        """Of the groups that have configs of their own."""
        plane.group_overrides.add_listener(self._on_group_configs)
        for group_id, overrides in plane.group_overrides.all().items():
            self._on_group_configs(group_id, overrides)
        self.counts = ShareCounts()
        self.sessions = ShareSessions(config.share_max_share_sessions, self._group_left)
        self.dead_letters = DeadLetterQueues(config, plane, clock, self._settings, self.counts)
        self.leaders = ShareLeaders(
            plane,
            persister,
            clock,
            self._settings,
            self.sessions.of_group,
            self.counts,
            self.dead_letters.bury,
        )
        self._acknowledging = Acknowledging(self.leaders, plane, clock)
        self.routes: Mapping[type, DataRoute] = {
            ShareFetchRequest: DataRoute(self.begin, self.read),
            ShareAcknowledgeRequest: DataRoute(self.acknowledge),
        }

    def _settings(self, group_id: str) -> ShareGroupSettings:
        return self._own_settings.get(group_id, self._defaults)

    def _on_group_configs(self, group_id: str, overrides: Mapping[str, str]) -> None:
        if overrides:
            self._own_settings[group_id] = settings_of(self._config, overrides)
        else:
            self._own_settings.pop(group_id, None)

    def forget_group(self, group_id: str) -> None:
        """Forget what is not durable of a group, its sessions and locks, as a leader that dies."""
        for share in self.leaders.of_group(group_id):
            self.leaders.drop(share)
        for session in self.sessions.all_of(group_id):
            self.sessions.end(session)

    async def close(self) -> None:
        """Wait until what is on its way to the persister is written."""
        await self.leaders.close()

    # ShareFetch ---------------------------------------------------------------------------

    async def begin(
        self, context: RequestContext, request: ShareFetchRequest
    ) -> BegunShareFetch | NoShareSession:
        """Take the session's epoch, and apply acknowledgements. Raises ApiError for the whole
        request."""
        self.counts.fetch_requests += 1
        key = self._check_member(context, request)
        if request.acquire_mode not in (BATCH_OPTIMIZED, RECORD_LIMIT):
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "unknown ShareAcquireMode")
        if request.is_renew_ack and (
            request.max_bytes or request.min_bytes or request.max_records or request.max_wait_ms
        ):
            raise ApiError(ErrorCode.INVALID_REQUEST, "a renewal does not fetch: all limits are 0")
        pace, rights = self._plane.work.pace(), ReadRights(context)
        max_wait_ms = min(request.max_wait_ms, self._config.fetch_max_wait_ms)
        until_ms = self._elapsed().monotonic_ms + max_wait_ms
        epoch, settings = request.session_epoch, self._settings(key[0])
        named, batches = await _named(request.topics, pace)
        if epoch == NEW_SESSION_EPOCH:
            if any(batches.values()):
                raise ApiError(ErrorCode.INVALID_REQUEST, "no acknowledgements without a session")
            opened = self._open(context, key, named)
            if opened is None:
                return NoShareSession(max_wait_ms)
            session, next_epoch = opened, opened.epoch
        elif epoch == NO_SESSION_EPOCH:
            session, next_epoch = self._known(key), NO_SESSION_EPOCH
        else:
            session = self.sessions.find(key, epoch)
            next_epoch = self.sessions.take_epoch(session)
            forgotten = map(attrgetter("topic_id", "partitions"), request.forgotten)
            await self.sessions.change(session, named, forgotten, pace)
        under_way = await self._acknowledging.begin(
            rights, key, batches, settings, pace, is_renew_ack=request.is_renew_ack
        )
        if epoch == NO_SESSION_EPOCH:
            await under_way.finish(self.counts, pace)
            self._release(session)
            return BegunShareFetch(under_way, rights, settings, pace, until_ms)
        targets = _rotated(session, request)
        return BegunShareFetch(
            under_way, rights, settings, pace, until_ms, session, next_epoch, targets
        )

    async def read(
        self,
        context: RequestContext,
        request: ShareFetchRequest,
        begun: BegunShareFetch | NoShareSession,
    ) -> ShareFetchReply:
        """Wait for records, and acquire them. Raises ApiError for the whole request."""
        if isinstance(begun, NoShareSession):
            await self._wait(begun.max_wait_ms, self._plane.work.pace())
            raise ApiError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        pace, fetched = begun.pace, _NOTHING_FETCHED
        if begun.session is not None:
            if begun.targets:
                fetched = await self._fetch(request, begun, begun.session)
            answers = await self.sessions.changed_answers(
                begun.session, begun.epoch, fetched.answers.items(), pace
            )
            if not self.sessions.has(begun.session):
                # Its records are released already, so nobody may have them from here.
                raise ApiError(self.sessions.unknown)
        else:
            answers = []
        results = await begun.acknowledged.finish(self.counts, pace)
        if any(map(attrgetter("error"), dict(answers).values())):
            self.counts.failed_fetch_requests += 1
        return ShareFetchReply(
            lock_timeout_ms=begun.settings.lock_duration_ms,
            topics=await _fetched_topics(answers, results, pace),
            node_endpoints=fetched.node_endpoints,
            counted=fetched.counted,
            throttle_ms=fetched.throttle_ms,
        )

    async def _fetch(
        self,
        request: ShareFetchRequest,
        begun: BegunShareFetch,
        session: ShareSession,
    ) -> _Fetched:
        context, pace = begun.rights.context, begun.pace
        quotas, limit = self._plane.quotas, None
        max_bytes = min(request.max_bytes, self._config.fetch_max_bytes)
        if quotas.active:
            limit = quotas.fetch_limit(context.principal, context.client_id)
        if limit is not None:
            max_bytes = min(max_bytes, quotas.fetch_max(limit))
        asked = AskedShareFetch(
            begun.rights,
            request,
            *session.key,
            begun.targets,
            begun.settings,
            limit,
            max_bytes,
            begun.until_ms,
            partial(self.sessions.awaits, session, begun.epoch),
        )
        reader = ShareReader(self._plane, self.leaders, self._clock, self._elapsed, asked, pace)
        found = await self._plane.long_polls.poll(
            reader.look,
            context.token,
            min_bytes=max_bytes + 1,  # `look` decides
            max_bytes=max_bytes,
            until_ms=begun.until_ms,
            pace=pace,
        )
        left_ms = begun.until_ms - self._elapsed().monotonic_ms
        if left_ms <= 0:
            self.counts.polls_expired += 1
        elif reader.load_failed and not found.size:
            # As in Kafka this error waits. Its client would ask again at once, and most often the
            # group coordinator just has not made the share-partition known yet.
            await self._wait(left_ms, pace)
        answers = {} if found.throttle_ms else found.answers
        return _Fetched(answers, reader.leaders.endpoints, found.counted, found.throttle_ms)

    async def _wait(self, timeout_ms: int, pace: Pace) -> None:
        await self._plane.long_polls.until_moved((), asyncio.Event(), timeout_ms, pace)

    # ShareAcknowledge ---------------------------------------------------------------------

    async def acknowledge(
        self, context: RequestContext, request: ShareAcknowledgeRequest
    ) -> ShareAcknowledgeReply:
        """Handles ShareAcknowledge: it answers when everything is durable. Raises ApiError for the
        whole request."""
        self.counts.acknowledge_requests += 1
        key = self._check_member(context, request)
        if request.session_epoch == NEW_SESSION_EPOCH:
            raise ApiError(self.sessions.wrong_epoch)
        session = self._known(key)
        if request.session_epoch != NO_SESSION_EPOCH:
            self.sessions.check(session, request.session_epoch)
            self.sessions.take_epoch(session)
        pace, settings = self._plane.work.pace(), self._settings(key[0])
        _, batches = await _named(request.topics, pace)
        under_way = await self._acknowledging.begin(
            ReadRights(context), key, batches, settings, pace, is_renew_ack=request.is_renew_ack
        )
        results = await under_way.finish(self.counts, pace)
        if request.session_epoch == NO_SESSION_EPOCH:
            self._release(session)
        leaders = CurrentLeaders(self._plane.layout, context, 1, LEADER_ERRORS)
        topics: dict[TopicId, list[ShareAcknowledgeResult]] = {}
        for (topic_id, partition), error in results.items():
            if pace.due():
                await pace.turn()
            result = ShareAcknowledgeResult(partition)
            if error is not None:
                topic = self._plane.catalogue.topic_by_id(topic_id)
                leader = leaders.of(topic, partition, error.code) or NO_LEADER_GIVEN
                result = ShareAcknowledgeResult(partition, error.code, error.message, leader)
            topics.setdefault(topic_id, []).append(result)
        if any(results.values()):
            self.counts.failed_acknowledge_requests += 1
        return ShareAcknowledgeReply(
            lock_timeout_ms=settings.lock_duration_ms,
            topics=[ShareAcknowledgeResults(*topic) for topic in topics.items()],
            node_endpoints=leaders.endpoints,
        )

    # Sessions -----------------------------------------------------------------------------

    def _check_member(
        self, context: RequestContext, request: ShareFetchRequest | ShareAcknowledgeRequest
    ) -> ShareSessionKey:
        """The key of the session. Raises ApiError UNSUPPORTED_VERSION, INVALID_REQUEST,
        GROUP_AUTHORIZATION_FAILED, INVALID_REQUEST, in this order."""
        group_id, member_id = request.group_id, request.member_id
        if not self._config.share_groups_enabled:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if group_id is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid group id in the request.")
        if not context.allows(Operation.READ, Resource.GROUP, group_id):
            raise ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        if not member_id or len(member_id) > MEMBER_ID_MAX:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Invalid member id in the request.")
        return group_id, member_id

    def _known(self, key: ShareSessionKey) -> ShareSession:
        session = self.sessions.get(key)
        if session is None:
            raise ApiError(self.sessions.unknown)
        return session

    def _open(
        self, context: RequestContext, key: ShareSessionKey, targets: dict[TargetKey, ShareTarget]
    ) -> ShareSession | None:
        """Open a session in place of the member's old one, whose records stay locked. None: all
        sessions are taken."""
        old = self.sessions.get(key)
        if old is not None:
            self.sessions.end(old)
        if not self.sessions.make_room(len(targets), 0):
            return None
        session = ShareSession(key, targets)
        self.sessions.add(session)
        session.outlive_connection = context.token.on_disconnect(lambda: self._evict(session))
        return session

    def _evict(self, session: ShareSession) -> None:
        """The session's connection has ended."""
        if self.sessions.has(session):
            self.counts.sessions_evicted += 1
            self._release(session)

    def _release(self, session: ShareSession) -> None:
        """End the session, unless it has ended already, and release what its member holds of its
        partitions, in the background."""
        if self.sessions.has(session):
            self.sessions.end(session)
            self._plane.work.add_later(self._released(session), lambda _: None)

    def _released(self, session: ShareSession) -> Steps[None]:
        group_id, member_id = session.key
        for some in chunks(list(session.targets), REQUEST_ITEMS):
            for key in some:
                share = self.leaders.get(group_id, key)
                if self.sessions.get(session.key) is not None:
                    return  # the member has come back, and may hold records of its new session
                if share is not None:
                    share.release(member_id)
                    yield
            yield

    def _group_left(self, group_id: str) -> None:
        """The last session of a group has ended."""
        self._plane.work.add_later(self.leaders.drop_idle(group_id), lambda _: None)


class _Fetched(Struct, frozen=True):
    """What the reading of a ShareFetch gave."""

    answers: Mapping[ShareTarget, ShareFetchedPartition] = {}
    node_endpoints: Sequence[Node] = ()
    counted: int = 0
    throttle_ms: int = 0


_NOTHING_FETCHED = _Fetched()


async def _named(
    topics: Iterable[AcknowledgedTopic], pace: Pace
) -> tuple[dict[TargetKey, ShareTarget], dict[ShareKey, list[AcknowledgementBatch]]]:
    """The partitions that a request names, and their acknowledgements. Topics and partitions may
    come several times."""
    named: dict[TargetKey, ShareTarget] = {}
    batches: dict[ShareKey, list[AcknowledgementBatch]] = {}
    for topic in topics:
        for one in topic.partitions:
            if pace.due():
                await pace.turn()
            key = topic.topic_id, one.partition
            named[key] = ShareTarget(key)
            batches.setdefault(key, []).extend(one.batches)
    return named, batches


def _rotated(session: ShareSession, request: ShareFetchRequest) -> Sequence[ShareTarget]:
    """What the request reads. Each request begins with another partition, so that a limit does not
    favour the same ones every time."""
    if request.is_renew_ack or request.max_records <= 0 or request.max_bytes <= 0:
        return ()
    targets = list(session.targets.values())
    first = request.session_epoch % max(1, len(targets))
    return targets[first:] + targets[:first]


async def _fetched_topics(
    answers: Iterable[tuple[ShareTarget, ShareFetchedPartition]], results: ShareResults, pace: Pace
) -> list[ShareFetchedTopic]:
    topics: dict[TopicId, dict[int, ShareFetchedPartition]] = {}
    for target, answer in answers:
        if pace.due():
            await pace.turn()
        topic_id, partition = target.key
        topics.setdefault(topic_id, {})[partition] = answer
    for (topic_id, partition), error in results.items():
        if pace.due():
            await pace.turn()
        answered = topics.setdefault(topic_id, {})
        answer = answered.get(partition) or ShareFetchedPartition(partition)
        if error is not None:
            answer = replace(
                answer, acknowledge_error=error.code, acknowledge_error_message=error.message
            )
        answered[partition] = answer
    return [ShareFetchedTopic(topic_id, list(some.values())) for topic_id, some in topics.items()]
