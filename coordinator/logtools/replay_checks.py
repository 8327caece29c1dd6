"""The offsets log replayed as a daemon would, to find what it would choke on, and what it would
not but should.

A record that cannot be applied costs its group only: the rest of the group's records are passed
over, as they would fail for the same reason, and all others are still looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from groupd.coordinator.core.consumer_group.errors import ReplayError
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.logtools.entries import Entry
from groupd.coordinator.logtools.findings import Counts
from groupd.coordinator.logtools.import_plan import fresh_shard
from groupd.coordinator.logtools.record_types import MARKER, UNHELD_TYPES
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataKey,
    Record,
)

APPLY_ERRORS = (ReplayError, ValueError, TypeError, LookupError, AssertionError)
"""What replay raises on records that contradict the state or make no sense."""

Problem = tuple[int | None, str]


class ReplayChecks:
    """Takes the entries of one log in order. `partitions`: of the offsets log, None = unknown."""

    def __init__(self, partition: int, partitions: int | None) -> None:
        self._partition = partition
        self._partitions = partitions
        self._shard = fresh_shard()
        self._broken: set[str] = set()
        self._misplaced: set[str] = set()
        self._group_epochs: dict[str, int] = {}
        self._target_epochs: dict[str, int] = {}
        self._open: set[int] = set()

    def add(self, entry: Entry) -> Iterator[Problem]:
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
        yield from self._epochs(offset, entry.record)
        producer_id = header.producer_id if header.is_transactional else -1
        if producer_id >= 0:
            self._open.add(producer_id)
        try:
            self._shard.replay(entry.record, AppliedAt(offset, producer_id, header.producer_epoch))
        except APPLY_ERRORS as error:
            self._broken.add(group)
            yield offset, f"cannot be applied: {error}; the group's later records are not checked"

    def end(self, counts: Counts) -> Iterator[Problem]:
        """What the state says once everything is applied."""
        for group_id, group in sorted(self._shard.state.groups.items()):
            if isinstance(group, ConsumerGroup) and group_id not in self._broken:
                yield from ((None, reason) for reason in _group_problems(group))
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

    def _epochs(self, offset: int, record: Record) -> Iterator[Problem]:
        key, value = record.key, record.value
        if isinstance(key, ConsumerGroupMetadataKey):
            epoch = value.epoch if isinstance(value, ConsumerGroupMetadataValue) else None
            yield from _step(self._group_epochs, key.group, epoch, offset, "group epoch")
        elif isinstance(key, ConsumerGroupTargetMetadataKey):
            target = (
                value.assignment_epoch
                if isinstance(value, ConsumerGroupTargetMetadataValue)
                else None
            )
            yield from _step(self._target_epochs, key.group, target, offset, "target epoch")
        elif isinstance(key, GroupMetadataKey):
            # A classic group takes the place of whatever had the id.
            self._group_epochs.pop(key.group, None)
            self._target_epochs.pop(key.group, None)
        elif isinstance(value, ConsumerGroupCurrentMemberValue):
            assert isinstance(key, ConsumerGroupCurrentMemberKey)
            epoch, before = value.member_epoch, value.previous_member_epoch
            if 0 <= epoch < before:
                yield offset, f"a member of group {key.group} goes from epoch {before} to {epoch}"


def _step(
    epochs: dict[str, int], group: str, epoch: int | None, offset: int, name: str
) -> Iterator[Problem]:
    """An epoch may only grow, until a tombstone ends the group."""
    if epoch is None:
        epochs.pop(group, None)
        return
    before = epochs.get(group, epoch)
    epochs[group] = epoch
    if epoch < before:
        yield offset, f"the {name} of group {group} falls from {before} to {epoch}"


def _group_problems(group: ConsumerGroup) -> Iterator[str]:
    name = f"group {group.group_id}"
    if group.assignment_epoch > group.group_epoch:
        yield (
            f"{name}: target epoch {group.assignment_epoch} is above group epoch "
            f"{group.group_epoch}"
        )
    for member_id, member in sorted(group.members.items()):
        if member.member_epoch > group.assignment_epoch:
            yield (
                f"{name}: member {member_id} is at epoch {member.member_epoch}, above target epoch "
                f"{group.assignment_epoch}"
            )
    strangers = sorted(set(group.targets) - set(group.members))
    if strangers:
        yield f"{name}: has targets for {', '.join(strangers)}, who are no members"
