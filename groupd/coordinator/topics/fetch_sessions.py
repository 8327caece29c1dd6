"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what has changed. The
rules are Kafka's; `groupd.coordinator.topics.sessions` has those of all kinds of sessions.

A full fetch with epoch 0 opens a session if there is a free slot. Each later request names only the
partitions that are new, that it reads from another offset, or that it forgets. The reply leaves out
partitions without news. A full fetch ends the session that it names, and a session without
partitions ends. When all slots are taken, a new session gets the slot of a session that was not
used for two minutes. Else it gets that of the smallest session that has been in use for longer than
that, if the new one has more partitions. If all sessions together would have too many partitions,
the client must go on with full fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import Pace
from groupd.coordinator.core.types import Instant
from groupd.coordinator.topics.partition import ReadableLog
from groupd.coordinator.topics.sessions import (
    NEW_SESSION_EPOCH,
    NO_SESSION_EPOCH,
    ReaderSession,
    Sessions,
    TargetKey,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.data import (
    FetchDataTopic,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
)

NO_SESSION = 0
FULL_FETCH_EPOCHS = (NEW_SESSION_EPOCH, NO_SESSION_EPOCH)
"""The session epochs of a fetch that names all of its partitions."""

EVICTION_MS = 120_000
PARTITIONS_MAX = 250_000
"""The limit on the partitions of all sessions together. Each takes about 400 bytes."""

_INT_MAX = 2**31 - 1
_NEVER = -1


class FetchTarget:
    """A partition that a Fetch reads, of one request or of a whole session. `name` or `topic_id` is
    empty, as in the request. `high_watermark`, `log_start_offset`: those of the last reply."""

    __slots__ = (
        "_seen_changes",
        "_seen_isolation",
        "_seen_log",
        "asked",
        "high_watermark",
        "log_start_offset",
        "name",
        "topic_id",
        "topic_name",
    )

    def __init__(self, name: str, topic_id: TopicId, asked: FetchPartition) -> None:
        self.name = name
        self.topic_id = topic_id
        self.asked = asked
        self.high_watermark = self.log_start_offset = _NEVER
        self.topic_name = name
        self._seen_log: ReadableLog | None = None
        self._seen_changes = self._seen_isolation = _NEVER

    @property
    def key(self) -> TargetKey:
        return self.name or self.topic_id, self.asked.partition

    def named_again(self, by: FetchTarget) -> None:
        self.asked = by.asked
        self._seen_log = None

    def update(self, answer: FetchedPartition) -> bool:
        """See `SessionTarget`."""
        failed = answer.error is not ErrorCode.NONE
        is_new = (
            failed
            or bool(answer.records)
            or answer.diverging_epoch is not None
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
        )
        self._seen_log = None
        # The first reply after an error has to name the partition again.
        self.high_watermark = _NEVER if failed else answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        return is_new

    def exhausted(self, log: ReadableLog, changes: int, isolation: int) -> None:
        """The client has everything that readers of this isolation level could see of `log` at this
        number of changes. Until the log changes it need not be read again."""
        self._seen_log, self._seen_changes, self._seen_isolation = log, changes, isolation

    def unchanged(self, isolation: int) -> ReadableLog | None:
        """The log, if it has not changed since it was exhausted; else None."""
        log = self._seen_log
        if log is None or log.closed or log.changes != self._seen_changes:
            return None
        return log if isolation == self._seen_isolation else None


SessionAnswer = tuple[FetchTarget, FetchedPartition]


class FetchSession(ReaderSession[int, FetchTarget]):
    """A fetch session. `by_id`: its requests name topics by id."""

    __slots__ = ("by_id", "created_ms", "last_used_ms")

    def __init__(
        self, session_id: int, by_id: bool, targets: dict[TargetKey, FetchTarget], now_ms: int
    ) -> None:
        super().__init__(session_id, targets)
        self.by_id = by_id
        self.created_ms = self.last_used_ms = now_ms


class FetchSessions(Sessions[FetchSession]):
    """All fetch sessions of this broker, by id. `new_id()` returns a random UUID. Times are
    monotonic."""

    unknown = ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    wrong_epoch = ErrorCode.INVALID_FETCH_SESSION_EPOCH

    def __init__(self, config: CoordinatorConfig, new_id: Callable[[], str]) -> None:
        super().__init__(config.fetch_session_slots, PARTITIONS_MAX)
        self._new_id = new_id

    async def begin(
        self, request: FetchRequest, *, by_id: bool, now_ms: int, pace: Pace
    ) -> FetchContext:
        """What a request is to read. `by_id`: topics are named by id. Raises ApiError
        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR."""
        named = await _targets(request.topics, pace)
        if request.session_epoch in FULL_FETCH_EPOCHS:
            if (known := self.get(request.session_id)) is not None:
                self.end(known)
            opens = request.session_epoch == NEW_SESSION_EPOCH
            return FetchContext(self, named, now_ms, opens=opens, by_id=by_id)
        session = self.find(request.session_id, request.session_epoch)
        if session.by_id != by_id:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        epoch = self.take_epoch(session)
        session.last_used_ms = now_ms
        forgotten = (
            (topic.name or topic.topic_id, topic.partitions) for topic in request.forgotten
        )
        await self.change(session, named, forgotten, pace)
        if not session.targets:
            self.end(session)
            return FetchContext(self, named, now_ms, opens=False, by_id=by_id)
        return FetchContext(
            self, session.targets, now_ms, opens=False, by_id=by_id, session=session, epoch=epoch
        )

    def open(self, targets: dict[TargetKey, FetchTarget], *, by_id: bool, now_ms: int) -> int:
        """Open a session. Returns its id; NO_SESSION if there is no free slot."""
        if not targets or not self.make_room(len(targets), now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or self.get(session_id) is not None:
            session_id = int(self._new_id()[:8], 16) & _INT_MAX
        self.add(FetchSession(session_id, by_id, targets, now_ms))
        return session_id

    def victim(self, size: int, now_ms: int) -> FetchSession | None:
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms > EVICTION_MS:
            return oldest
        settled = [
            session
            for session in self._sessions.values()
            if session.last_used_ms - session.created_ms > EVICTION_MS
        ]
        smallest = min(
            settled, key=lambda session: (len(session.targets), session.key), default=None
        )
        return None if smallest is None or size <= len(smallest.targets) else smallest


class FetchContext:
    """One request: the partitions that it reads, and which answers go into the reply. `begun_ms`:
    the time at which the request came."""

    __slots__ = (
        "_by_id",
        "_epoch",
        "_named",
        "_opens",
        "_session",
        "_sessions",
        "begun_ms",
        "targets",
    )

    def __init__(
        self,
        sessions: FetchSessions,
        targets: dict[TargetKey, FetchTarget],
        begun_ms: int,
        *,
        opens: bool,
        by_id: bool,
        session: FetchSession | None = None,
        epoch: int = NO_SESSION_EPOCH,
    ) -> None:
        """`epoch`: the session's next epoch after it has taken this request."""
        self.targets = list(targets.values())
        self.begun_ms = begun_ms
        self._named = targets
        self._sessions = sessions
        self._opens = opens
        self._by_id = by_id
        self._session = session
        self._epoch = epoch

    async def finish(
        self, answers: Sequence[SessionAnswer], elapsed: Callable[[], Instant], pace: Pace
    ) -> tuple[int, Sequence[SessionAnswer]]:
        """The session id and the partitions of the reply. Raises ApiError
        INVALID_FETCH_SESSION_EPOCH if the session has taken another request meanwhile."""
        if self._session is not None:
            new = await self._sessions.changed_answers(self._session, self._epoch, answers, pace)
            return self.session_id, new
        if not self._opens:
            return NO_SESSION, answers
        for target, answer in answers:
            if pace.due():
                await pace.turn()
            target.update(answer)
        now_ms = elapsed().monotonic_ms
        return self._sessions.open(self._named, by_id=self._by_id, now_ms=now_ms), answers

    def left_alone(self) -> ErrorCode:
        """The error code of a reply that leaves the session as it is: INVALID_FETCH_SESSION_EPOCH
        if the session has taken another request meanwhile, else NONE."""
        try:
            if self._session is not None:
                self._sessions.check(self._session, self._epoch)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    @property
    def session_id(self) -> int:
        return NO_SESSION if self._session is None else self._session.key


async def _targets(topics: Iterable[FetchDataTopic], pace: Pace) -> dict[TargetKey, FetchTarget]:
    """The partitions of a request, in its order. If one is named twice, the last mention counts."""
    found: dict[TargetKey, FetchTarget] = {}
    for topic in topics:
        if pace.due():
            await pace.turn()
        for asked in topic.partitions:
            if pace.due():
                await pace.turn()
            target = FetchTarget(topic.name, topic.topic_id, asked)
            found[target.key] = target
    return found
