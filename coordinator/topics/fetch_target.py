"""A partition that a Fetch reads, of one request or of a whole session."""

from __future__ import annotations

from groupd.coordinator.topics.partition import ReadableLog
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.data import FetchedPartition, FetchPartition

TargetKey = tuple[str | TopicId, int]
"""Topic, by name or by id as the requests have it, and partition."""

_NEVER = -1


class FetchTarget:
    """`name` or `topic_id` is empty, as in the request. `high_watermark` and `log_start_offset`:
    what the client was told last."""

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

    def told(self, answer: FetchedPartition) -> bool:
        """Take in what a reply says. False if that is nothing new, so it can be left out."""
        failed = answer.error is not ErrorCode.NONE
        news = (
            failed
            or bool(answer.records)
            or answer.diverging_epoch is not None
            or answer.high_watermark != self.high_watermark
            or answer.log_start_offset != self.log_start_offset
        )
        self._seen_log = None
        # After an error everything is to be told again.
        self.high_watermark = _NEVER if failed else answer.high_watermark
        self.log_start_offset = answer.log_start_offset
        return news

    # A partition that has not changed since it had nothing to give is not read again -----------

    def exhausted(self, log: ReadableLog, changes: int, isolation: int) -> None:
        """The client was told all that readers of this isolation level could see of `log` after
        so many changes."""
        self._seen_log, self._seen_changes, self._seen_isolation = log, changes, isolation

    def unchanged(self, isolation: int) -> ReadableLog | None:
        """The log if it is as it was then."""
        log = self._seen_log
        if log is None or log.closed or log.changes != self._seen_changes:
            return None
        return log if isolation == self._seen_isolation else None
