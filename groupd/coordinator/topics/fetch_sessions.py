"""Fetch sessions (KIP-227): a consumer names its partitions once, then only what has changed.

Rules are Kafka's. A full fetch of epoch 0 opens a session, if there is room; each later request
carries the next epoch (1, 2, ... 2^31-1, 1) and names only the partitions that are new, that it
reads from another place, or that it forgets. The reply leaves out partitions about which there is
nothing new. A full fetch ends the session that it names; a session without partitions
ends.

When all slots are taken, a new session takes the slot of one that was not used for two minutes, or
of the smallest session that is older than that, if the new one has more partitions. Besides, the
partitions of all sessions together are limited; where they would be too many the client has to go
on with full fetches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.pace import Pace
from groupd.coordinator.topics.partition import ReadableLog
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.data import (
    FetchDataTopic,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    ForgottenTopic,
)

NO_SESSION = 0
NEW_SESSION_EPOCH = 0
NO_SESSION_EPOCH = -1
FULL_FETCH_EPOCHS = (NEW_SESSION_EPOCH, NO_SESSION_EPOCH)
"""Session epochs of a fetch that names everything."""

EVICTION_MS = 120_000
PARTITIONS_MAX = 250_000
"""Limit on the partitions of all sessions together. Each takes some 400 bytes."""

_INT_MAX = 2**31 - 1
_NEVER = -1

TargetKey = tuple[str | TopicId, int]
"""Topic, by name or by id as the requests have it, and partition."""


class FetchTarget:
    """A partition that a Fetch reads, of one request or of a whole session. `name` or `topic_id` is
    empty, as in the request. `high_watermark` and `log_start_offset`: what the client has been
    told last."""

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

    def read_from(self, asked: FetchPartition) -> None:
        """The client names the partition again."""
        self.asked = asked
        self._seen_log = None

    def update(self, answer: FetchedPartition) -> bool:
        """Remember what the reply says. False if that is nothing new, so it can be left out."""
        failed = answer.error is not ErrorCode.NONE
        is_new = (
            failed
            or bool(answer.records)
            or answer.diverging_epoch is not None
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
        )
        self._seen_log = None
        # After an error the next reply says everything again.
        self.high_watermark = _NEVER if failed else answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        return is_new

    def exhausted(self, log: ReadableLog, changes: int, isolation: int) -> None:
        """The client has all that readers of this isolation level could see of `log` after so many
        changes. Until the log changes it need not be read again."""
        self._seen_log, self._seen_changes, self._seen_isolation = log, changes, isolation

    def unchanged(self, isolation: int) -> ReadableLog | None:
        """The log, if it is still as it was when it was exhausted."""
        log = self._seen_log
        if log is None or log.closed or log.changes != self._seen_changes:
            return None
        return log if isolation == self._seen_isolation else None


Answer = tuple[FetchTarget, FetchedPartition]


class FetchSession:
    """`targets`: what is read next, in order; a partition that gave records goes to the end."""

    __slots__ = (
        "by_id",
        "counted",
        "created_ms",
        "epoch",
        "last_used_ms",
        "session_id",
        "targets",
    )

    def __init__(
        self, session_id: int, by_id: bool, targets: dict[TargetKey, FetchTarget], now_ms: int
    ) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.targets = targets
        self.counted = len(targets)
        """Partitions that count for the limit."""
        self.epoch = next_epoch(NEW_SESSION_EPOCH)
        self.created_ms = self.last_used_ms = now_ms


def next_epoch(epoch: int) -> int:
    return 1 if epoch == _INT_MAX else epoch + 1


class FetchSessions:
    """All sessions of this broker, by id. `new_id()` gives a random UUID. Times are monotonic."""

    def __init__(
        self,
        config: CoordinatorConfig,
        new_id: Callable[[], str],
        partitions_max: int = PARTITIONS_MAX,
    ) -> None:
        self._slots = config.fetch_session_slots
        self._new_id = new_id
        self._partitions_max = partitions_max
        # By last use, the longest unused one first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._partitions = 0
        self.evicted = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """How many partitions all sessions have together."""
        return self._partitions

    async def begin(
        self, request: FetchRequest, *, by_id: bool, now_ms: int, pace: Pace
    ) -> FetchContext:
        """What a request is to read. `by_id`: topics are named by id. Raises ApiError
        FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR."""
        named = await _targets(request.topics, pace)
        if request.session_epoch in FULL_FETCH_EPOCHS:
            self._end(request.session_id)
            opens = request.session_epoch == NEW_SESSION_EPOCH
            return FetchContext(self, named, opens=opens, by_id=by_id)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # Before anything is awaited: another request with the same epoch is one too many.
        session.epoch = epoch = next_epoch(session.epoch)
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        try:
            await _update(session.targets, named, request.forgotten, pace)
        finally:
            # What the client has named counts, also if it has gone by now.
            ended = self._sessions.get(session.session_id) is not session
            if not ended:
                self._partitions += len(session.targets) - session.counted
                session.counted = len(session.targets)
        if ended:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if not session.targets:
            self._end(session.session_id)
            return FetchContext(self, named, opens=False, by_id=by_id)
        if self._partitions > self._partitions_max:
            self._end(session.session_id)
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        return FetchContext(
            self, session.targets, opens=False, by_id=by_id, session=session, epoch=epoch
        )

    def open(self, targets: dict[TargetKey, FetchTarget], *, by_id: bool, now_ms: int) -> int:
        """The id of a new session; NO_SESSION if there is no room for it."""
        if not targets or not self._make_room(len(targets), now_ms):
            return NO_SESSION
        session_id = NO_SESSION
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = int(self._new_id()[:8], 16) & _INT_MAX
        self._sessions[session_id] = FetchSession(session_id, by_id, targets, now_ms)
        self._partitions += len(targets)
        return session_id

    def _make_room(self, size: int, now_ms: int) -> bool:
        if self._slots == 0 or size > self._partitions_max:
            return False
        if len(self._sessions) >= self._slots and not self._evict(size, now_ms):
            return False
        return self._partitions + size <= self._partitions_max

    def _evict(self, size: int, now_ms: int) -> bool:
        oldest = next(iter(self._sessions.values()))
        if now_ms - oldest.last_used_ms <= EVICTION_MS:
            settled = [
                session
                for session in self._sessions.values()
                if session.last_used_ms - session.created_ms > EVICTION_MS
            ]
            if not settled:
                return False
            oldest = min(settled, key=lambda session: (len(session.targets), session.session_id))
            if size <= len(oldest.targets):
                return False
        self._end(oldest.session_id)
        self.evicted += 1
        return True

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= session.counted


class FetchContext:
    """One request: what it reads, and which of its answers go into the reply."""

    __slots__ = ("_by_id", "_epoch", "_named", "_opens", "_session", "_sessions", "targets")

    def __init__(
        self,
        sessions: FetchSessions,
        targets: dict[TargetKey, FetchTarget],
        *,
        opens: bool,
        by_id: bool,
        session: FetchSession | None = None,
        epoch: int = NO_SESSION_EPOCH,
    ) -> None:
        """`epoch`: the session's epoch when it took the request."""
        self.targets = list(targets.values())
        self._named = targets
        self._sessions = sessions
        self._opens = opens
        self._by_id = by_id
        self._session = session
        self._epoch = epoch

    async def finish(
        self, answers: Sequence[Answer], now_ms: int, pace: Pace
    ) -> tuple[int, Sequence[Answer]]:
        """The session id of the reply and its partitions. Raises ApiError
        INVALID_FETCH_SESSION_EPOCH when the session has had another request meanwhile."""
        if self._session is not None:
            return self._session.session_id, await self._new(self._session, answers, pace)
        if not self._opens:
            return NO_SESSION, answers
        for target, answer in answers:
            if pace.due():
                await pace.turn()
            target.update(answer)
        return self._sessions.open(self._named, by_id=self._by_id, now_ms=now_ms), answers

    def left_alone(self) -> ErrorCode:
        """The error of a reply that leaves the session as it is: INVALID_FETCH_SESSION_EPOCH when
        the session has had another request meanwhile."""
        try:
            if self._session is not None:
                self._check_epoch(self._session)
        except ApiError as error:
            return error.code
        return ErrorCode.NONE

    async def _new(
        self, session: FetchSession, answers: Sequence[Answer], pace: Pace
    ) -> Sequence[Answer]:
        """The answers that say something new. Others of the session's requests may come while it
        is looked for."""
        new = []
        self._check_epoch(session)
        for target, answer in answers:
            if pace.due():
                await pace.turn()
                self._check_epoch(session)
            if target.update(answer):
                new.append((target, answer))
                if answer.records and session.targets.pop(target.key, None) is not None:
                    session.targets[target.key] = target
        return new

    def _check_epoch(self, session: FetchSession) -> None:
        if session.epoch != self._epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)

    @property
    def session_id(self) -> int:
        return NO_SESSION if self._session is None else self._session.session_id


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


async def _update(
    targets: dict[TargetKey, FetchTarget],
    named: dict[TargetKey, FetchTarget],
    forgotten: Iterable[ForgottenTopic],
    pace: Pace,
) -> None:
    """What a request changes in what its session reads."""
    for key, target in named.items():
        if pace.due():
            await pace.turn()
        known = targets.get(key)
        if known is None:
            targets[key] = target
        else:
            known.read_from(target.asked)
    for topic in forgotten:
        if pace.due():
            await pace.turn()
        for partition in topic.partitions:
            if pace.due():
                await pace.turn()
            targets.pop((topic.name or topic.topic_id, partition), None)
