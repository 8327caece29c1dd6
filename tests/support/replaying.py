"""Records applied to a state without a shard around it."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.group_type import second_name
from groupd.coordinator.core.group_types import GROUP_TYPES
from groupd.coordinator.core.state import ShardState
from groupd.protocol.records.schema import Record


def apply(state: ShardState, record: Record) -> None:
    """As `GroupCoordinatorShard.replay`, for records of groups."""
    key: Any = record.key
    (replay,) = [one.replay[type(key)] for one in GROUP_TYPES if type(key) in one.replay]
    replay(state, key.group, second_name(key), record.value)
