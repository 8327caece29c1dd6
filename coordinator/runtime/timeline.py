"""The last events of each group, for the admin port and for failing tests.

Bounded three times: events per group, groups, and events of all groups (the group that has been
quiet for longest goes first): a thousand groups that form would otherwise hold as many megabytes
of it as of members.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from coordinator.core.types import Event

EVENTS_PER_GROUP = 100
GROUPS_MAX = 2000
EVENTS_MAX = 10_000


class Timeline:
    """Events by group, oldest first."""

    __slots__ = ("_count", "_groups", "_sequence")

    def __init__(self) -> None:
        self._count = 0
        self._groups: OrderedDict[str, deque[tuple[int, int, Event]]] = OrderedDict()
        self._sequence = 0

    def add(self, event: Event, wall_ms: int) -> None:
        entry = (self._sequence, wall_ms, event)
        self._sequence += 1
        events = self._groups.get(event.group_id)
        if events is None:
            events = self._groups[event.group_id] = deque(maxlen=EVENTS_PER_GROUP)
        else:
            self._groups.move_to_end(event.group_id)
        self._count += len(events) < EVENTS_PER_GROUP
        events.append(entry)
        while len(self._groups) > GROUPS_MAX or self._count > EVENTS_MAX:
            _, gone = self._groups.popitem(last=False)
            self._count -= len(gone)

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
