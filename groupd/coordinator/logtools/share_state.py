"""The log of share groups' state, `__share_group_state` (docs/spec/share-group.md#3): what must
hold in it, and what of it an import takes over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.logtools.entries import LogEntry, LogToolError
from groupd.coordinator.logtools.findings import Counts, Problem
from groupd.coordinator.logtools.latest import Kept, LatestEntries, Tally
from groupd.coordinator.logtools.logs import SHARE_STATE_LOG
from groupd.coordinator.logtools.topic_ids import Translation
from groupd.coordinator.runtime.coordinator_types import share_partition_text as named
from groupd.coordinator.share_state.machine import KeptShareState, ShareStateMachine
from groupd.protocol.messages.share_state import (
    ACKNOWLEDGED,
    ARCHIVED,
    ARCHIVING,
    AVAILABLE,
    ShareStateBatch,
)
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareStateValue,
    ShareUpdate,
    decode_record,
    encode_record,
)

_STORED_STATES = (AVAILABLE, ACKNOWLEDGED, ARCHIVING, ARCHIVED)


def shard_of(key: SharePartitionKey, partitions: int) -> int:
    """The partition of the log that a share-partition belongs to, of `partitions`."""
    return partition_for(named(key), partitions)


# What must hold -----------------------------------------------------------------------------


_NUMBERS = ("state_epoch", "leader_epoch", "start_offset")
"""Numbers of a share-partition that never fall; the last two begin anew with its state."""


class ShareStateChecks:
    """Replays the entries of one partition of the log, which it takes in order. `partitions`: the
    number of partitions of the log; None = unknown."""

    def __init__(self, partition: int, partitions: int | None) -> None:
        self._partition = partition
        self._partitions = partitions
        self._machine = ShareStateMachine(CoordinatorConfig(), lambda *_: True)
        self._early: dict[SharePartitionKey, int] = {}
        """The offsets of first updates before any snapshot. Pruning may have removed that if a
        later one follows."""

    def add(self, entry: LogEntry) -> Iterator[Problem]:
        offset = entry.raw.offset
        if entry.error is not None:
            yield offset, f"{entry.kind} does not decode: {entry.error}"
        elif entry.state is None:
            yield offset, f"a record of type {entry.kind} does not belong into this log"
        else:
            for reason in self._record(offset, *entry.state):
                yield offset, reason

    def end(self, counts: Counts) -> Iterator[Problem]:
        for key, offset in self._early.items():
            yield offset, f"{named(key)} has updates and no snapshot"
        counts.share_partitions += len(self._machine.kept) + len(self._early)

    def _record(self, offset: int, key: SharePartitionKey, value: ShareStateValue) -> Iterator[str]:
        if self._partitions is not None and self._partition >= 0:
            right = shard_of(key, self._partitions)
            if right != self._partition:
                yield f"{named(key)} belongs to partition {right} of {self._partitions}"
        if value is not None:
            for reason in _batch_problems(value.batches, value.start_offset):
                yield f"{named(key)}: {reason}"
        before = copy(self._machine.kept.get(key))
        self._machine.replay(key, value, offset)
        after = self._machine.kept.get(key)
        if isinstance(value, ShareUpdate) and before is None:
            self._early.setdefault(key, offset)
        else:
            self._early.pop(key, None)
        if value is not None and before is not None and after is not None:
            yield from _contradictions(key, value, before, after)


def _contradictions(
    key: SharePartitionKey,
    value: ShareSnapshot | ShareUpdate,
    before: KeptShareState,
    after: KeptShareState,
) -> Iterator[str]:
    """What the state of a share-partition must not do with a record. `value`: the record's."""
    old, new = before.snapshot_epoch, value.snapshot_epoch
    numbers: Sequence[str] = _NUMBERS
    if isinstance(value, ShareUpdate):
        if new != old:
            yield f"an update of {named(key)} names the snapshot {new}, the latest is {old}"
    else:
        if new <= old:
            yield f"the snapshot epoch of {named(key)} goes from {old} to {new}"
        # An initialization begins anew. Before Kafka 4.5 it may keep the state epoch.
        begins = not value.batches and value.leader_epoch == 0
        if begins or value.state_epoch != before.state_epoch:
            numbers = _NUMBERS[:1]
    for name in numbers:
        fell, to = getattr(before, name), getattr(after, name)
        if to < fell:
            yield f"the {name.replace('_', ' ')} of {named(key)} falls from {fell} to {to}"


def _batch_problems(batches: Iterable[ShareStateBatch], start_offset: int) -> Iterator[str]:
    last = start_offset - 1
    for batch in batches:
        text = f"the batch {batch.first_offset} to {batch.last_offset}"
        if batch.first_offset > batch.last_offset:
            yield f"{text} ends before it begins"
        elif batch.first_offset < start_offset:
            yield f"{text} begins before the start offset {start_offset}"
        elif batch.first_offset <= last:
            yield f"{text} stands behind offset {last}"
        if batch.delivery_state not in _STORED_STATES:
            yield f"{text} has the state {batch.delivery_state}, which is never stored"
        if batch.delivery_count < 0:
            yield f"{text} has the delivery count {batch.delivery_count}"
        last = max(last, batch.last_offset)


# What an import takes -----------------------------------------------------------------------


class LatestState(LatestEntries):
    """Takes the entries of one partition of the log in order. Of each share-partition it keeps the
    latest snapshot and the updates behind it, which together are its state."""

    log = SHARE_STATE_LOG

    def __init__(self, name: str, groups: frozenset[str], tally: Tally) -> None:
        super().__init__(name, groups, tally)
        self._kept: dict[SharePartitionKey, list[Kept]] = {}
        self._checks = ShareStateChecks(-1, None)

    def add(self, entry: LogEntry) -> None:
        """Raises LogToolError also if a record contradicts those before it."""
        self._tally.read += 1
        for _, reason in self._checks.add(entry):
            raise LogToolError(f"{self._name} at offset {entry.raw.offset}: {reason}")
        assert entry.state is not None
        key, value = entry.state
        if self._groups and key.group_id not in self._groups:
            return
        if value is None:
            self._kept.pop(key, None)
            return
        raw = entry.raw
        assert raw.key is not None
        assert raw.value is not None
        found = Kept(key.group_id, raw.offset, raw.timestamp_ms, raw.key, raw.value)
        if isinstance(value, ShareSnapshot):
            self._kept[key] = [found]
        elif key in self._kept:
            self._kept[key].append(found)

    def kept(self) -> list[Kept]:
        for offset, reason in self._checks.end(Counts()):
            raise LogToolError(f"{self._name} at offset {offset}: {reason}")
        found = [one for records in self._kept.values() for one in records]
        return sorted(found, key=lambda one: one.offset)


def distribute_state(
    kept: Iterable[Kept], partitions: int, groups: Iterable[str], translation: Translation
) -> Mapping[int, list[Kept]]:
    """The records of `groups` with the topic ids of the target, by the partition that they belong
    to here. States of topics that are not here keep their foreign ids."""
    wanted = frozenset(groups)
    found: dict[int, list[Kept]] = {}
    for one in kept:
        if one.group in wanted:
            key, value = decode_record(one.key, one.value)
            here = key._replace(topic_id=translation.topic_id(key.topic_id))
            encoded = encode_record(here, value)[0]
            found.setdefault(shard_of(here, partitions), []).append(one._replace(key=encoded))
    return dict(sorted(found.items()))
