"""One group of a shard, of any type, with its running deadlines."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from coordinator.core.classic_group.group import ClassicGroup
from coordinator.core.consumer_group.group import ConsumerGroup
from coordinator.core.group_configs import assignment_interval_ms
from coordinator.core.inspection.classic import inspect_classic_group
from coordinator.core.inspection.consumer import inspect_steps
from coordinator.core.slices import chunks, run_through
from coordinator.core.state import ShardState
from coordinator.core.types import Instant


def list_group_summaries(state: ShardState) -> list[dict[str, Any]]:
    """Id, type and state of every group, by id."""
    return [
        {"group_id": group_id, "type": group.type.value, "state": group.state_name()}
        for group_id, group in sorted(state.groups.items())
    ]


def inspect_group(state: ShardState, group_id: str, now: Instant) -> dict[str, Any] | None:
    """`inspect_group_steps` in one go."""
    return run_through(inspect_group_steps(state, group_id, now))


def inspect_group_steps(
    state: ShardState, group_id: str, now: Instant
) -> Generator[None, None, dict[str, Any] | None]:
    """None when there is no such group. `deadlines`: what runs, and in how many ms;
    "consumer-next-target" when the group epoch is ahead of its target."""
    group = state.groups.get(group_id)
    if group is None:
        return None
    shown: dict[str, Any] = {
        "group_id": group_id,
        "type": group.type.value,
        "state": group.state_name(),
    }
    if isinstance(group, ConsumerGroup):
        shown.update((yield from inspect_steps(group, state.image)))
    elif isinstance(group, ClassicGroup):
        shown.update(inspect_classic_group(group))
    shown["config_overrides"] = dict(sorted(state.group_configs.get(group_id, {}).items()))
    yield
    deadlines = state.deadlines.of_group(group_id)
    yield
    shown["deadlines"] = []
    for some in chunks(deadlines):
        shown["deadlines"] += [
            {"kind": kind, "member_id": member_id, "in_ms": due - now.monotonic_ms}
            for (kind, _, member_id), due in some
        ]
        yield
    if isinstance(group, ConsumerGroup) and group.assignment_epoch < group.group_epoch:
        shown["deadlines"].append(_next_target(state, group, now))
    return shown


def _next_target(state: ShardState, group: ConsumerGroup, now: Instant) -> dict[str, Any]:
    """No timer: the first heartbeat from then on computes the target (KIP-1263)."""
    interval_ms = assignment_interval_ms(state.config, state.group_configs.get(group.group_id))
    due_ms = group.assignment_timestamp_ms + interval_ms
    return {
        "kind": "consumer-next-target",
        "member_id": "",
        "in_ms": max(0, due_ms - now.wall_ms),
    }
