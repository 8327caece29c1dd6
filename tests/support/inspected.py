"""The inspection of a group as tests read it."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.inspection import inspect_group_lazily, with_lists
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant


def inspect_group(state: ShardState, group_id: str, now: Instant) -> dict[str, Any] | None:
    """What `inspect_group_lazily` returns, with lists in place of iterators."""
    shown = inspect_group_lazily(state, group_id, now)
    return None if shown is None else with_lists(shown)
