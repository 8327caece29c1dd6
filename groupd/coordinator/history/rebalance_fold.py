"""Folds a group's events into rebalances; no other code does so.

In a classic group a rebalance lasts from the begin of the join phase until the leader's assignment
is durable. In a group of any other type it lasts from a new group epoch until every member has its
target of the newest epoch. Epochs that come before their target belong to the same rebalance,
because no member has moved for them yet; a later one begins the next rebalance. Events after the
end belong to no rebalance, until the next one begins.

The first events may be missing: a timeline drops old ones, and a shard may come from another node.
Then it is not known how the rebalance under way began and how many members it has. It lasts until
the next one begins, or until the group's state shows that it is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from groupd.coordinator.core.slices import Pace, Steps
from groupd.coordinator.core.types import CLASSIC, Event, EventKind
from groupd.coordinator.history.rebalance import GroupRebalance, PartKind, RebalanceEnd

EventInputs = Iterable[tuple[int, Sequence[Event]]]
"""The time of each input of the coordinator, and its events of one group, oldest first."""

BEGINS = frozenset(
    {EventKind.GROUP_EPOCH_BUMPED, EventKind.REBALANCE_STARTED, EventKind.TARGET_INSTALLED}
)
"""A rebalance begins with one of these events, unless the first events are missing."""

FOLDED = frozenset(EventKind) - {
    EventKind.OFFSETS_COMMITTED,
    EventKind.OFFSETS_EXPIRED,
    EventKind.OFFSETS_DELETED,
    EventKind.OFFSETS_FORGOTTEN,
}
"""The kinds of events that have to do with rebalances."""


class RebalanceFold:
    """Folds the events of one group. `open`: the rebalance that is under way. `step_kinds`,
    `detailed` (called at each begin): see `GroupRebalance`. `whole`: no event is missing before the
    first one."""

    def __init__(
        self,
        step_kinds: frozenset[EventKind] | None = None,
        detailed: Callable[[], bool] = lambda: True,
        *,
        whole: bool = False,
    ) -> None:
        self.open: GroupRebalance | None = None
        self._step_kinds = step_kinds
        self._detailed = detailed
        self._ended: list[GroupRebalance] = []
        self._lead: list[Event] = []
        """Members that joined or left in this input. These events are steps of the rebalance that
        follows, or else of the one that is under way."""
        self._may_miss_begin = not whole
        self._now = 0

    def add(self, events: Iterable[Event], now: int) -> list[GroupRebalance]:
        """Take the events of one input. Returns the rebalances that end with it, oldest first."""
        self._now = now
        for event in events:
            if event.kind in FOLDED:
                self._take(event)
        self._flush()
        current = self.open
        if current is not None:
            current.settle()
            if current.converted:
                self._close(RebalanceEnd.CONVERTED)
            elif current.complete:
                self._close(RebalanceEnd.COMPLETED)
        return self._take_ended()

    def stop(self, end: RebalanceEnd, at: int) -> list[GroupRebalance]:
        """End the rebalance under way for a reason that no event shows. Returns the ended
        rebalances."""
        self._now = at
        if self.open is not None:
            self._close(end)
        return self._take_ended()

    def _take_ended(self) -> list[GroupRebalance]:
        ended, self._ended = self._ended, []
        return ended

    def _take(self, event: Event) -> None:
        current = self.open
        match event.kind:
            case (
                EventKind.PARTITIONS_REVOKING
                | EventKind.MEMBER_EPOCH_ADVANCED
                | EventKind.PARTITIONS_ASSIGNED
            ):
                current = self._current(event)
                if current is not None:
                    self._step(current, event)
                    current.progress(event)
            case EventKind.GROUP_EPOCH_BUMPED if event.group_type == CLASSIC:
                self._joined(event)
            case EventKind.GROUP_EPOCH_BUMPED:
                self._bumped(event)
            case EventKind.REBALANCE_STARTED:
                self._start(self._begin(event, PartKind.JOIN), event)
            case EventKind.TARGET_INSTALLED:
                if current is None or not current.awaits_target(event.group_type, event.epoch):
                    current = self._begin(event, PartKind.TARGET, known=False)
                self._step(current, event)
                current.targeted(event)
            case EventKind.REBALANCE_COMPLETED:
                current = self._current(event)
                if current is not None:
                    self._step(current, event)
                    current.synced(event)
                    self._close(RebalanceEnd.COMPLETED)
            case EventKind.GROUP_DELETED if current is not None:
                self._step(current, event)
                self._close(RebalanceEnd.DELETED)
            case _:
                self._lead.append(event)
                if current is not None:
                    current.heard(self._now)
                    current.came_or_went(event)

    def _bumped(self, event: Event) -> None:
        current = self.open
        if current is None or not current.awaits_target(event.group_type):
            current = self._begin(event, PartKind.TARGET)
        self._start(current, event)
        if event.details.get("members") == 0:
            current.drop_phase()
            self._close(RebalanceEnd.EMPTY)

    def _start(self, current: GroupRebalance, event: Event) -> None:
        current.begun(event, self._lead)
        self._step(current, event)

    def _joined(self, event: Event) -> None:
        """The join phase of a classic group is over."""
        current = self.open
        if current is None or current.group_type != event.group_type:
            current = self._begin(event, PartKind.JOIN, known=False)
        self._step(current, event)
        current.joined(event)
        if not current.members:
            self._close(RebalanceEnd.EMPTY)

    def _begin(self, event: Event, phase: PartKind, *, known: bool = True) -> GroupRebalance:
        before, at = self.open, self._now
        if before is not None:
            at = before.heard(at)
            before.settle()
        detailed = self._detailed()
        current = GroupRebalance(event, at, self._step_kinds, known=known, detailed=detailed)
        current.begin_phase(phase)
        if before is not None and before.complete:
            self._close(RebalanceEnd.COMPLETED)
        elif before is not None:
            self._close(RebalanceEnd.SUPERSEDED, current)
        self.open, self._may_miss_begin = current, False
        return current

    def _current(self, event: Event) -> GroupRebalance | None:
        """Returns the rebalance under way. If `event` may be the first one of all, a rebalance with
        unknown begin is made."""
        if self._may_miss_begin:
            phase = PartKind.JOIN if event.group_type == CLASSIC else PartKind.TARGET
            self._begin(event, phase, known=False).target_epoch = event.epoch
        return self.open

    def _step(self, current: GroupRebalance, event: Event) -> None:
        current.heard(self._now)
        self._flush()
        current.step(event)

    def _flush(self) -> None:
        if self.open is not None:
            for event in self._lead:
                self.open.step(event)
        self._lead.clear()

    def _close(self, end: RebalanceEnd, following: GroupRebalance | None = None) -> None:
        assert self.open is not None
        self.open.heard(self._now)
        self.open.finish(end, following)
        self._ended.append(self.open)
        self.open = None


def rebalance_steps(
    inputs: EventInputs, state: str | None = None, pace: Pace | None = None
) -> Steps[list[GroupRebalance]]:
    """Returns the rebalances that a group's events show, oldest first. `state`: the state of the
    group now, which may show that the last rebalance is over; it then ended with its last event.
    None = not known. `pace`: what was done since the last stop."""
    fold, found, pace = RebalanceFold(), [], pace or Pace()
    for at, events in inputs:
        found += fold.add(events, at)
        if pace.due(sum(map(_size, events))):
            yield
    last = fold.open
    if last is not None and state in ("Stable", "Empty", "Dead"):
        end = RebalanceEnd.COMPLETED if state == "Stable" else RebalanceEnd.EMPTY
        found += fold.stop(end, last.latest)
    elif last is not None:
        found.append(last)
    return found


def _size(event: Event) -> int:
    """How much work an event is: a little, and 1 for each partition that it names."""
    return 6 + sum(map(len, event.details.get("partitions", {}).values()))
