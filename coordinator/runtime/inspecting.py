"""One group of a shard as the admin port shows it: what the core knows of it, and what else it
waits for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

from groupd.coordinator.core.inspection import (
    inspect_group_lazily,
    open_transactions,
    with_lists,
)
from groupd.coordinator.core.types import Instant
from groupd.coordinator.core.waiting import Wait, wait
from groupd.coordinator.runtime.shard_runtime import ShardRuntime


def inspect_lazily(shard: ShardRuntime, group_id: str, now: Instant) -> dict[str, Any] | None:
    """None when there is no such group. `blocked` also has transactions that hold offsets back, and
    a write that is under way. What may be long is an iterator, where None is a stop and no item."""
    shown = inspect_group_lazily(shard.shard.state, group_id, now)
    if shown is not None:
        shown["blocked"] = chain(shown["blocked"], list(_of_the_log(shard, group_id)))
    return shown


def inspect(shard: ShardRuntime, group_id: str, now: Instant) -> dict[str, Any] | None:
    """`inspect_lazily`, with lists."""
    shown = inspect_lazily(shard, group_id, now)
    return None if shown is None else with_lists(shown)


def _of_the_log(shard: ShardRuntime, group_id: str) -> Iterator[Wait]:
    yield from open_transactions(shard.shard.offsets.store, group_id)
    if not shard.rests(group_id):
        yield wait("changes of the group are being written to the log")
