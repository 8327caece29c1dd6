"""Commits that come again with other offsets: the quick way of what consumers do most.

Nothing is taken for granted but the request itself: the group is asked at every commit whether it
lets the member commit, as `offsets.commit` asks it, and that the topics are the same is known by
the image. What comes out, in the log and in memory, is what `offsets.commit` makes of such a
request. Whatever is not accepted as a whole is left to that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

from groupd.coordinator.core.offsets.admission import NONE_TOO_LONG, check_group
from groupd.coordinator.core.offsets.store import ByPartition, StoredOffset
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Event, Instant
from groupd.protocol.errors import ApiError
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.offsets import CommitTopic, OffsetCommitReply, OffsetCommitRequest
from groupd.protocol.records.commit_layout import CommitLayout, TopicLayout


class CommitAgain:
    """A commit that was accepted as a whole, with `reply`. `request`: as the front end let it
    through, with the offsets of then; `layout`: of its records, once it is known to come again."""

    __slots__ = ("_entries", "_image", "_layout", "api_version", "events", "reply", "request")

    def __init__(
        self,
        state: ShardState,
        request: OffsetCommitRequest,
        api_version: int,
        reply: OffsetCommitReply,
        events: list[Event],
    ) -> None:
        self._image = state.image
        self._layout: CommitLayout | None = None
        self._entries: list[tuple[list[int], list[int]]] = []
        """By topic: partitions, and their leader epochs."""
        self.request = request
        self.api_version = api_version
        self.reply = reply
        self.events = events

    @property
    def layout(self) -> CommitLayout:
        assert self._layout is not None, "not prepared"
        return self._layout

    def prepare(self) -> bool:
        """Make the layout; False: there is none for such commits."""
        request = self.request
        if request.retention_time_ms != -1 or not all(map(_is_bare, request.topics)):
            return False
        self._entries = [
            (
                [entry.partition for entry in topic.partitions],
                [entry.leader_epoch for entry in topic.partitions],
            )
            for topic in request.topics
        ]
        self._layout = CommitLayout(
            [
                TopicLayout(request.group_id, topic.name, topic.topic_id, *entries)
                for topic, entries in zip(request.topics, self._entries, strict=True)
            ]
        )
        return True

    def admitted(self, state: ShardState, now: Instant) -> bool:
        """Whether the same commit would be accepted now, as a whole; then its effect on the
        member's session has been had."""
        request = self.request
        group = state.groups.get(request.group_id)
        if group is None or state.image is not self._image:
            return False
        try:
            check_group(group, request, self.api_version, NONE_TOO_LONG, transactional=False)
        except ApiError:
            return False
        group.on_offset_commit(request.member_id, request.group_instance_id, now, state.deadlines)
        return True

    def stored(
        self, offsets: Sequence[int], commit_timestamp_ms: int, log_offset: int
    ) -> Iterator[tuple[str, ByPartition]]:
        """What the records leave behind in memory, by topic. `offsets`: in the order of the
        commit; `log_offset`: of its first record."""
        at = 0
        for topic, (partitions, leader_epochs) in zip(
            self.request.topics, self._entries, strict=True
        ):
            end = at + len(partitions)
            # Without a line of Python for each.
            fields = zip(
                offsets[at:end],
                leader_epochs,
                repeat(""),
                repeat(commit_timestamp_ms),
                repeat(-1),
                repeat(topic.topic_id),
                range(log_offset + at, log_offset + end),
                strict=False,
            )
            stored = map(tuple.__new__, repeat(StoredOffset), fields)
            yield topic.name, dict(zip(partitions, stored, strict=True))
            at = end


def _is_bare(topic: CommitTopic) -> bool:
    return topic.topic_id != NO_TOPIC_ID and not any(entry.metadata for entry in topic.partitions)
