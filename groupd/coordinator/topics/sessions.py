"""What all sessions of readers share: a client names its partitions once, then only what changes.
These are the common rules of Kafka's fetch sessions (KIP-227) and share sessions (KIP-932).

Each request of a session carries the next epoch (1, 2, ... 2^31-1, 1), so none counts twice, and a
request that a later one has overtaken is refused. A reply has only news. Partitions that gave
records go to the end of the order, so that a limit does not favour the same ones every time. The
number of sessions is limited, and the number of partitions of all sessions together.

Each kind of session is a subclass. It defines the key of a session, what is remembered of a
partition (`SessionTarget`), which session is evicted for a new one, and the errors.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, Self, TypeVar

from groupd.coordinator.core.slices import Pace
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId

NEW_SESSION_EPOCH = 0
"""The epoch in a request that opens a session."""

NO_SESSION_EPOCH = -1
"""The epoch in a request without a session, or in the last request of a session."""

_INT_MAX = 2**31 - 1

TargetKey = tuple[str | TopicId, int]
"""A topic, by name or by id as in the request, and a partition."""


def next_epoch(epoch: int) -> int:
    return 1 if epoch == _INT_MAX else epoch + 1


class SessionTarget(Protocol):
    """A partition of a session, and what its client knows of it."""

    @property
    def key(self) -> TargetKey: ...

    def named_again(self, by: Self) -> None:
        """A request has named the partition again; `by` is the target that was made from it."""
        ...

    def update(self, answer: Any) -> bool:
        """Remember what the reply says; `answer.records` are the records in it. Returns False if
        there is no news, so that the partition can be left out."""
        ...


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=SessionTarget)


class ReaderSession(Generic[K, T]):
    """A session. `key`: identifies the session. `targets`: the partitions to read, in order.
    `epoch`: of the next request."""

    __slots__ = ("counted", "epoch", "key", "targets")

    def __init__(self, key: K, targets: dict[TargetKey, T]) -> None:
        self.key = key
        self.targets = targets
        self.counted = len(targets)
        """How many of its partitions are counted towards the limit."""
        self.epoch = next_epoch(NEW_SESSION_EPOCH)


S = TypeVar("S", bound=ReaderSession[Any, Any])


class Sessions(Generic[S]):
    """All sessions of one kind: at most `slots`, with at most `partitions_max` partitions together.
    `unknown`: the error for a request that names an unknown session. `wrong_epoch`: the error for a
    request that comes out of order."""

    unknown: ErrorCode
    wrong_epoch: ErrorCode

    def __init__(self, slots: int, partitions_max: int) -> None:
        self._slots = slots
        self._partitions_max = partitions_max
        # In the order of last use, the least recently used one first.
        self._sessions: OrderedDict[Hashable, S] = OrderedDict()
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def partitions(self) -> int:
        """The number of partitions of all sessions together."""
        return self._partitions

    def get(self, key: Hashable) -> S | None:
        return self._sessions.get(key)

    def find(self, key: Hashable, epoch: int) -> S:
        """The session of a request. Raises ApiError with `unknown` or `wrong_epoch`."""
        session = self._sessions.get(key)
        if session is None:
            raise ApiError(self.unknown)
        self.check(session, epoch)
        return session

    def take_epoch(self, session: S) -> int:
        """Take the request for which `find` has returned the session: a further request with the
        same epoch is refused. Call it before anything is awaited. Returns the next epoch, for
        `check` and `changed_answers`."""
        session.epoch = epoch = next_epoch(session.epoch)
        self._sessions.move_to_end(session.key)
        return epoch

    def check(self, session: S, epoch: int) -> None:
        """Raises ApiError with `wrong_epoch` if `epoch` is not the session's next epoch, because
        another request has come meanwhile."""
        if session.epoch != epoch:
            raise ApiError(self.wrong_epoch)

    async def change(
        self,
        session: S,
        named: Mapping[TargetKey, Any],
        forgotten: Iterable[tuple[str | TopicId, Sequence[int]]],
        pace: Pace,
    ) -> None:
        """Change the partitions of a session: add or update those that a request names, and remove
        those that it forgets (by topic). Raises ApiError with `unknown` if the session has ended
        meanwhile, or is ended because there are too many partitions."""
        targets = session.targets
        for key, target in named.items():
            if pace.due():
                await pace.turn()
            known = targets.get(key)
            if known is None:
                targets[key] = target
            else:
                known.named_again(target)
        for topic, partitions in forgotten:
            if pace.due():
                await pace.turn()
            for partition in partitions:
                if pace.due():
                    await pace.turn()
                targets.pop((topic, partition), None)
        if self._sessions.get(session.key) is not session:
            raise ApiError(self.unknown)
        self._partitions += len(targets) - session.counted
        session.counted = len(targets)
        if self._partitions > self._partitions_max:
            self.end(session)
            raise ApiError(self.unknown)

    async def changed_answers(
        self, session: S, epoch: int, answers: Iterable[tuple[T, Any]], pace: Pace
    ) -> list[tuple[T, Any]]:
        """Returns the answers that tell the client something new. Other requests of the session may
        come meanwhile. Raises ApiError with `wrong_epoch` if one did."""
        new = []
        self.check(session, epoch)
        for target, answer in answers:
            if pace.due():
                await pace.turn()
                self.check(session, epoch)
            if target.update(answer):
                new.append((target, answer))
                if answer.records and session.targets.pop(target.key, None) is not None:
                    session.targets[target.key] = target
        return new

    def make_room(self, size: int, now_ms: int) -> bool:
        """Whether a new session with `size` partitions may be opened. If all slots are taken,
        another session is ended for it if possible."""
        if self._slots == 0 or size > self._partitions_max:
            return False
        if len(self._sessions) >= self._slots:
            victim = self.victim(size, now_ms)
            if victim is None:
                return False
            self.end(victim)
        return self._partitions + size <= self._partitions_max

    def add(self, session: S) -> None:
        """Add a session after `make_room` has allowed it. Its key must not be in use."""
        self._sessions[session.key] = session
        self._partitions += session.counted

    def victim(self, size: int, now_ms: int) -> S | None:
        """The session to end for a new one with `size` partitions; None by default."""
        return None

    def end(self, session: S) -> None:
        """End the session, unless it has ended already. Another session with the same key goes
        on."""
        if self._sessions.get(session.key) is session:
            del self._sessions[session.key]
            self._partitions -= session.counted
