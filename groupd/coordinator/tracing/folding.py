"""Folds the events of groups into finished spans: pure, times and identifiers are arguments.

A rebalance of a consumer group begins with a new group epoch and is over when all members have the
target of that epoch. New epochs that come before there is a target belong to it, since nobody has
moved yet; a later one supersedes it. A rebalance of a classic group lasts from its first event
until the leader's assignment is durable.

What is open is bounded (`limits`). A rebalance of which nothing is heard any more, because its
shard has moved to another node for example, is given up in the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from groupd.coordinator.core.types import CLASSIC, Event, EventKind
from groupd.coordinator.tracing.limits import SpanPlaces, TraceLimits, TraceRate
from groupd.coordinator.tracing.rebalance import OpenRebalance
from groupd.coordinator.tracing.spans import Ids, Span

COMPLETED = "completed"
EMPTY = "empty"
SUPERSEDED = "superseded"
CONVERTED = "converted"
DELETED = "deleted"
GIVEN_UP = "given up"
STOPPED = "stopped"


class Folding:
    """`traces_per_second`: rebalances beyond it are left out, and counted in the next root."""

    def __init__(self, ids: Ids, traces_per_second: int, limits: TraceLimits | None = None) -> None:
        self._ids = ids
        self._limits = limits or TraceLimits()
        self._rate = TraceRate(traces_per_second)
        self._places = SpanPlaces(self._limits.spans_in_all)
        self._open: OrderedDict[str, OpenRebalance] = OrderedDict()
        """By group; the one that was heard of last comes last."""
        self._traces_left_out = 0
        self._now_ns = 0
        self._earlier: list[Event] = []
        """Events of this input, of members of groups without a rebalance: it may still begin."""
        self._finished: list[Span] = []
        self.steps: Mapping[EventKind, Callable[[Event], None]] = {
            EventKind.GROUP_EPOCH_BUMPED: self._bumped,
            EventKind.TARGET_INSTALLED: self._targeted,
            EventKind.MEMBER_EPOCH_ADVANCED: self._advanced,
            EventKind.PARTITIONS_REVOKING: self._revoking,
            EventKind.PARTITIONS_ASSIGNED: self._assigned,
            EventKind.MEMBER_LEFT: self._left,
            EventKind.MEMBER_FENCED: self._left,
            EventKind.MEMBER_JOINED: self._arrived,
            EventKind.MEMBER_REPLACED: self._arrived,
            EventKind.ASSIGNOR_FAILED: self._arrived,
            EventKind.REBALANCE_STARTED: self._started,
            EventKind.REBALANCE_COMPLETED: self._completed,
            EventKind.GROUP_CONVERTED: self._converted,
            EventKind.GROUP_DELETED: self._deleted,
        }
        """What to do with an event, by its kind; the other kinds do not matter here."""

    def take(self, events: Sequence[Event], now_ns: int) -> list[Span]:
        """The events of one input. Returns the traces that end with it, each with its root last."""
        self._now_ns = now_ns
        self._earlier.clear()
        touched: dict[str, None] = {}
        for event in events:
            step = self.steps.get(event.kind)
            if step is not None:
                step(event)
                touched[event.group_id] = None
        for group_id in touched:
            self._settle(group_id)
        return self._take_finished()

    def stop(self, now_ns: int) -> list[Span]:
        """End all that is open."""
        self._now_ns = now_ns
        for group_id in list(self._open):
            self._close(group_id, STOPPED)
        return self._take_finished()

    def _take_finished(self) -> list[Span]:
        finished, self._finished = self._finished, []
        return finished

    # Steps, one for each kind of event ----------------------------------------------------

    def _bumped(self, event: Event) -> None:
        if event.group_type == CLASSIC:
            self._joined(event)
            return
        rebalance = self._open.get(event.group_id)
        if rebalance is None or not rebalance.awaits_target(event):
            rebalance = self._begin(event, "target")
        else:
            rebalance.epoch = event.epoch
        rebalance.note(event, rebalance.at(self._now_ns))
        if event.details.get("members") == 0:
            rebalance.drop_phase()
            self._close(event.group_id, EMPTY)

    def _joined(self, event: Event) -> None:
        """The join phase of a classic group is over."""
        rebalance = self._open.get(event.group_id)
        if rebalance is None or rebalance.group_type != event.group_type:
            rebalance = self._begin(event, "join")
        at_ns = rebalance.at(self._now_ns)
        rebalance.epoch = event.epoch
        rebalance.members = event.details["members"]
        rebalance.end_phase(at_ns, members=rebalance.members)
        if rebalance.members:
            rebalance.begin_phase("target", at_ns)
        else:
            self._close(event.group_id, EMPTY)

    def _started(self, event: Event) -> None:
        self._begin(event, "join")

    def _completed(self, event: Event) -> None:
        rebalance = self._open.get(event.group_id)
        if rebalance is not None:
            assignor = event.details.get("protocol", "")
            rebalance.end_phase(rebalance.at(self._now_ns), assignor=assignor)
            self._close(event.group_id, COMPLETED)

    def _targeted(self, event: Event) -> None:
        rebalance = self._open.get(event.group_id)
        if rebalance is None or not rebalance.awaits_target(event):
            # Its beginning was not seen, or it was computed for an epoch that others have passed.
            rebalance = self._begin(event, "target")
        rebalance.targeted(event, rebalance.at(self._now_ns))

    def _revoking(self, event: Event) -> None:
        rebalance = self._open.get(event.group_id)
        if rebalance is not None:
            rebalance.revoking(event, rebalance.at(self._now_ns))

    def _advanced(self, event: Event) -> None:
        rebalance = self._open.get(event.group_id)
        if rebalance is not None:
            rebalance.advanced(event, rebalance.at(self._now_ns))

    def _assigned(self, event: Event) -> None:
        rebalance = self._open.get(event.group_id)
        if rebalance is not None:
            rebalance.assigned(event)

    def _left(self, event: Event) -> None:
        rebalance = self._open.get(event.group_id)
        if rebalance is None:
            self._earlier.append(event)
        else:
            fenced = event.kind is EventKind.MEMBER_FENCED
            rebalance.left(event, rebalance.at(self._now_ns), fenced=fenced)

    def _arrived(self, event: Event) -> None:
        rebalance = self._open.get(event.group_id)
        if rebalance is None:
            self._earlier.append(event)
            return
        if event.kind is EventKind.MEMBER_REPLACED:
            rebalance.replaced(event)
        rebalance.note(event, rebalance.at(self._now_ns))

    def _converted(self, event: Event) -> None:
        """If the group rebalances under its new type, that comes next."""
        rebalance = self._open.get(event.group_id)
        if rebalance is not None:
            rebalance.converted = True
            rebalance.note(event, rebalance.at(self._now_ns))

    def _deleted(self, event: Event) -> None:
        if event.group_id in self._open:
            self._close(event.group_id, DELETED)

    # Rebalances ---------------------------------------------------------------------------

    def _begin(self, event: Event, phase: str) -> OpenRebalance:
        """A new rebalance; the one that is open is superseded by it."""
        group_id = event.group_id
        before = self._open.get(group_id)
        sampled = self._rate.admits(self._now_ns)
        self._traces_left_out += not sampled
        begin_ns = self._now_ns if before is None else before.at(self._now_ns)
        rebalance = OpenRebalance(
            event, begin_ns, self._ids, self._limits, self._places, sampled=sampled
        )
        rebalance.begin_phase(phase, begin_ns)
        for earlier in self._earlier:
            if earlier.group_id == group_id:
                rebalance.note(earlier, begin_ns)
        if before is not None:
            self._close(group_id, SUPERSEDED, rebalance)
        self._open[group_id] = rebalance
        self._make_room()
        return rebalance

    def _make_room(self) -> None:
        """Give up those of which nothing has been heard for longest."""
        quiet_since_ns = self._now_ns - self._limits.quiet_ns
        while True:
            group_id, oldest = next(iter(self._open.items()))
            too_many = len(self._open) > self._limits.rebalances
            if not too_many and oldest.latest_ns >= quiet_since_ns:
                return
            self._close(group_id, GIVEN_UP)

    def _settle(self, group_id: str) -> None:
        rebalance = self._open.get(group_id)
        if rebalance is None:
            return
        self._open.move_to_end(group_id)
        rebalance.settle(rebalance.at(self._now_ns))
        if rebalance.converted:
            self._close(group_id, CONVERTED)
        elif rebalance.group_type != CLASSIC and rebalance.is_complete:
            self._close(group_id, COMPLETED)

    def _close(self, group_id: str, outcome: str, following: OpenRebalance | None = None) -> None:
        rebalance = self._open.pop(group_id)
        # One that was given up ended with the last that was heard of it.
        now_ns = rebalance.latest_ns if outcome == GIVEN_UP else self._now_ns
        left_out = 0
        if rebalance.sampled:
            left_out, self._traces_left_out = self._traces_left_out, 0
        self._finished += rebalance.end(outcome, now_ns, left_out, following)
