"""Share sessions (KIP-932): which partitions a member of a share group reads at this node
(docs/spec/share-group.md#4.1). ShareFetch and ShareAcknowledge share the epochs of a session.

A member has one session at a node. It ends with the connection on which it was opened. There is no
eviction: when all slots are taken, a new member has to wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from groupd.coordinator.topics.sessions import ReaderSession, Sessions, TargetKey
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_fetch import ShareFetchedPartition

PARTITIONS_MAX = 250_000
"""The limit on the partitions of all sessions together. Each takes about 300 bytes."""

ShareSessionKey = tuple[str, str]
"""(group id, member id)"""


def _nothing() -> None:
    """Does nothing: no callback was registered."""


class ShareTarget:
    """A partition of a session. `key`: its topic id and its number."""

    __slots__ = ("_has_news", "key", "partition")

    def __init__(self, key: tuple[TopicId, int]) -> None:
        self.key = key
        self.partition = key[1]
        self._has_news = True
        """Whether the next reply names the partition even if it has no records: the partition is
        new, or has failed."""

    def named_again(self, by: ShareTarget) -> None:
        """See `SessionTarget`. There is nothing to change."""

    def update(self, answer: ShareFetchedPartition) -> bool:
        """See `SessionTarget`."""
        failed = answer.error is not ErrorCode.NONE
        is_new = self._has_news or failed or bool(answer.records)
        self._has_news = failed
        return is_new


class ShareSession(ReaderSession[ShareSessionKey, ShareTarget]):
    """A share session. `outlive_connection()` makes it independent of its connection; called when
    the session has ended, so that the connection forgets it."""

    __slots__ = ("outlive_connection",)

    def __init__(self, key: ShareSessionKey, targets: dict[TargetKey, ShareTarget]) -> None:
        super().__init__(key, targets)
        self.outlive_connection: Callable[[], None] = _nothing


class ShareSessions(Sessions[ShareSession]):
    """All share sessions of this node. `group_left(group id)` is called when the last session of a
    group has ended; another one may begin before the caller goes on."""

    unknown = ErrorCode.SHARE_SESSION_NOT_FOUND
    wrong_epoch = ErrorCode.INVALID_SHARE_SESSION_EPOCH

    def __init__(self, slots: int, group_left: Callable[[str], None]) -> None:
        super().__init__(slots, PARTITIONS_MAX)
        self._group_left = group_left
        self._by_group: Counter[str] = Counter()

    def add(self, session: ShareSession) -> None:
        super().add(session)
        self._by_group[session.key[0]] += 1

    def end(self, session: ShareSession) -> None:
        if not self.has(session):
            return
        super().end(session)
        session.outlive_connection()
        group_id = session.key[0]
        self._by_group[group_id] -= 1
        if not self._by_group[group_id]:
            del self._by_group[group_id]
            self._group_left(group_id)

    def has(self, session: ShareSession) -> bool:
        """Whether the session has not ended."""
        return self._sessions.get(session.key) is session

    def awaits(self, session: ShareSession, epoch: int) -> bool:
        """Whether `epoch` is the session's next epoch, and it has not ended."""
        return session.epoch == epoch and self._sessions.get(session.key) is session

    def all_of(self, group_id: str) -> list[ShareSession]:
        """The sessions of a group."""
        return [session for session in self._sessions.values() if session.key[0] == group_id]

    def of_group(self, group_id: str) -> int:
        """The number of sessions of a group."""
        return self._by_group[group_id]
