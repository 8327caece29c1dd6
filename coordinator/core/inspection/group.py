"""One group of a shard, of any type, with its running deadlines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_configs import assignment_interval_ms
from groupd.coordinator.core.inspection.classic import inspect_classic_group
from groupd.coordinator.core.inspection.consumer import inspect_consumer_group
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant

LONG_MEMBERS = 50


def list_group_summaries(state: ShardState) -> list[dict[str, Any]]:
    """Id, type and state of every group, by id."""
    return [
        {"group_id": group_id, "type": group.type.value, "state": group.state_name()}
        for group_id, group in sorted(state.groups.items())
    ]


def is_long(state: ShardState, group_id: str) -> bool:
    """Whether there is much to show of the group."""
    group = state.groups.get(group_id)
    return isinstance(group, ConsumerGroup) and len(group.members) > LONG_MEMBERS


def inspect_group(state: ShardState, group_id: str, now: Instant) -> dict[str, Any] | None:
    """`inspect_group_lazily`, with lists."""
    shown = inspect_group_lazily(state, group_id, now)
    return None if shown is None else with_lists(shown)


def with_lists(shown: dict[str, Any]) -> dict[str, Any]:
    """Its iterators as lists, without stops."""
    return {
        name: [item for item in value if item is not None] if isinstance(value, Iterator) else value
        for name, value in shown.items()
    }


def inspect_group_lazily(state: ShardState, group_id: str, now: Instant) -> dict[str, Any] | None:
    """None when there is no such group. `deadlines`: what runs, and in how many ms;
    "consumer-next-target" when the group epoch is ahead of its target. What may be long is an
    iterator, where None is a stop and no item."""
    group = state.groups.get(group_id)
    if group is None:
        return None
    shown: dict[str, Any] = {
        "group_id": group_id,
        "type": group.type.value,
        "state": group.state_name(),
    }
    if isinstance(group, ConsumerGroup):
        shown.update(inspect_consumer_group(state, group, now))
    elif isinstance(group, ClassicGroup):
        shown.update(inspect_classic_group(state, group, now))
    shown["config_overrides"] = dict(sorted(state.group_configs.get(group_id, {}).items()))
    shown["deadlines"] = _deadlines(state, group, now)
    return shown


def _deadlines(state: ShardState, group: Group, now: Instant) -> Iterator[dict[str, Any]]:
    for (kind, _, member_id), due in state.deadlines.of_group(group.group_id):
        yield {"kind": kind, "member_id": member_id, "in_ms": due - now.monotonic_ms}
    if isinstance(group, ConsumerGroup) and group.assignment_epoch < group.group_epoch:
        yield _next_target(state, group, now)


def _next_target(state: ShardState, group: ConsumerGroup, now: Instant) -> dict[str, Any]:
    """No timer: the first heartbeat from then on computes the target (KIP-1263)."""
    interval_ms = assignment_interval_ms(state.config, state.group_configs.get(group.group_id))
    due_ms = group.assignment_timestamp_ms + interval_ms
    return {
        "kind": "consumer-next-target",
        "member_id": "",
        "in_ms": max(0, due_ms - now.wall_ms),
    }
