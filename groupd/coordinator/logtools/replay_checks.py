"""Replays the offsets log as a daemon would. Finds records that a daemon could not apply, and
contradictions that a daemon would not notice.

A record that cannot be applied affects only its group: the rest of that group's records are
skipped, as they would fail for the same reason, and all others are still checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.group_types import GROUP_TYPES, type_of
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.logtools.entries import LogEntry
from groupd.coordinator.logtools.findings import Counts
from groupd.coordinator.logtools.import_plan import fresh_shard
from groupd.coordinator.logtools.record_types import MARKER, UNHELD_TYPES
from groupd.protocol.records.schema import Record

APPLY_ERRORS = (ReplayError, ValueError, TypeError, LookupError, AssertionError)
"""The errors of a replay for records that contradict the state or make no sense."""

Problem = tuple[int | None, str]


class ReplayChecks:
    """Takes the entries of one log in order. `partitions`: the partition count of the offsets log;
    None = unknown."""

    def __init__(self, partition: int, partitions: int | None) -> None:
        self._partition = partition
        self._partitions = partitions
        self._shard = fresh_shard()
        self._broken: set[str] = set()
        self._misplaced: set[str] = set()
        self._known_epochs: dict[str, dict[str, int]] = {}
        self._epochs = {key: epoch for one in GROUP_TYPES for key, epoch in one.epochs.items()}
        self._record_problems = {
            key: problems for one in GROUP_TYPES for key, problems in one.record_problems.items()
        }
        self._open: set[int] = set()

    def add(self, entry: LogEntry) -> Iterator[Problem]:
        offset, header = entry.raw.offset, entry.header
        if entry.kind == MARKER:
            self._open.discard(header.producer_id)
            if entry.marker is not None:
                self._shard.replay_marker(header.producer_id, entry.marker.committed)
            return
        if entry.error is not None:
            yield offset, f"{entry.kind} does not decode: {entry.error}"
            return
        if entry.record is None:
            if entry.number not in UNHELD_TYPES:
                yield offset, f"unknown record type {entry.number}"
            return
        group = entry.group or ""
        yield from self._placed(offset, group)
        if group in self._broken:
            return
        yield from self._record(offset, entry.record)
        producer_id = header.producer_id if header.is_transactional else -1
        if producer_id >= 0:
            self._open.add(producer_id)
        try:
            self._apply(entry, entry.record, producer_id)
        except APPLY_ERRORS as error:
            self._broken.add(group)
            yield offset, f"cannot be applied: {error}; the group's later records are not checked"

    def end(self, counts: Counts) -> Iterator[Problem]:
        """Check the final state, after all entries."""
        for group_id, group in sorted(self._shard.state.groups.items()):
            if group_id not in self._broken:
                yield from ((None, reason) for reason in type_of(group).group_problems(group))
        counts.groups += len(self._shard.state.groups)
        counts.offsets += self._shard.offset_count()
        counts.open_transactions += len(self._open)
        self._shard.discard()

    def _placed(self, offset: int, group: str) -> Iterator[Problem]:
        if self._partitions is None or self._partition < 0 or group in self._misplaced:
            return
        right = partition_for(group, self._partitions)
        if right != self._partition:
            self._misplaced.add(group)
            yield offset, f"group {group} belongs to partition {right} of {self._partitions}"

    def _record(self, offset: int, record: Record) -> Iterator[Problem]:
        """Check the record by itself, and against the records before it."""
        kind, value = type(record.key), record.value
        key: Any = record.key
        epoch = self._epochs.get(kind)
        if epoch is not None:
            yield from self._epoch(offset, key.group, *epoch, value)
        problems = self._record_problems.get(kind)
        if problems is not None and value is not None:
            for reason in problems(key, value):
                yield offset, reason

    def _epoch(
        self, offset: int, group: str, name: str, attribute: str, value: Any
    ) -> Iterator[Problem]:
        """Check that an epoch only grows, until a tombstone ends the group."""
        known = self._known_epochs.setdefault(group, {})
        if value is None:
            known.pop(name, None)
            return
        epoch: int = getattr(value, attribute)
        before = known.get(name, epoch)
        known[name] = epoch
        if epoch < before:
            yield offset, f"the {name} of group {group} falls from {before} to {epoch}"

    def _apply(self, entry: LogEntry, record: Record, producer_id: int) -> None:
        """Raises one of APPLY_ERRORS. Another type of group counts its epochs from the start."""
        groups, group_id = self._shard.state.groups, entry.group or ""
        before = groups.get(group_id)
        at = AppliedAt(entry.raw.offset, producer_id, entry.header.producer_epoch)
        self._shard.replay(record, at)
        after = groups.get(group_id)
        if before is not None and after is not None and before.type_name != after.type_name:
            self._known_epochs.pop(group_id, None)
