"""A group's offsets along the log: the same replay as in the coordinator, with every change noted.

It holds only the current state of the group, so its memory depends on the size of the group, not on
the length of its history.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_types import GROUP_TYPES
from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.history.authors import Authors
from groupd.coordinator.history.changes import (
    Actor,
    Author,
    Change,
    ChangeKind,
    CommittedOffset,
    LoggedGroupEvent,
    OffsetChange,
    kind_of_move,
)
from groupd.coordinator.history.pending import PendingRecords
from groupd.coordinator.history.stream import GroupEntry, UnreadableLog
from groupd.protocol.messages import TopicPartition
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue

DEFAULT_RETENTION_MS = CoordinatorConfig().offsets_retention_minutes * 60_000


class GroupLedger:
    """Replays one group. `retention_ms`: the retention of offsets, by which expired offsets differ
    from deleted ones."""

    def __init__(self, group_id: str, retention_ms: int = DEFAULT_RETENTION_MS) -> None:
        self.group_id = group_id
        self._retention_ms = retention_ms
        self._state = ShardState(CoordinatorConfig(), new_id=str, assignors={})
        self._shard = GroupCoordinatorShard(self._state)
        self._store = self._shard.offsets.store
        self._authors = Authors()
        self._group_keys = {one.group_key for one in GROUP_TYPES}
        self._logged = {key: tell for one in GROUP_TYPES for key, tell in one.logged.items()}
        # Author and protocol type of offsets in open transactions. The author is found from the
        # state of the group when the offset was written.
        self._pending: PendingRecords[TopicPartition, tuple[Author, str]] = PendingRecords()

    @property
    def group(self) -> Group | None:
        """The group; None before its first record and after its deletion."""
        return self._state.groups.get(self.group_id)

    def committed(self) -> list[CommittedOffset]:
        """Returns the committed offsets, in the order of topic and partition."""
        topics = self._store.topics(self.group_id)
        return [
            _committed(topic, partition, stored)
            for topic in sorted(topics)
            for partition, stored in sorted(topics[topic].items())
        ]

    def apply(self, batch: Sequence[GroupEntry]) -> list[Change]:
        """Apply the entries of one batch and return their changes, in order. Raises UnreadableLog
        if the coordinator would refuse to load the log."""
        deleted = any(map(self._deletes_group, batch))
        changes: list[Change] = []
        for entry in batch:
            try:
                changes += self._apply(entry, deleted)
            except (ValueError, ReplayError) as error:
                raise UnreadableLog(
                    f"the log cannot be replayed at offset {entry.offset}: {error}"
                ) from error
        return changes

    def _deletes_group(self, entry: GroupEntry) -> bool:
        record = entry.record
        return record is not None and record.value is None and type(record.key) in self._group_keys

    def _apply(self, entry: GroupEntry, group_deleted: bool) -> Sequence[Change]:
        if entry.record is None:
            return self._end_transaction(entry)
        key = entry.record.key
        at = AppliedAt(entry.offset, entry.producer_id, entry.producer_epoch)
        if not isinstance(key, OffsetCommitKey):
            events = self._events(entry)
            self._shard.replay(entry.record, at)
            self._authors.group_changed(self.group, key)
            return events
        place = (key.topic, key.partition)
        before = self._store.get(self.group_id, *place)
        value = entry.record.value
        if value is None:
            self._pending.drop(place)
            cause = self._cause_of_removal(entry, before, group_deleted)
            self._shard.replay(entry.record, at)
            return () if before is None else (_removed(entry, _committed(*place, before), cause),)
        assert isinstance(value, OffsetCommitValue)
        author = self._author(entry, key, value)
        group_type = self._protocol_type()
        self._shard.replay(entry.record, at)
        if entry.producer_id >= 0:
            self._pending.add(entry.producer_id, place, (author, group_type))
            return ()
        after = StoredOffset.of(value, entry.offset)
        return (_moved(entry, place, before, after, author, group_type),)

    def _events(self, entry: GroupEntry) -> list[Change]:
        """Returns the events that a record of the group stands for. Called before the record is
        applied."""
        assert entry.record is not None
        key, value = entry.record.key, entry.record.value
        tell = self._logged.get(type(key))
        return [
            LoggedGroupEvent(kind, entry.timestamp_ms, entry.offset, member_id, epoch, details)
            for kind, member_id, epoch, details in (tell(self.group, key, value) if tell else ())
        ]

    def _protocol_type(self) -> str:
        return "" if self.group is None else self.group.protocol_type

    def _author(self, entry: GroupEntry, key: OffsetCommitKey, value: OffsetCommitValue) -> Author:
        found = self._authors.of(self.group, key.topic, value.topic_id, key.partition)
        if entry.producer_id < 0:
            return found
        return replace(found, producer_id=entry.producer_id, producer_epoch=entry.producer_epoch)

    def _cause_of_removal(
        self, entry: GroupEntry, before: StoredOffset | None, group_deleted: bool
    ) -> tuple[ChangeKind, str]:
        """Why an offset was removed. A tombstone does not say it: if the retention of the offset
        was over, the offset has expired."""
        owner = None if self.group is None else self.group.offset_owner
        if before is not None and owner is not None:
            since_ms = owner.offset_expiration_base()(before.commit_timestamp_ms)
            own_ms = before.expire_timestamp_ms
            if own_ms != -1:
                over = entry.timestamp_ms >= own_ms
            else:
                over = since_ms is not None and entry.timestamp_ms - since_ms >= self._retention_ms
            if over:
                return ChangeKind.EXPIRED, "retention"
        if group_deleted:
            return ChangeKind.DELETED, "the group was deleted"
        return ChangeKind.DELETED, "OffsetDelete, or the topic was deleted"

    def _end_transaction(self, entry: GroupEntry) -> list[Change]:
        """End a transaction. With COMMIT a pending offset takes effect, unless a plain commit came
        after it."""
        pending = self._pending.take(entry.producer_id)
        before = {place: self._store.get(self.group_id, *place) for place in pending}
        self._shard.replay_marker(entry.producer_id, bool(entry.commit))
        changes: list[Change] = []
        for place, (author, group_type) in sorted(pending.items(), key=itemgetter(0)):
            old, new = before[place], self._store.get(self.group_id, *place)
            if new is not None and new != old:
                changes.append(_moved(entry, place, old, new, author, group_type))
        return changes


def _moved(
    entry: GroupEntry,
    place: tuple[str, int],
    before: StoredOffset | None,
    after: StoredOffset,
    author: Author,
    protocol_type: str,
) -> OffsetChange:
    reset = author.actor is Actor.ADMIN and bool(protocol_type)
    old = None if before is None else before.offset
    return OffsetChange(
        kind_of_move(old, after.offset, reset=reset),
        entry.timestamp_ms,
        entry.offset,
        *place,
        None if before is None else _committed(*place, before),
        _committed(*place, after),
        author,
    )


def _removed(
    entry: GroupEntry, before: CommittedOffset, cause: tuple[ChangeKind, str]
) -> OffsetChange:
    kind, words = cause
    actor = Actor.COORDINATOR if kind is ChangeKind.EXPIRED else Actor.ADMIN
    return OffsetChange(
        kind,
        entry.timestamp_ms,
        entry.offset,
        before.topic,
        before.partition,
        before,
        None,
        Author(actor),
        words,
    )


def _committed(topic: str, partition: int, stored: StoredOffset) -> CommittedOffset:
    return CommittedOffset(
        topic,
        partition,
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp_ms,
        stored.log_offset,
        stored.topic_id,
    )
