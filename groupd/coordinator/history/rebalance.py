"""One rebalance of a group, which `rebalance_fold` makes of events. Console, commands and traces
are views of it.

The fold chooses the unit of times. Times never go back, even if the clock does. The size of a
rebalance is bounded, except for the ids of the members that have their target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from heapq import heappush, heappushpop
from itertools import count

from msgspec import Struct, field

from groupd.coordinator.core.types import CLASSIC, Event, EventKind

MEMBERS_MAX = 500
"""The most members whose parts are followed at a time."""
PARTS_MAX = 100
"""How many finished parts of members are kept at most: those of fenced members and the longest
ones."""
NAMES_MAX = 20
"""The most partitions that a part names."""
STARTS_MAX = 20
"""The most starts that are kept, and the most members that are kept for each."""
STEPS_MAX = 128
"""The most events that are kept."""
PEOPLE = frozenset(
    {
        EventKind.MEMBER_JOINED,
        EventKind.MEMBER_REPLACED,
        EventKind.MEMBER_LEFT,
        EventKind.MEMBER_FENCED,
    }
)
"""Events of members that join, leave or are replaced."""


class RebalanceEnd(Enum):
    """How a rebalance ended. SUPERSEDED: the next one began. EMPTY: no member is left. CONVERTED:
    the group has another type. GIVEN_UP: there was no event for too long. STOPPED: the process
    stopped."""

    COMPLETED = "completed"
    SUPERSEDED = "superseded"
    EMPTY = "empty"
    CONVERTED = "converted"
    DELETED = "deleted"
    GIVEN_UP = "given up"
    STOPPED = "stopped"


class PartKind(Enum):
    """What the group waits for. JOIN: all members of a classic group join again. TARGET: the group
    gets an assignment. REVOKE: a member gives partitions up and confirms it. ASSIGN: a member
    reaches its whole target. REJOIN, SYNC: a member of a classic group joins or syncs; only known
    of those that did not."""

    JOIN = "join"
    TARGET = "target"
    REVOKE = "revoke"
    ASSIGN = "assign"
    REJOIN = "rejoin"
    SYNC = "sync"


class RebalancePart(Struct):
    """A part of a rebalance: one wait, of a member or of the whole group (`member_id` ""). `facts`:
    what is known of it, with JSON-friendly values. `partitions`: the first of the `count`
    partitions that the member must revoke or was given. `error`: why the member was fenced."""

    kind: PartKind
    member_id: str
    since: int
    until: int = -1
    facts: dict[str, str | int] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)
    count: int = 0
    error: str = ""


class RebalanceStart(Struct, frozen=True):
    """Why a rebalance began or got another epoch: the event, and the first of the `people_count`
    members that joined or left in the same input."""

    event: Event
    people: Sequence[Event]
    people_count: int


class GroupRebalance:
    """One rebalance. Views read it; only the fold changes it.

    `group_type`: at the begin. `epoch`: the newest one; the generation of a classic group. `until`,
    `end`: None while the rebalance is under way. `following`: the rebalance that superseded it.
    `members`: how many must reach the target; None = not known. `known`: whether the event that
    began it was seen. `detailed`: whether starts, steps and parts are kept, or only what says when
    it is over. `step_kinds`: the kinds of events that are kept; None = all. `assigned` and
    `revoked` count partitions, `fenced` counts members.
    """

    def __init__(
        self,
        event: Event,
        since: int,
        step_kinds: frozenset[EventKind] | None,
        *,
        known: bool,
        detailed: bool,
    ) -> None:
        self.group_id = event.group_id
        self.group_type = event.group_type
        self.epoch = event.epoch
        self.since = self.latest = since
        self.until: int | None = None
        self.end: RebalanceEnd | None = None
        self.following: GroupRebalance | None = None
        self.members: int | None = None
        self.known = known
        self.detailed = detailed
        self.converted = False
        self.target_epoch = -1
        self.target_at: int | None = None
        self.starts: list[RebalanceStart] = []
        self.starts_left_out = 0
        self.steps: list[tuple[int, Event]] = []
        self.assigned = self.revoked = self.fenced = 0
        self.parts_left_out = 0
        self._step_kinds = step_kinds
        self._phase: RebalancePart | None = None
        self._phases: list[RebalancePart] = []
        self._done: set[str] = set()
        self._completing: list[str] = []
        self._open: dict[str, RebalancePart] = {}
        self._over: list[tuple[bool, int, int, RebalancePart]] = []
        """A heap of (whether the member was fenced, how long the part took, a number, the part)."""
        self._numbers = count()

    @property
    def classic(self) -> bool:
        return self.group_type == CLASSIC

    @property
    def parts(self) -> list[RebalancePart]:
        """The finished parts, ordered by their begin."""
        over = [one[-1] for one in sorted(self._over, key=lambda one: one[2])]
        return sorted([*self._phases, *over], key=lambda one: one.since)

    @property
    def complete(self) -> bool:
        """Whether every member has its target of the newest epoch."""
        reached = self.members is not None and len(self._done) >= self.members
        return reached and self.target_epoch == self.epoch

    def awaits_target(self, group_type: str, epoch: int = -1) -> bool:
        """Whether the newest epoch has no target yet, the group still has the same type, and
        `epoch` is not newer."""
        return group_type == self.group_type and self.target_epoch < self.epoch >= epoch

    def heard(self, at: int) -> int:
        """Note that an event came at `at`. Returns the time of the event, which never goes back."""
        self.latest = max(self.latest, at)
        return self.latest

    def begun(self, event: Event, lead: Sequence[Event]) -> None:
        """Note why the rebalance began or got another epoch."""
        self.epoch = event.epoch
        if len(self.starts) < STARTS_MAX:
            people = [one for one in lead if one.kind in PEOPLE]
            self.starts.append(RebalanceStart(event, people[:STARTS_MAX], len(people)))
        else:
            self.starts_left_out += 1

    def step(self, event: Event) -> None:
        wanted = self.detailed and (self._step_kinds is None or event.kind in self._step_kinds)
        if wanted and len(self.steps) < STEPS_MAX:
            self.steps.append((self.latest, event))

    # The group as a whole ------------------------------------------------------------------

    def begin_phase(self, kind: PartKind) -> None:
        self._phase = RebalancePart(kind, "", self.latest)

    def end_phase(self, facts: Mapping[str, str | int]) -> None:
        phase, self._phase = self._phase, None
        if phase is not None:
            phase.until = self.latest
            phase.facts |= facts
            self._phases.append(phase)

    def drop_phase(self) -> None:
        """No member is left, so the group waits for nothing more."""
        self._phase = None

    def targeted(self, event: Event) -> None:
        """A target is installed, maybe of an older epoch. Members now move towards it."""
        self.target_epoch, self.target_at = event.epoch, self.latest
        self.members = event.details.get("members", 0)
        self._done.clear()
        facts = ("assignor", ""), ("moved_members", 0)
        self.end_phase({name: event.details.get(name, none) for name, none in facts})
        if self.target_epoch < self.epoch:
            self.begin_phase(PartKind.TARGET)

    def joined(self, event: Event) -> None:
        """The join phase of a classic group is over."""
        self.epoch, self.members = event.epoch, event.details.get("members", 0)
        self.end_phase({"members": event.details.get("members", 0)})
        if self.members:
            self.begin_phase(PartKind.TARGET)

    def synced(self, event: Event) -> None:
        """The leader's assignment of a classic group is durable."""
        self.epoch, self.members = event.epoch, event.details.get("members", self.members)
        self.end_phase({"assignor": event.details.get("protocol", "")})

    def finish(self, end: RebalanceEnd, following: GroupRebalance | None) -> None:
        """End the rebalance. What members still have to give up is continued in `following`."""
        self.end, self.until, self.following = end, self.latest, following
        self.end_phase({"unfinished": True})
        for part in list(self._open.values()):
            if following is not None and part.kind is PartKind.REVOKE:
                following.take_over(part)
            part.facts["unfinished"] = True
            self._finish(part)

    # Members -------------------------------------------------------------------------------

    def progress(self, event: Event) -> None:
        """A member of a group with targets comes nearer to its target."""
        member_id, details = event.member_id, event.details
        if event.kind is EventKind.PARTITIONS_REVOKING:
            part = self._part(member_id, PartKind.REVOKE, self.latest)
            if part is not None and "rebalance_timeout_ms" in details:
                part.facts["rebalance_timeout_ms"] = details["rebalance_timeout_ms"]
            self.revoked += _name(part, event)
            return
        if event.kind is EventKind.PARTITIONS_ASSIGNED:
            self.assigned += _name(self._open.get(member_id), event)
        else:
            self._advanced(event)
        if event.epoch == self.target_epoch and details.get("complete", True):
            self._completing.append(member_id)

    def _advanced(self, event: Event) -> None:
        """The member has an epoch, so it has given up what it had to give up."""
        since = self.since if self.target_at is None else self.target_at
        part = self._open.get(event.member_id)
        if part is not None and part.kind is PartKind.REVOKE:
            self._finish(part)
            since = self.latest
        if event.epoch == self.epoch:
            # The event that installed the target may be missing.
            self.target_epoch = event.epoch
        if event.epoch == self.target_epoch:
            self._part(event.member_id, PartKind.ASSIGN, since)

    def settle(self) -> None:
        """Called after all events of an input: the members that have reached their target are
        done."""
        for member_id in self._completing:
            self._done.add(member_id)
            part = self._open.get(member_id)
            if part is not None:
                self._finish(part)
        self._completing.clear()

    def came_or_went(self, event: Event) -> None:
        """A member joined or left, or the group was converted. That may begin the next rebalance,
        so it is not a step of this one yet."""
        match event.kind:
            case EventKind.MEMBER_LEFT | EventKind.MEMBER_FENCED:
                self._gone(event)
            case EventKind.MEMBER_REPLACED:
                # A static member is back under another id, and the old id does not count any more.
                self._done.discard(event.details.get("replaces", ""))
            case EventKind.GROUP_CONVERTED:
                self.converted = True

    def _gone(self, event: Event) -> None:
        member_id, fenced = event.member_id, event.kind is EventKind.MEMBER_FENCED
        self.fenced += fenced
        part = self._open.get(member_id)
        if part is None and fenced and member_id not in self._done:
            part = self._silent_part(member_id)
        self._done.discard(member_id)
        if part is not None:
            part.facts["left"] = event.cause
            part.error = event.cause if fenced else ""
            self._finish(part)

    def _silent_part(self, member_id: str) -> RebalancePart | None:
        """Returns a part for a fenced member without events. It begins when the group began to wait
        for the member."""
        if self.target_at is not None:
            return self._part(member_id, PartKind.ASSIGN, self.target_at)
        if self._phase is None or not self.classic:
            return None
        kind = PartKind.REJOIN if self._phase.kind is PartKind.JOIN else PartKind.SYNC
        return self._part(member_id, kind, self._phase.since)

    def take_over(self, part: RebalancePart) -> None:
        """Continue what a member had to give up in the previous rebalance."""
        mine = self._part(part.member_id, part.kind, self.since)
        if mine is not None:
            mine.facts |= part.facts
            mine.partitions, mine.count = list(part.partitions), part.count

    def _part(self, member_id: str, kind: PartKind, since: int) -> RebalancePart | None:
        """Returns the member's unfinished part, which is made if needed; None if parts are not
        kept, or if there are too many."""
        if not self.detailed or member_id in self._open:
            return self._open.get(member_id)
        if len(self._open) >= MEMBERS_MAX:
            self.parts_left_out += 1
            return None
        part = self._open[member_id] = RebalancePart(kind, member_id, since)
        return part

    def _finish(self, part: RebalancePart) -> None:
        del self._open[part.member_id]
        part.until = self.latest
        if part.since == part.until and not (part.count or part.facts):
            return  # a part without time and facts tells nothing
        kept = bool(part.error), part.until - part.since, next(self._numbers), part
        if len(self._over) < PARTS_MAX:
            heappush(self._over, kept)
        else:
            heappushpop(self._over, kept)
            self.parts_left_out += 1


def _name(part: RebalancePart | None, event: Event) -> int:
    """Add the partitions of an event to `part`, if it is not None. Returns how many partitions they
    are."""
    named: Mapping[str, Sequence[int]] = event.details.get("partitions", {})
    number = sum(map(len, named.values()))
    if part is not None:
        part.count += number
        for topic, numbers in named.items():
            room = max(0, NAMES_MAX - len(part.partitions))
            part.partitions += [f"{topic}-{one}" for one in numbers[:room]]
    return number
