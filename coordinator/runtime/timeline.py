"""The last events of each group, for the admin port and for failing tests.

Bounded twice: events per group, and groups (the one that has been quiet for longest goes first).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from coordinator.core.types import Event

EVENTS_PER_GROUP = 100
GROUPS_MAX = 2000


class Timeline:
    """Events by group, oldest first."""

    __slots__ = ("_groups", "_sequence")

    def __init__(self) -> None:
        self._groups: OrderedDict[str, deque[tuple[int, int, Event]]] = OrderedDict()
        self._sequence = 0

    def add(self, event: Event, wall_ms: int) -> None:
        entry = (self._sequence, wall_ms, event)
        self._sequence += 1
        events = self._groups.get(event.group_id)
        if events is None:
            events = self._groups[event.group_id] = deque(maxlen=EVENTS_PER_GROUP)
            if len(self._groups) > GROUPS_MAX:
                self._groups.popitem(last=False)
        else:
            self._groups.move_to_end(event.group_id)
        events.append(entry)

    def of(self, group_id: str) -> list[dict[str, Any]]:
        """Empty for a group without events."""
        return [
            {
                "sequence": sequence,
                "timestamp_ms": wall_ms,
                "event": event.kind.value,
                "member_id": event.member_id,
                "epoch": event.epoch,
                "cause": event.cause,
                "details": dict(event.details),
            }
            for sequence, wall_ms, event in self._groups.get(group_id, ())
        ]
