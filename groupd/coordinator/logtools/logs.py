"""The logs of coordinators whose records the tools read."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from groupd.coordinator.runtime.coordinator_types import (
    GROUP_COORDINATOR,
    SHARE_COORDINATOR,
    CoordinatorType,
)


class ToolLog(Struct, frozen=True):
    """The log of one kind of coordinator. `topic`: the internal topic that shows it, after which
    directories of segment files are named. `store_name(partition)`: the name of the log of one
    shard in a store. `shards_key`: the key (resource, name, key) under which a store remembers with
    how many shards it was made."""

    topic: str
    store_name: Callable[[int], str]
    shards_key: tuple[int, str, str]

    def partition_in_store(self, name: str) -> int | None:
        """The partition whose log has this name in a store; None if it is another log's name."""
        digits = name.rpartition("-")[2]
        if not (digits.isascii() and digits.isdecimal()):
            return None
        return int(digits) if self.store_name(int(digits)) == name else None


def _log_of(coordinator: CoordinatorType) -> ToolLog:
    return ToolLog(coordinator.topic.name, coordinator.topic.log_name, coordinator.shards_key)


OFFSETS_LOG = _log_of(GROUP_COORDINATOR)
SHARE_STATE_LOG = _log_of(SHARE_COORDINATOR)
LOGS = (OFFSETS_LOG, SHARE_STATE_LOG)
