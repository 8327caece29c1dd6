"""One group of a shard as the admin port shows it: what the core knows of it, and what else it
waits for."""

from __future__ import annotations

from itertools import chain
from typing import Any

from groupd.coordinator.core.inspection import (
    inspect_group_lazily,
    open_transactions,
    with_lists,
)
from groupd.coordinator.core.types import Instant
from groupd.coordinator.core.waiting import wait
from groupd.coordinator.runtime.shard_runtime import ShardRuntime

BEING_WRITTEN = "changes of the group are being written to the log"


def inspect_lazily(
    shard: ShardRuntime, group_id: str, now: Instant, after: str | None = None
) -> dict[str, Any] | None:
    """What `inspect_group_lazily` gives; `blocked` also has transactions that hold offsets back,
    and a write that is under way."""
    shown = inspect_group_lazily(shard.shard.state, group_id, now, after)
    if shown is not None:
        writing = [] if shard.rests(group_id) else [wait(BEING_WRITTEN)]
        held_back = open_transactions(shard.shard.offsets.store, group_id)
        shown["blocked"] = chain(shown["blocked"], held_back, writing)
    return shown


def inspect(shard: ShardRuntime, group_id: str, now: Instant) -> dict[str, Any] | None:
    """`inspect_lazily`, with lists."""
    shown = inspect_lazily(shard, group_id, now)
    return None if shown is None else with_lists(shown)
