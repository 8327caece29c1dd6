"""What `blocked` promises: it is never empty while something waits."""

from __future__ import annotations

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.inspection import inspect_group_lazily
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant

AT_REST = frozenset({"Stable", "Empty", "Dead"})


def check_blocked(state: ShardState, now: Instant) -> None:
    """Raises AssertionError for a group that is on its way and does not say what it waits for."""
    for group_id, group in state.groups.items():
        if not _waits(group):
            continue
        shown = inspect_group_lazily(state, group_id, now)
        assert shown is not None
        blocked = [entry for entry in shown["blocked"] if entry is not None]
        assert blocked, f"{group_id} is {group.state_name()}"
        for entry in blocked:
            assert entry["why"]
            assert entry["in_ms"] is None or entry["in_ms"] >= 0


def _waits(group: Group) -> bool:
    if group.state_name() not in AT_REST:
        return True
    if isinstance(group, ClassicGroup):
        return bool(group.pending_members)
    return isinstance(group, ConsumerGroup) and any(
        member.pending_revocation for member in group.members.values()
    )
