"""OffsetMetadataManager: the committed and pending offsets of a shard.

Ties the parts under `core/offsets` to the shard's state. Handlers return records; `replay` and
`replay_marker` write. Offsets know groups only through the protocols `Group` and
`OffsetOwner`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.metadata_image import TopicDeletion
from groupd.coordinator.core.offsets.delete import all_tombstones, delete_offsets, some_tombstones
from groupd.coordinator.core.offsets.fetch import fetch_offsets
from groupd.coordinator.core.offsets.replay import apply_marker, replay_offset
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset
from groupd.coordinator.core.offsets.sweeps import SLICE_BYTES, Sweep, expire_offsets, forget_topics
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt, Instant, Outcome, RequestContext
from groupd.protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetFetchGroup,
)
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record

SWEEP_DEADLINE: DeadlineKey = ("offsets-sweep", "", "")
"""The shard calls `sweep` when this deadline fires."""

FORGET_DEADLINE: DeadlineKey = ("offsets-forget", "", "")
"""The shard calls `forget` when this deadline fires."""


class OffsetMetadataManager:
    """The offsets of a shard, whose state is `state`."""

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
        """Topics that are to be forgotten after those that are being forgotten."""
        # A log keeps the limit that it was opened with, also if a client changes the setting.
        self._slice_bytes = min(SLICE_BYTES, state.config.message_max_bytes // 2)
        self.store = OffsetStore()
        self.resting_ms: int | None = None
        """When the next sweep is due, as long as there is no group and so no deadline for it."""

    def start(self, now: Instant) -> None:
        """The next sweep is due a full interval after the load, or after the one before."""
        interval_ms = self._state.config.offsets_retention_check_interval_ms
        self.resting_ms = now.monotonic_ms + interval_ms
        self.go_on()

    def go_on(self) -> None:
        """Set the deadline of a sweep that rests, if there is a group by now."""
        if self.resting_ms is not None and self._state.groups:
            self._state.deadlines.set(SWEEP_DEADLINE, self.resting_ms)
            self.resting_ms = None

    def fetch(self, context: RequestContext, request: OffsetFetchGroup, now: Instant) -> Outcome:
        """docs/spec/offsets-and-log.md#3.2. Reply FetchedGroup."""
        fetched = fetch_offsets(self._state, self.store, request)
        return Outcome(replies=[(context.token, fetched)], gate=request.group_id)

    def delete(
        self, context: RequestContext, request: OffsetDeleteRequest, now: Instant
    ) -> Outcome:
        """docs/spec/offsets-and-log.md#3.3. Reply OffsetDeleteReply."""
        return delete_offsets(self._state, self.store, context, request)

    def group_tombstones(self, group_id: str) -> list[Record]:
        """Tombstones of all offsets of a group, which come before the group's own tombstones."""
        return all_tombstones(self.store, group_id)

    def some_tombstones(self, group_id: str, at_most: int) -> list[Record]:
        """Tombstones of at most so many committed offsets of a group."""
        return some_tombstones(self.store, group_id, at_most)

    def sweep(self, now: Instant) -> Outcome:
        """A slice of docs/spec/offsets-and-log.md#4; arms the next slice or sweep."""
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
        """The offsets of these topics go, the first ones at once."""
        self._deleted.update(deleted)
        return self.forget(now)

    def forget_soon(self, deleted: Iterable[TopicDeletion], now: Instant) -> None:
        """The offsets of these topics go, the first ones with a deadline that is due at once."""
        self._deleted.update(deleted)
        self._state.deadlines.set(FORGET_DEADLINE, now.monotonic_ms)

    @property
    def has_slices_left(self) -> bool:
        """Whether more slices of forgetting deleted topics are to come. Those that have been may
        not be durable yet, the last one either."""
        return self._forgetting is not None or bool(self._deleted)

    def forget(self, now: Instant) -> Outcome:
        """A slice of what deleted topics leave behind (docs/spec/offsets-and-log.md#4); arms the
        next one, at the same time: clients are not to wait for it."""
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
        """A type-0 or type-1 record."""
        key, value = record.key, record.value
        assert isinstance(key, OffsetCommitKey)
        assert value is None or isinstance(value, OffsetCommitValue)
        replay_offset(self.store, self._state.groups, self._state.simple_group, key, value, at)

    def replay_many(self, group_id: str, topic: str, offsets: dict[int, StoredOffset]) -> None:
        """`replay` of values of one topic outside transactions, by partition; the dict is the
        store's from here on."""
        groups = self._state.groups
        if group_id not in groups:
            groups[group_id] = self._state.simple_group(group_id)
        self.store.put_many(group_id, topic, offsets)

    def replay_marker(self, producer_id: int, *, commit: bool) -> None:
        """COMMIT or ABORT of a producer; an unknown one changes nothing."""
        apply_marker(self.store, producer_id, commit=commit)
