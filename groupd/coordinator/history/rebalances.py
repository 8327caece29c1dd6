"""The rebalances of a group, put together from its events: what started each, its steps, its end.

The events are those of one group as a timeline shows them
(`groupd.coordinator.runtime.timeline`), oldest first. A timeline forgets: it may begin in the
middle of a rebalance, whose cause is not known then.

A consumer group has a rebalance from one bump of its epoch to the next, except that bumps before
the next target assignment belong together. It is over when every member is at the target's epoch
and has been given what others held. Events do not tell what a member's target is, so the state of
the group decides about the last rebalance if the caller knows it. A classic group says when a
rebalance starts and when it is completed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from groupd.coordinator.core.slices import Pace, Steps, run_through
from groupd.coordinator.core.types import CLASSIC, EventKind
from groupd.coordinator.history.rebalance_story import (
    NO_CLIENTS,
    MemberNames,
    RebalanceStory,
    Shown,
)

_SETTLED_STATES = ("Stable", "Empty", "Dead")

_NO_PART = frozenset(
    kind.value
    for kind in (
        EventKind.OFFSETS_COMMITTED,
        EventKind.OFFSETS_EXPIRED,
        EventKind.OFFSETS_DELETED,
        EventKind.OFFSETS_FORGOTTEN,
    )
)
_COMING = frozenset({EventKind.MEMBER_JOINED.value, EventKind.MEMBER_REPLACED.value})
_GOING = frozenset({EventKind.MEMBER_LEFT.value, EventKind.MEMBER_FENCED.value})
_LEAVES_FOR_A_WHILE = -2
"""The epoch of a static member that left and keeps its partitions."""


def rebalances(
    events: Sequence[Shown], *, state: str | None = None, clients: Mapping[str, str] = NO_CLIENTS
) -> list[dict[str, Any]]:
    """`rebalance_steps` in one go."""
    return run_through(rebalance_steps(events, state=state, clients=clients))


def rebalance_steps(
    events: Sequence[Shown], *, state: str | None = None, clients: Mapping[str, str] = NO_CLIENTS
) -> Steps[list[dict[str, Any]]]:
    """The rebalances, newest first. `state`: the group's state now; None = not known. `clients`:
    client ids by member id, of members that joined before the first event.

    Each has `started_ms`, `ended_ms` (None: under way; where the next rebalance started before
    this one was over, the start of the next), `cause`, `epoch` (the generation of a classic group),
    `moved_partitions` (how many were given to a member; None for classic groups, whose clients
    alone know), `sentence`, and `steps`: `timestamp_ms`, `kind`, `member_id`, `client_id`, `text`.
    """
    fold = _Fold(MemberNames(events, clients))
    pace = Pace()
    for event in events:
        if event["event"] not in _NO_PART:
            fold.add(event)
        if pace.due(1 + _size(event)):
            yield
    fold.finish(state)
    return [one.shown() for one in reversed(fold.done)]


def _size(event: Shown) -> int:
    """How many partitions an event names."""
    return sum(map(len, event["details"].get("partitions", {}).values()))


class _Fold:
    """`lead`: events of one moment that a start may follow: who came or went, and so started it.
    `epochs`: the members that the events have told of, with the epoch that each is at."""

    def __init__(self, names: MemberNames) -> None:
        self.done: list[RebalanceStory] = []
        self._names = names
        self._lead: list[Shown] = []
        self._epochs: dict[str, int] = {}
        self._instances: dict[str, str] = {}
        self._open: RebalanceStory | None = None

    def add(self, event: Shown) -> None:
        kind = event["event"]
        self._follow_members(event)
        if kind == EventKind.REBALANCE_STARTED.value:
            self._start(event, classic=True)
        elif kind == EventKind.GROUP_EPOCH_BUMPED.value:
            self._bumped(event)
        elif kind == EventKind.TARGET_INSTALLED.value:
            self._target(event)
        elif kind == EventKind.REBALANCE_COMPLETED.value:
            self._current(event, classic=True).complete(event)
        elif kind in _STEPS_OF_MEMBERS:
            self._current(event, classic=False).progress(event)
        else:
            self._drop_older_lead(event)
            self._lead.append(event)

    def finish(self, state: str | None) -> None:
        self._flush()
        if self._open is not None:
            self._open.settle(None if state is None else state in _SETTLED_STATES)
            self.done.append(self._open)

    def _follow_members(self, event: Shown) -> None:
        kind, member_id = event["event"], event["member_id"]
        if kind in _COMING:
            instance = event["details"].get("instance_id")
            if instance is not None:
                self._epochs.pop(self._instances.get(instance, ""), None)
                self._instances[instance] = member_id
            self._epochs[member_id] = -1
        elif kind in _GOING and event["epoch"] != _LEAVES_FOR_A_WHILE:
            self._epochs.pop(member_id, None)
        elif kind == EventKind.MEMBER_EPOCH_ADVANCED.value:
            self._epochs[member_id] = event["epoch"]
        elif kind == EventKind.GROUP_DELETED.value:
            self._epochs.clear()

    def _drop_older_lead(self, event: Shown) -> None:
        if self._lead and self._lead[-1]["timestamp_ms"] != event["timestamp_ms"]:
            self._flush()

    def _flush(self) -> None:
        """No start followed: the events are steps of the rebalance that is under way, or of none,
        such as a static member that leaves for a while."""
        if self._open is not None and not self._open.is_over:
            for event in self._lead:
                self._open.step(event)
        self._lead = []

    def _start(self, event: Shown, *, classic: bool) -> RebalanceStory:
        self._drop_older_lead(event)
        if self._open is not None:
            self._open.overtaken(event["timestamp_ms"])
            self.done.append(self._open)
        lead, self._lead = self._lead, []
        self._open = RebalanceStory(self._names, event, lead, classic=classic)
        return self._open

    def _current(self, event: Shown, *, classic: bool) -> RebalanceStory:
        """The rebalance that the event belongs to. If events do not tell how it started, it starts
        here."""
        self._drop_older_lead(event)
        self._flush()
        if self._open is None:
            self._open = RebalanceStory(self._names, event, [], classic=classic)
            self._open.forget_cause()
        return self._open

    def _bumped(self, event: Shown) -> None:
        if event["group_type"] == CLASSIC:  # its rebalance has begun before
            self._current(event, classic=True).generation(event)
            return
        current = self._open
        if current is None or current.classic or current.has_target or current.is_over:
            current = self._start(event, classic=False)
        else:
            self._drop_older_lead(event)
            lead, self._lead = self._lead, []
            current.start_again(event, lead)
        if event["details"].get("members") == 0:
            current.empty(event)

    def _target(self, event: Shown) -> None:
        current = self._current(event, classic=False)
        if current.epoch != event["epoch"]:
            current = self._start(event, classic=False)
            current.forget_cause()
        current.target(event, self._epochs)


_STEPS_OF_MEMBERS = frozenset(
    {
        EventKind.PARTITIONS_REVOKING.value,
        EventKind.MEMBER_EPOCH_ADVANCED.value,
        EventKind.PARTITIONS_ASSIGNED.value,
    }
)
