"""What an operator sees of a group, and why it waits: plain JSON-friendly data, read only.

It shows the latest state, which may include writes that are not durable yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Any

from groupd.coordinator.core.blocked import Wait, topic_name, wait
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.slices import Pace, Pairs
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant


def list_group_summaries(state: ShardState) -> list[dict[str, Any]]:
    """A summary of every group, by group id."""
    return [group_summary(group) for _, group in sorted(state.groups.items())]


def group_summary(group: Group) -> dict[str, Any]:
    """The id, type and state of a group."""
    return {"group_id": group.group_id, "type": group.type_name, "state": group.state_name()}


def with_lists(shown: dict[str, Any]) -> dict[str, Any]:
    """`shown`, with lists and mappings in place of iterators, and without the stops."""
    return {name: _whole(value) for name, value in shown.items()}


def _whole(value: Any) -> Any:
    if isinstance(value, Pairs):
        return dict(pair for pair in value if pair is not None)
    if isinstance(value, Iterator):
        return [item for item in value if item is not None]
    return value


def inspect_group_lazily(
    state: ShardState, group_id: str, now: Instant, after: str | None = None
) -> dict[str, Any] | None:
    """The description of a group; None if there is no such group. It has the members whose ids are
    greater than `after`, and the deadlines with the ms that are left. A deadline that belongs to no
    member has `of` instead, a topic and a partition for example. What may be long is `Pairs`, or an
    iterator in which None is not an item but a point where other work may run."""
    group = state.groups.get(group_id)
    if group is None:
        return None
    group_type = type_of(group)
    return {
        "group_id": group_id,
        "type": group.type_name,
        "state": group.state_name(),
        **group_type.inspect(state, group, now, after),
        "config_overrides": dict(sorted(state.group_configs.get(group_id, {}).items())),
        "deadlines": chain(_timers(state, group_id, now), group_type.awaited(state, group, now)),
    }


def _timers(state: ShardState, group_id: str, now: Instant) -> Iterator[dict[str, Any] | None]:
    for found in state.deadlines.of_group(group_id):
        if found is None:
            yield None
            continue
        (kind, _, *rest), due = found
        timer: dict[str, Any] = {"kind": kind, "member_id": "", "in_ms": due - now.monotonic_ms}
        if len(rest) == 1:
            timer["member_id"] = rest[0]
        else:
            named = (one if isinstance(one, int) else topic_name(one, state.image) for one in rest)
            timer["of"] = list(named)
        yield timer


def open_transactions(store: OffsetStore, group_id: str) -> Iterator[Wait | None]:
    """One entry for each producer whose open transaction holds offsets of the group. OffsetFetch
    with `require_stable` waits for these transactions. None is not an item but a point where other
    work may run."""
    first: dict[int, tuple[str, int]] = {}
    count: Counter[int] = Counter()
    pace = Pace()
    for place, producers in list(store.pending(group_id).items()):
        for producer_id in producers:
            first[producer_id] = min(place, first.get(producer_id, place))
            count[producer_id] += 1
        if pace.due(1 + len(producers)):
            yield None
    for producer_id, (topic, partition) in sorted(first.items()):
        more = f" and {count[producer_id] - 1} more" if count[producer_id] > 1 else ""
        yield wait(
            f"offsets of {topic}-{partition}{more} wait for the end of the transaction of "
            f"producer {producer_id}"
        )
