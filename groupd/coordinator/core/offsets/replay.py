"""Applies offset records to the store, live and at load (docs/spec/offsets-and-log.md#3.4,
#5.2)."""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.core.group import Group
from groupd.coordinator.core.offsets.store import OffsetStore, StoredOffset
from groupd.coordinator.core.types import AppliedAt
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue


def replay_offset(
    store: OffsetStore,
    groups: dict[str, Group],
    simple_group: Callable[[str], Group],
    key: OffsetCommitKey,
    value: OffsetCommitValue | None,
    at: AppliedAt,
) -> None:
    """Apply one offset record. A value inside a transaction becomes pending. A tombstone removes
    the committed offset and everything that is pending on its partition. A value for an unknown
    group makes a simple group."""
    group, topic, partition = key
    if value is None:
        store.remove(group, topic, partition)
        return
    if group not in groups:
        groups[group] = simple_group(group)
    stored = StoredOffset.of(value, at.offset)
    if at.producer_id >= 0:
        store.put_pending(at.producer_id, group, topic, partition, stored)
    else:
        store.put(group, topic, partition, stored)


def apply_marker(store: OffsetStore, producer_id: int, *, commit: bool) -> None:
    """Apply the end of a producer's transaction. On COMMIT a pending offset replaces the committed
    one only if its record is later in the log, so a plain commit made meanwhile stays."""
    for group_id, topic, partition, stored in store.take_pending(producer_id):
        if not commit:
            continue
        current = store.get(group_id, topic, partition)
        if current is None or stored.log_offset > current.log_offset:
            store.put(group_id, topic, partition, stored)
