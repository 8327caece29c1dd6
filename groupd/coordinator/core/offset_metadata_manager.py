"""OffsetMetadataManager: the committed and pending offsets of a shard.

Connects `core/offsets` and `core/offset_sweeps` with the shard's state. Handlers return records;
`replay` and `replay_marker` write. This code knows groups only through the protocols `Group` and
`OffsetOwner`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import repeat

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.metadata_image import TopicDeletion
from groupd.coordinator.core.offset_sweeps import SLICE_BYTES, Sweep, expire_offsets, forget_topics
from groupd.coordinator.core.offsets.delete import delete_offsets
from groupd.coordinator.core.offsets.fetch import fetch_offsets
from groupd.coordinator.core.offsets.replay import apply_marker, replay_offset
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt, Instant, Outcome, RequestContext
from groupd.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetFetchGroup,
)
from groupd.protocol.records.commit_records import CommitRecords
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record

SWEEP_DEADLINE: DeadlineKey = ("offsets-sweep", "", "")
"""The shard calls `sweep` when this deadline fires."""

FORGET_DEADLINE: DeadlineKey = ("offsets-forget", "", "")
"""The shard calls `forget` when this deadline fires."""


class OffsetMetadataManager:
    """The offsets of the shard that has this `state`."""

    __slots__ = (
        "_deleted",
        "_forgetting",
        "_slice_bytes",
        "_state",
        "_sweep",
        "resting_ms",
        "store",
    )

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._sweep: Sweep | None = None
        self._forgetting: Sweep | None = None
        self._deleted: set[TopicDeletion] = set()
        """Deleted topics whose offsets are removed after those of the topics in `_forgetting`."""
        # The limit of a log is that with which it was opened, even if a client changes the setting.
        self._slice_bytes = min(SLICE_BYTES, state.config.message_max_bytes // 2)
        self.store = OffsetStore()
        self.resting_ms: int | None = None
        """When the next sweep is due. Only set while there is no group, and so no deadline for the
        sweep."""

    def start(self, now: Instant) -> None:
        """Schedule the next sweep, a full interval after the load or the end of the last sweep."""
        interval_ms = self._state.config.offsets_retention_check_interval_ms
        self.resting_ms = now.monotonic_ms + interval_ms
        self.go_on()

    def go_on(self) -> None:
        """Set the deadline of a sweep that rests, if there is a group now."""
        if self.resting_ms is not None and self._state.groups:
            self._state.deadlines.set(SWEEP_DEADLINE, self.resting_ms)
            self.resting_ms = None

    def fetch(
        self, state: ShardState, context: RequestContext, request: OffsetFetchGroup, now: Instant
    ) -> Outcome:
        """Answers an OffsetFetch with a FetchedGroup (docs/spec/offsets-and-log.md#3.2)."""
        fetched = fetch_offsets(state, self.store, request)
        return Outcome(replies=[(context.token, fetched)], gate=request.group_id)

    def delete(
        self, context: RequestContext, request: OffsetDeleteRequest, now: Instant
    ) -> Outcome:
        """Answers an OffsetDelete with an OffsetDeleteReply (docs/spec/offsets-and-log.md#3.3)."""
        return delete_offsets(self._state, self.store, context, request)

    def sweep(self, now: Instant) -> Outcome:
        """Do one slice of the sweep of docs/spec/offsets-and-log.md#4, and set the deadline of the
        next slice or sweep."""
        begin = partial(expire_offsets, self._state, self.store)
        work = self._sweep or Sweep(self._slice_bytes, begin)
        outcome = work.next_slice(now)
        if work.done:
            self._sweep = None
            self.start(now)
        else:
            self._sweep = work
            self._state.deadlines.set(SWEEP_DEADLINE, now.monotonic_ms + 1)
        return outcome

    def on_topics_deleted(self, deleted: Iterable[TopicDeletion], now: Instant) -> Outcome:
        """Remove the offsets of these topics; the outcome is the first slice."""
        self._deleted.update(deleted)
        return self.forget(now)

    def forget_soon(self, deleted: Iterable[TopicDeletion], now: Instant) -> None:
        """Remove the offsets of these topics, the first ones with a deadline that is due at
        once."""
        self._deleted.update(deleted)
        self._state.deadlines.set(FORGET_DEADLINE, now.monotonic_ms)

    @property
    def has_slices_left(self) -> bool:
        """Whether more slices are needed to remove the offsets of deleted topics. The records of
        slices that were done may not be durable yet, nor those of the last one."""
        return self._forgetting is not None or bool(self._deleted)

    def forget(self, now: Instant) -> Outcome:
        """Remove a slice of the offsets of deleted topics (docs/spec/offsets-and-log.md#4), and set
        the deadline of the next slice. It is due at once, because clients should not wait for
        it."""
        work = self._forgetting
        if work is None:
            deleted, self._deleted = tuple(self._deleted), set()
            begin = partial(forget_topics, self._state, self.store, deleted)
            work = self._forgetting = Sweep(self._slice_bytes, begin)
        outcome = work.next_slice(now)
        if work.done:
            self._forgetting = None
        if self.has_slices_left:
            self._state.deadlines.set(FORGET_DEADLINE, now.monotonic_ms)
        return outcome

    def replay(self, record: Record, at: AppliedAt) -> None:
        """Apply a type-0 or type-1 record."""
        key, value = record.key, record.value
        assert isinstance(key, OffsetCommitKey)
        assert value is None or isinstance(value, OffsetCommitValue)
        replay_offset(self.store, self._state.groups, self._state.simple_group, key, value, at)

    def replay_many(self, group_id: str, topic: str, offsets: dict[int, StoredOffset]) -> None:
        """`replay` of values of one topic outside transactions, by partition. The store may
        keep the dict, so the caller must not use it any more."""
        groups = self._state.groups
        if group_id not in groups:
            groups[group_id] = self._state.simple_group(group_id)
        self.store.put_many(group_id, topic, offsets)

    def replay_commits(self, commits: CommitRecords, offsets: Iterable[int]) -> None:
        """`replay` of the records of a commit outside transactions, at these log offsets."""
        new = tuple.__new__  # no call of a Python function for each record
        at = iter(offsets)
        times = commits.commit_ms, commits.expire_ms
        for topic in commits.topics:
            topic_id, metadata = topic.topic_id, topic.metadata or repeat("")
            columns = topic.partitions, topic.offsets, topic.leader_epochs, metadata, at
            stored = {
                partition: new(StoredOffset, (offset, epoch, text, *times, topic_id, log_offset))
                for partition, offset, epoch, text, log_offset in zip(*columns, strict=False)
            }
            self.replay_many(commits.group, topic.topic, stored)

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """Apply a producer's marker, COMMIT or ABORT; an unknown producer changes nothing."""
        apply_marker(self.store, producer_id, commit=commit)
