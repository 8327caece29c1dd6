"""What happened in each group, for the reports of failing tests and for `events`: the coordinator's
events, and what clients did (the offsets that they committed and fetched, where they read, which
faults hit them).

The history is bounded: events of each kind in a group (so that commits do not push out rebalances),
all events of a group, groups, and events of all groups. The group that has been quiet for longest
is forgotten first. The history outlives restarts of the broker.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from operator import itemgetter

from msgspec import Struct, field

from groupd.coordinator.core.types import Event, EventKind
from groupd.testing.answers import GroupEvent

EVENTS_PER_GROUP = 100
TRAFFIC_PER_GROUP = 100
GROUPS_MAX = 2000
EVENTS_MAX = 20_000
REBALANCES = frozenset({EventKind.TARGET_INSTALLED, EventKind.REBALANCE_COMPLETED})


class _Group(Struct):
    events: deque[GroupEvent] = field(default_factory=lambda: deque(maxlen=EVENTS_PER_GROUP))
    traffic: deque[GroupEvent] = field(default_factory=lambda: deque(maxlen=TRAFFIC_PER_GROUP))
    rebalances: int = 0


class History:
    """The events of every group; the group that was active last comes last."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._sequence = 0
        self._count = 0

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def latest(self, count: int) -> list[str]:
        """The groups that were active last; of these, the one that has been quiet for longest comes
        first."""
        return list(self._groups)[-count:]

    def of(self, group: str) -> list[GroupEvent]:
        """The events of a group, oldest first; empty for a group without events."""
        found = self._groups.get(group)
        if found is None:
            return []
        return sorted([*found.events, *found.traffic], key=itemgetter("sequence"))

    def rebalances(self, group: str) -> int:
        """The number of rebalances: target assignments of a consumer group, completed generations
        of a classic group."""
        found = self._groups.get(group)
        return 0 if found is None else found.rebalances

    def add(self, event: Event, wall_ms: int) -> None:
        """Add an event of the coordinator. Commits are left out, as their events do not name the
        offsets; `note` adds them."""
        group = self._touch(event.group_id)
        if event.kind in REBALANCES:
            group.rebalances += 1
        if event.kind is not EventKind.OFFSETS_COMMITTED:
            made = self._make(wall_ms, event.kind.value, event.member_id, event.epoch)
            made["cause"], made["details"] = event.cause, dict(event.details)
            self._append(group.events, made)

    def note(
        self,
        group_id: str,
        event: str,
        wall_ms: int,
        *,
        member_id: str = "",
        epoch: int = -1,
        cause: str = "",
        details: Mapping[str, object],
    ) -> None:
        """Add something that a client did in the group."""
        made = self._make(wall_ms, event, member_id, epoch)
        made["cause"], made["details"] = cause, details
        self._append(self._touch(group_id).traffic, made)

    def _touch(self, group_id: str) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _Group()
        self._groups.move_to_end(group_id)
        return group

    def _make(self, wall_ms: int, event: str, member_id: str, epoch: int) -> GroupEvent:
        self._sequence += 1
        return GroupEvent(
            sequence=self._sequence,
            timestamp_ms=wall_ms,
            event=event,
            member_id=member_id,
            epoch=epoch,
            cause="",
            details={},
        )

    def _append(self, events: deque[GroupEvent], made: GroupEvent) -> None:
        self._count += len(events) < (events.maxlen or 0)
        events.append(made)
        while len(self._groups) > GROUPS_MAX or self._count > EVENTS_MAX:
            _, gone = self._groups.popitem(last=False)
            self._count -= len(gone.events) + len(gone.traffic)
