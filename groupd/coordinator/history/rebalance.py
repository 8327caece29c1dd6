"""One rebalance of a group: what `rebalance_fold` makes of events. Console, commands and traces are
views of it.

Times are in the unit of whoever folds, and never go back, even if the clock does. `FoldLimits`
bounds what a rebalance keeps, except for the ids of the members that have their target.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from heapq import heappush, heappushpop
from itertools import count

from msgspec import Struct, field

from groupd.coordinator.core.types import CLASSIC, Event, EventKind

JOIN, TARGET = "join", "target"
"""The phases of a rebalance: until all members of a classic group have joined again, and until
there is an assignment."""


class RebalanceEnd(Enum):
    """How a rebalance ended. SUPERSEDED: the next one began. EMPTY: no member is left. CONVERTED:
    the group has another type. GIVEN_UP: nothing was heard for too long. STOPPED: with the process.
    """

    COMPLETED = "completed"
    SUPERSEDED = "superseded"
    EMPTY = "empty"
    CONVERTED = "converted"
    DELETED = "deleted"
    GIVEN_UP = "given up"
    STOPPED = "stopped"


class PartKind(Enum):
    """What a member has to do. REVOKE: give partitions up and confirm it. ASSIGN: reach its whole
    target. REJOIN, SYNC: come back in that phase of a classic group; known only of those that did
    not."""

    REVOKE = "revoke"
    ASSIGN = "assign"
    REJOIN = "rejoin"
    SYNC = "sync"


class MemberPart(Struct):
    """The part of one member. `partitions`: the names of the first that it is to revoke or was
    given, out of `count`. `left`: why it left or was fenced, "" if it did not."""

    kind: PartKind
    member_id: str
    since: int
    until: int | None = None
    partitions: list[str] = field(default_factory=list)
    count: int = 0
    rebalance_timeout_ms: int | None = None
    left: str = ""
    fenced: bool = False
    finished: bool = True

    @property
    def confirmed(self) -> bool:
        """Whether the member itself brought it to its end."""
        return self.finished and not self.left


class RebalancePhase(Struct, frozen=True):
    """What the group as a whole waited for: `join`, its members; `target`, its assignment. `facts`:
    what was known at the end of the phase; None if it did not come to its end."""

    name: str
    since: int
    until: int
    facts: Mapping[str, str | int] | None


class RebalanceStart(Struct, frozen=True):
    """Why a rebalance began, or got another epoch: the event, and the members that came and went in
    the same input, out of `people_count`."""

    event: Event
    people: Sequence[Event]
    people_count: int


class PartPlaces:
    """Places for parts, which all folds of a process share."""

    def __init__(self, count: int) -> None:
        self._left = count

    def take(self) -> bool:
        """Whether there was a place."""
        if self._left == 0:
            return False
        self._left -= 1
        return True

    def give_back(self, count: int = 1) -> None:
        self._left += count


class FoldLimits(Struct, frozen=True):
    """`members`: the most members of a rebalance whose parts are not over. `parts`: the most parts
    that stay: the longest, and those of members that were fenced. `steps`: the most events that are
    kept, of the kinds `step_kinds` (None = all). `names`: the most partitions that a part names.
    `places`: of what all rebalances together may have."""

    members: int = 10_000
    parts: int = 10_000
    steps: int = 10_000
    step_kinds: frozenset[EventKind] | None = None
    names: int = 0
    places: PartPlaces = field(default_factory=lambda: PartPlaces(10_000))


STARTS = 20
"""The most starts of a rebalance that are kept, and the most people of one."""

PEOPLE = frozenset(
    {
        EventKind.MEMBER_JOINED,
        EventKind.MEMBER_REPLACED,
        EventKind.MEMBER_LEFT,
        EventKind.MEMBER_FENCED,
    }
)
"""Events of members that come and go."""


class GroupRebalance:
    """One rebalance. Views read it; only the fold changes it.

    `group_type`, `epoch`: as of its newest epoch; the epoch of a classic group is its generation.
    `until`, `end`: None while it is under way. `following`: the one that superseded it. `members`:
    how many must reach the target; None = not told. `known`: whether its begin was there to be
    seen. `detailed`: whether starts, steps, phases and parts are kept, or only what says when it is
    over. `assigned` and `revoked` count partitions, `fenced` members.
    """

    def __init__(
        self, event: Event, since: int, limits: FoldLimits, *, known: bool, detailed: bool
    ) -> None:
        self.group_id = event.group_id
        self.group_type = event.group_type
        self.epoch = event.epoch
        self.since = self.latest = self.progress_at = since
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
        self.phases: list[RebalancePhase] = []
        self.assigned = self.revoked = self.fenced = 0
        self.parts_left_out = 0
        self._limits = limits
        self._phase: tuple[str, int] | None = None
        self._done: set[str] = set()
        self._completing: list[str] = []
        self._open: dict[str, MemberPart] = {}
        self._over: list[tuple[bool, int, int, MemberPart]] = []
        """A heap: whether the member was fenced, how long the part took, a number, the part."""
        self._numbers = count()

    @property
    def classic(self) -> bool:
        return self.group_type == CLASSIC

    @property
    def parts(self) -> list[MemberPart]:
        """The parts that are over, the earliest first."""
        return [one[-1] for one in sorted(self._over, key=lambda one: (one[-1].since, one[2]))]

    @property
    def complete(self) -> bool:
        """Whether every member has its target of the newest epoch."""
        reached = self.members is not None and len(self._done) >= self.members
        return reached and self.target_epoch == self.epoch

    def awaits_target(self, group_type: str, epoch: int = -1) -> bool:
        """Whether it has no target of its newest epoch yet, the group is still of its type, and
        `epoch` is not newer."""
        return group_type == self.group_type and self.target_epoch < self.epoch >= epoch

    def heard(self, at: int) -> int:
        """The time of what happens now."""
        self.latest = max(self.latest, at)
        return self.latest

    def begun(self, event: Event, lead: Sequence[Event]) -> None:
        """Why it began, or got another epoch."""
        self.epoch = event.epoch
        if len(self.starts) < STARTS:
            people = [one for one in lead if one.kind in PEOPLE]
            self.starts.append(RebalanceStart(event, people[:STARTS], len(people)))
        else:
            self.starts_left_out += 1

    def step(self, event: Event) -> None:
        kinds = self._limits.step_kinds
        wanted = self.detailed and (kinds is None or event.kind in kinds)
        if wanted and len(self.steps) < self._limits.steps:
            self.steps.append((self.latest, event))

    def begin_phase(self, name: str) -> None:
        self._phase = name, self.latest

    def end_phase(self, facts: Mapping[str, str | int] | None) -> None:
        phase, self._phase = self._phase, None
        if phase is not None and self.detailed:
            self.phases.append(RebalancePhase(*phase, self.latest, facts))

    def drop_phase(self) -> None:
        """There is nothing more to wait for: nobody is left."""
        self._phase = None

    def install(self, event: Event) -> None:
        """A target is there: members move towards it. It may be that of an older epoch."""
        self.target_epoch, self.target_at = event.epoch, self.latest
        self.members = event.details.get("members", 0)
        self._done.clear()
        self.end_phase(
            {
                "assignor": event.details.get("assignor", ""),
                "moved_members": event.details.get("moved_members", 0),
            }
        )
        if self.target_epoch < self.epoch:
            self.begin_phase(TARGET)

    def joined(self, event: Event) -> None:
        """The join phase of a classic group is over."""
        self.epoch, self.members = event.epoch, event.details.get("members", 0)
        self.end_phase({"members": self.members})
        if self.members:
            self.begin_phase(TARGET)

    def synced(self, event: Event) -> None:
        """The leader's assignment of a classic group is durable."""
        self.epoch, self.members = event.epoch, event.details.get("members", self.members)
        self.end_phase({"assignor": event.details.get("protocol", "")})

    # Members -------------------------------------------------------------------------------

    def progress(self, event: Event) -> None:
        """A member of a group with targets comes nearer to its own."""
        member_id, details = event.member_id, event.details
        if event.kind is EventKind.PARTITIONS_REVOKING:
            part = self._part(member_id, PartKind.REVOKE, self.latest)
            if part is not None:
                part.rebalance_timeout_ms = details.get("rebalance_timeout_ms")
            self.revoked += self._name(part, event)
            return
        if event.kind is EventKind.PARTITIONS_ASSIGNED:
            self.assigned += self._name(self._open.get(member_id), event)
        else:
            self._advanced(event)
        if event.epoch == self.target_epoch and details.get("complete", True):
            self._completing.append(member_id)

    def _advanced(self, event: Event) -> None:
        """The member has an epoch: what it was to give up is given up."""
        since = self.since if self.target_at is None else self.target_at
        part = self._open.get(event.member_id)
        if part is not None and part.kind is PartKind.REVOKE:
            self._finish(part)
            since = self.latest
        if event.epoch == self.epoch:
            self.target_epoch = event.epoch  # even if nobody remembers that it was installed
        if event.epoch == self.target_epoch:
            self._part(event.member_id, PartKind.ASSIGN, since)

    def settle(self) -> None:
        """All events of an input are there: the members that it has completed are done."""
        for member_id in self._completing:
            self._done.add(member_id)
            part = self._open.get(member_id)
            if part is not None:
                self._finish(part, skip=part.since == self.latest and not part.count)
        self._completing.clear()

    def aside(self, event: Event) -> None:
        """An event that may belong to the rebalance that follows, for what it means to this one."""
        match event.kind:
            case EventKind.MEMBER_LEFT | EventKind.MEMBER_FENCED:
                self._gone(event)
            case EventKind.MEMBER_REPLACED:
                # A static member is back under another id: that one counts now.
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
            part.left, part.fenced = event.cause, fenced
            self._finish(part)

    def _silent_part(self, member_id: str) -> MemberPart | None:
        """The part of a member of which nothing was heard: since the group waits for it."""
        if self.target_at is not None:
            return self._part(member_id, PartKind.ASSIGN, self.target_at)
        if self._phase is None or not self.classic:
            return None
        name, since = self._phase
        return self._part(member_id, PartKind.REJOIN if name == JOIN else PartKind.SYNC, since)

    def finish(self, end: RebalanceEnd, following: GroupRebalance | None) -> None:
        """What members still have to give up goes on in `following`."""
        self.end, self.until, self.following = end, self.latest, following
        self.end_phase(None)
        for part in list(self._open.values()):
            if following is not None and part.kind is PartKind.REVOKE:
                following.take_over(part)
            part.finished = False
            self._finish(part)
        self._limits.places.give_back(len(self._over))

    def take_over(self, part: MemberPart) -> None:
        mine = self._part(part.member_id, part.kind, self.since)
        if mine is not None:
            mine.partitions, mine.count = list(part.partitions), part.count
            mine.rebalance_timeout_ms = part.rebalance_timeout_ms

    def _part(self, member_id: str, kind: PartKind, since: int) -> MemberPart | None:
        """The member's part that is not over; None: parts are not wanted, or there is no room."""
        if not self.detailed or member_id in self._open:
            return self._open.get(member_id)
        if len(self._open) >= self._limits.members or not self._limits.places.take():
            self.parts_left_out += 1
            return None
        part = self._open[member_id] = MemberPart(kind, member_id, since)
        return part

    def _finish(self, part: MemberPart, *, skip: bool = False) -> None:
        """`skip`: the part tells nothing."""
        del self._open[part.member_id]
        part.until = self.latest
        kept = part.fenced, part.until - part.since, next(self._numbers), part
        if not skip and len(self._over) < self._limits.parts:
            heappush(self._over, kept)
            return
        self._limits.places.give_back()
        if not skip:
            heappushpop(self._over, kept)
            self.parts_left_out += 1

    def _name(self, part: MemberPart | None, event: Event) -> int:
        """Add the partitions of an event to a part if there is one. Returns how many they are."""
        named: Mapping[str, Sequence[int]] = event.details.get("partitions", {})
        number = sum(map(len, named.values()))
        if part is not None:
            part.count += number
            for topic, numbers in named.items():
                room = self._limits.names - len(part.partitions)
                part.partitions += [f"{topic}-{one}" for one in numbers[: max(0, room)]]
        return number
