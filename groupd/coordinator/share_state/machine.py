"""The machine of one partition of `__share_group_state`: the state of share-partitions, and the
rules of the requests about it (docs/spec/share-group.md#3).

A request is a `ShareStateQuestion`, about one share-partition. Its record is applied at once, so
that the next request sees it. The reply leaves when the record is durable, and so does a reply that
rests on earlier records of the same group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.share_settings import RECORD_LOCKS_MAX
from groupd.coordinator.core.types import Instant, Outcome, RequestContext
from groupd.coordinator.runtime.machine import Machine
from groupd.coordinator.share_state.batches import Batches, cut, in_order, merged
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    NO_OFFSET,
    AskedShareState,
    DeleteShareGroupStateRequest,
    InitializedShareState,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadShareState,
    ShareStateBatch,
    ShareStateResult,
    ShareStateSummary,
    WriteShareGroupStateRequest,
    WrittenShareState,
)
from groupd.protocol.records.schema import Record
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareStateValue,
    ShareUpdate,
)

BATCHES_MAX = 2 * RECORD_LOCKS_MAX
"""The most batches of one share-partition. Each record in flight may need one of its own, and those
of the last record batch of the log that was acquired may go beyond the record locks. To merge so
many takes some milliseconds, and a snapshot of them is a record of 400 KB."""

UNKNOWN_COUNT = -1
"""The delivery complete count of a share-partition without a start offset."""

DELETED_MAX = 1_000
"""The most deleted share-partitions that a machine remembers."""

_GROUP_BYTES_MAX = 32_767
_STATES = frozenset({AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED})

ShareStateRecord = tuple[SharePartitionKey, ShareStateValue]

PartitionExists = Callable[[TopicId, int], bool]
"""Whether the topic with this id exists and has a partition with this number."""


class ShareStateQuestion(Struct, frozen=True):
    """One partition of a request. `request_type`: the type of the request. `asked`: its entry for
    the partition."""

    request_type: type
    key: SharePartitionKey
    asked: Any

    @property
    def group_id(self) -> str:
        """A refusal waits for the pending records of this group."""
        return self.key.group_id


class KeptShareState(Struct):
    """The state of a share-partition. `created_ms`, `written_ms`: the times in its last snapshot;
    they differ if it was written only because the share-partition was cold. `updates`: how many
    came since that snapshot, which is at `snapshot_offset` of the log."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Batches
    created_ms: int
    written_ms: int
    snapshot_offset: int
    updates: int = 0


class ShareStateMachine(Machine):
    """A `runtime.machine.Machine` without deadlines, tasks and calls. `exists`: knows all topics.
    `count_all()`: how many share-partitions there are in all machines of this node."""

    def __init__(
        self,
        config: CoordinatorConfig,
        exists: PartitionExists,
        count_all: Callable[[], int] | None = None,
    ) -> None:
        self.kept: dict[SharePartitionKey, KeptShareState] = {}
        self._deleted: dict[SharePartitionKey, None] = {}
        """Share-partitions whose state was deleted, the last `DELETED_MAX` of them. A new state may
        have the state epoch of the old one, because the epochs of a new group begin anew. So no
        leader may write it before one has read it. A read often leaves no record: after the next
        load a leader may be refused once more, and reads again."""
        self._config = config
        self.exists = exists
        self._count_all = count_all or self.kept.__len__
        self._handlers: Mapping[type, Callable[[SharePartitionKey, Any, Instant], Answered]] = {
            InitializeShareGroupStateRequest: self._initialize,
            ReadShareGroupStateRequest: self._read,
            WriteShareGroupStateRequest: self._write,
            DeleteShareGroupStateRequest: self._delete,
            ReadShareGroupStateSummaryRequest: self._summary,
        }

    def handle(self, context: RequestContext, request: ShareStateQuestion, now: Instant) -> Outcome:
        if request.key.partition < 0:
            raise _invalid("The partition must not be negative.")
        value, reply = self._handlers[request.request_type](request.key, request.asked, now)
        return Outcome(
            records=[] if value is _NOTHING else _records(request.key, value),
            replies=[(context.token, reply)],
            gate=request.key.group_id,
        )

    # Requests -----------------------------------------------------------------------------

    def _initialize(
        self, key: SharePartitionKey, asked: InitializedShareState, now: Instant
    ) -> Answered:
        kept, start_offset = self.kept.get(key), asked.start_offset
        if asked.state_epoch < 0:
            raise _invalid("The state epoch must not be negative.")
        if kept is not None and asked.state_epoch < kept.state_epoch:
            raise ApiError(ErrorCode.FENCED_STATE_EPOCH)
        self._check_exists(key)
        reply = ShareStateResult(key.partition)
        if kept is None:
            if len(key.group_id.encode()) > _GROUP_BYTES_MAX:
                raise _invalid("The group id is too long for a record.")
            most = self._config.max_share_partitions
            if self._count_all() >= most:
                raise ApiError(
                    ErrorCode.POLICY_VIOLATION,
                    f"The limit of {most} share-partitions (groupd.max.share.partitions) is "
                    "reached.",
                )
        elif kept.state_epoch == asked.state_epoch:
            # It was asked before, perhaps with another start offset: a heartbeat that asks about a
            # new topic for the second time has another one. Members may have used the state since.
            return _NOTHING, reply
        snapshot = ShareSnapshot(
            0 if kept is None else kept.snapshot_epoch + 1,
            asked.state_epoch,
            0,
            start_offset,
            now.wall_ms,
            now.wall_ms,
            (),
            UNKNOWN_COUNT if start_offset == NO_OFFSET else 0,
        )
        return snapshot, reply

    def _read(self, key: SharePartitionKey, asked: AskedShareState, now: Instant) -> Answered:
        kept = self._known(key, asked.leader_epoch)
        self._check_exists(key)
        self._deleted.pop(key, None)
        reply = ReadShareState(
            key.partition,
            state_epoch=kept.state_epoch,
            start_offset=kept.start_offset,
            batches=kept.batches,
        )
        if asked.leader_epoch == kept.leader_epoch:
            return _NOTHING, reply
        value = self._changed(
            kept, now, asked.leader_epoch, kept.start_offset, kept.delivery_complete_count, ()
        )
        return value, reply

    def _write(self, key: SharePartitionKey, asked: WrittenShareState, now: Instant) -> Answered:
        if asked.state_epoch < 0:
            raise _invalid("The state epoch must not be negative.")
        kept = self._known(key, asked.leader_epoch)
        if asked.state_epoch < kept.state_epoch or key in self._deleted:
            raise ApiError(ErrorCode.FENCED_STATE_EPOCH)
        self._check_exists(key)
        _check_batches(asked.batches)
        old_start, new_start = kept.start_offset, asked.start_offset
        done = kept.delivery_complete_count
        if new_start > old_start:
            done = asked.delivery_complete_count
        elif new_start == old_start:
            done = max(done, asked.delivery_complete_count)
        start_offset = max(old_start, new_start)
        new = cut(in_order(asked.batches), start_offset)
        # A new batch adds itself, and may cut an old one in two.
        if (
            len(kept.batches) + 2 * len(new) > BATCHES_MAX
            and len(merged(kept.batches, new, start_offset)) > BATCHES_MAX
        ):
            raise _too_many_batches()
        value = self._changed(kept, now, kept.leader_epoch, start_offset, done, new)
        return value, ShareStateResult(key.partition)

    def _delete(self, key: SharePartitionKey, asked: int, now: Instant) -> Answered:
        self._check_exists(key)
        return None if key in self.kept else _NOTHING, ShareStateResult(key.partition)

    def _summary(self, key: SharePartitionKey, asked: AskedShareState, now: Instant) -> Answered:
        self._check_exists(key)
        kept = self.kept.get(key)
        if kept is None:
            return _NOTHING, ShareStateSummary(key.partition, start_offset=NO_OFFSET)
        return _NOTHING, ShareStateSummary(
            key.partition,
            state_epoch=kept.state_epoch,
            leader_epoch=kept.leader_epoch,
            start_offset=kept.start_offset,
            delivery_complete_count=kept.delivery_complete_count,
        )

    def _known(self, key: SharePartitionKey, leader_epoch: int) -> KeptShareState:
        """Returns the state of a share-partition whose leader asks. Raises ApiError."""
        if leader_epoch < 0:
            raise _invalid("The leader epoch must not be negative.")
        kept = self.kept.get(key)
        if kept is None:
            raise _invalid("The share-partition is not initialized.")
        if leader_epoch < kept.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        return kept

    def _check_exists(self, key: SharePartitionKey) -> None:
        if not self.exists(key.topic_id, key.partition):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _changed(
        self,
        kept: KeptShareState,
        now: Instant,
        leader_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        new: Batches,
    ) -> ShareSnapshot | ShareUpdate:
        """Returns the record of a change: an update, or now and then a snapshot. `new`: the batches
        that are merged with those of `kept`."""
        if kept.updates < self._config.share_snapshot_updates:
            return ShareUpdate(
                kept.snapshot_epoch, leader_epoch, start_offset, new, delivery_complete_count
            )
        return ShareSnapshot(
            kept.snapshot_epoch + 1,
            kept.state_epoch,
            leader_epoch,
            start_offset,
            now.wall_ms,
            now.wall_ms,
            merged(kept.batches, new, start_offset),
            delivery_complete_count,
        )

    # The log is kept short ----------------------------------------------------------------

    def snapshot(self, key: SharePartitionKey, now: Instant) -> Outcome:
        """Write the present state once more, so that older records are not needed. For a topic that
        does not exist any more a tombstone is written instead: maybe this shard was not served when
        the topic was deleted."""
        kept = self.kept.get(key)
        if kept is None:
            return Outcome()
        if not self.exists(key.topic_id, key.partition):
            return self.forget(key)
        return Outcome(
            records=_records(
                key,
                ShareSnapshot(
                    kept.snapshot_epoch + 1,
                    kept.state_epoch,
                    kept.leader_epoch,
                    kept.start_offset,
                    kept.created_ms,
                    now.wall_ms,
                    kept.batches,
                    kept.delivery_complete_count,
                ),
            )
        )

    def forget(self, key: SharePartitionKey) -> Outcome:
        """Write a tombstone: the topic was deleted."""
        return Outcome(records=_records(key, None) if key in self.kept else [])

    # Replay -------------------------------------------------------------------------------

    def replay_all(
        self,
        records: Iterable[ShareStateRecord],
        offsets: Iterable[int],
        producer: tuple[int, int] | None,
    ) -> None:
        for (key, value), offset in zip(records, offsets, strict=False):
            self.replay(key, value, offset)

    def replay(self, key: SharePartitionKey, value: ShareStateValue, offset: int) -> None:
        """Apply the record at `offset` of the log."""
        if value is None:
            if self.kept.pop(key, None) is not None:
                self._remember_deleted(key)
        elif isinstance(value, ShareSnapshot):
            self.kept[key] = KeptShareState(
                value.snapshot_epoch,
                value.state_epoch,
                value.leader_epoch,
                value.start_offset,
                value.delivery_complete_count,
                value.batches,
                value.create_timestamp_ms,
                value.write_timestamp_ms,
                offset,
            )
        elif (kept := self.kept.get(key)) is not None:
            # Else the snapshot before this update was pruned, because a later one follows.
            if value.leader_epoch != -1:
                kept.leader_epoch = value.leader_epoch
            if value.start_offset != NO_OFFSET:
                kept.start_offset = value.start_offset
            kept.delivery_complete_count = value.delivery_complete_count
            kept.batches = merged(kept.batches, value.batches, kept.start_offset)
            kept.updates += 1
            self._deleted.pop(key, None)

    def _remember_deleted(self, key: SharePartitionKey) -> None:
        self._deleted[key] = None
        if len(self._deleted) > DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]


class _Nothing(Struct, frozen=True):
    """In place of the value of a record: nothing is written. (None is a tombstone.)"""


_NOTHING = _Nothing()

Answered = tuple[ShareStateValue | _Nothing, Any]
"""The value of the record that a request leads to, and its reply."""


def _records(key: SharePartitionKey, value: Any) -> list[Record]:
    """Returns a list with one record of this log. The cast is needed because an `Outcome` has
    records of groups."""
    return cast("list[Record]", [(key, value)])


def _check_batches(batches: Sequence[ShareStateBatch]) -> None:
    """Raises ApiError for batches that no leader of a share-partition writes."""
    if len(batches) > BATCHES_MAX:
        raise _too_many_batches()
    for one in batches:
        if not 0 <= one.first_offset <= one.last_offset:
            raise _invalid(f"Offsets {one.first_offset} to {one.last_offset} are no batch.")
        if one.delivery_state not in _STATES or one.delivery_count < 0:
            raise _invalid(
                f"No record has delivery state {one.delivery_state} and delivery count "
                f"{one.delivery_count}."
            )


def _too_many_batches() -> ApiError:
    return ApiError(
        ErrorCode.POLICY_VIOLATION, f"A share-partition has at most {BATCHES_MAX} batches."
    )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
