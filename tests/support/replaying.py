"""Records applied to a state without a shard around it."""

from __future__ import annotations

from groupd.coordinator.core.group_types import GROUP_TYPES
from groupd.coordinator.core.state import ShardState
from groupd.protocol.records.schema import Record


def apply(state: ShardState, record: Record) -> None:
    """Does what `GroupCoordinatorShard.replay` does for records of groups."""
    kind = type(record.key)
    (replay,) = [one.replay[kind] for one in GROUP_TYPES if kind in one.replay]
    replay(state, record.key, record.value)
