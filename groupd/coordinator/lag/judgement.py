"""Whether a group keeps up (docs/lag.md): Burrow's rules, applied to what each round of
`groupd.coordinator.lag.watch` has seen. All judgements are made here; pages, commands and metrics
show them.

A partition needs only a few numbers, however long the window is. Pure: times are arguments. They
are monotonic, so that setting the wall clock changes no judgement; the only wall-clock time is the
time of the last commit, as the log has it.

Members that commit nothing although records wait for them are found here, too (`silent_members`).
In a group with such a member, its partitions with lag are judged to be stalled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from msgspec import Struct, field

from groupd.coordinator.core.inspected_offsets import owned_places
from groupd.coordinator.core.slices import Pace, Steps, sorted_in_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicPartition

ROUNDS = 10
"""How many rounds a judgement looks back."""

SILENCE_FACTOR = 2
"""Commits have stopped when there was none for this many times the usual interval."""

NEVER = -(1 << 62)
"""A time before all others. Monotonic time begins near 0 on a machine that has just started."""

UNKNOWN = ""
"""The owner of a partition before the first round has looked for it."""
SILENT_MS = 60_000
"""How long a member may commit nothing while records wait for it."""
FIRST_PARTITIONS_MAX = 4
"""How many partitions of a silent member are named."""
_COST = 2
"""How many items of `Pace` a partition counts."""


class Judgement(Enum):
    """Judgements from good to bad. A group has the worst one of its partitions."""

    OK = "ok"
    BEHIND = "behind"
    REWOUND = "rewound"
    STOPPED = "stopped"
    STALLED = "stalled"


_OK, *BAD = Judgement
SEVERITY: dict[Judgement | None, int] = {one: at for at, one in enumerate((_OK, None, *BAD))}
"""Judgements from good to bad. None: not known yet."""


class Progress(Struct, gc=False):
    """What the rounds have seen of one partition of a group. Times are monotonic ms of rounds;
    `NEVER`: there was no such round.

    `offset`, `lag` (records) and `commit_ms` (wall-clock ms): as of the last round. `since_ms`: the
    first round. `committed_ms`: the last round that found a new commit; before there was one, the
    time of the commit that the first round found (`monotonic_of`). `moved_ms`: since when the
    offset has not changed. `caught_up_ms`: the last round without lag. `eased_ms`: the last round
    in which the lag was less than before. `rewound_ms`: the last round in which the offset had gone
    back. `owner`: the id of the member that has the partition; None: no member has it. `owned_ms`:
    since when that is so. `gap_ms`: the last interval between two commits while records waited.
    `usual_ms`: the shorter one of the last two intervals.
    """

    offset: int
    lag: int
    commit_ms: int
    since_ms: int
    committed_ms: int
    moved_ms: int
    caught_up_ms: int = NEVER
    eased_ms: int = NEVER
    rewound_ms: int = NEVER
    owner: str | None = UNKNOWN
    owned_ms: int = NEVER
    gap_ms: int = 0
    usual_ms: int = 0

    def see(self, offset: int, lag: int, commit_ms: int, now_ms: int) -> None:
        """Take what a round has found. `now_ms`: monotonic."""
        if commit_ms != self.commit_ms:
            # Before the first round the daemon may have been down, so that time is no usual
            # interval.
            gap_ms = min(self.silent_ms(now_ms), now_ms - self.since_ms)
            self.gap_ms, self.usual_ms = gap_ms, min(gap_ms, self.gap_ms)
            self.committed_ms = now_ms
        if offset != self.offset:
            if offset < self.offset:
                self.rewound_ms = now_ms
            self.moved_ms = now_ms
        if lag < self.lag:
            self.eased_ms = now_ms
        if lag == 0:
            self.caught_up_ms = now_ms
        self.offset, self.lag, self.commit_ms = offset, lag, commit_ms

    def belongs_to(self, owner: str | None, now_ms: int) -> None:
        """Take which member a round has found to have the partition."""
        if owner == self.owner:
            return
        if self.owner != UNKNOWN:
            self.owned_ms = now_ms
            self.gap_ms = self.usual_ms = 0  # another member may commit at another interval
        elif owner is not None:
            self.owned_ms = self.since_ms
        self.owner = owner

    @property
    def waits_ms(self) -> int:
        """Since when records have waited for the present owner, in monotonic ms."""
        return max(self.caught_up_ms, self.owned_ms)

    def silent_ms(self, now_ms: int) -> int:
        """For how long nothing has been committed although records waited."""
        return max(0, now_ms - max(self.committed_ms, self.waits_ms))

    def judge(self, now_ms: int, window_ms: int, *, is_silent: bool) -> Judgement | None:
        """Judge the partition. `window_ms`: how far to look back. `is_silent`: whether its owner is
        a `SilentMember`. None: not known yet."""
        since = now_ms - window_ms
        if is_silent and self.lag:
            return Judgement.STALLED
        if self.rewound_ms > since:
            return Judgement.REWOUND
        if self.lag == 0 or self.caught_up_ms > since:
            return Judgement.OK
        if self.since_ms == now_ms:
            return None
        if self.silent_ms(now_ms) >= max(window_ms, SILENCE_FACTOR * self.usual_ms):
            return Judgement.STALLED if self.owner else Judgement.STOPPED
        if self.since_ms > since or self.eased_ms > since:
            return Judgement.OK
        if self.moved_ms > since:
            return Judgement.BEHIND
        return Judgement.STALLED if self.committed_ms > since else Judgement.OK


def monotonic_of(wall_ms: int, now: Instant) -> int:
    """Returns the monotonic time, in ms, of an event that has the time `wall_ms` in a log. Only the
    wall clock tells how long ago that was. A time in the future counts as now."""
    return now.monotonic_ms - max(0, now.wall_ms - wall_ms)


def records_behind(committed: int, start: int, end: int) -> int:
    """How many records of a log from `start` up to `end` a group has not read. The group must have
    committed an offset: otherwise it is not known where it reads."""
    return max(0, end - max(start, committed))


# Silent members -----------------------------------------------------------------------------

PartitionsProgress = Callable[[], Iterable[tuple[TopicPartition, Progress]]]


class SilentMember(Struct, gc=False):
    """A member that has committed nothing since `since_ms` (monotonic). `lag`: the records that
    wait for it, in `partitions` partitions; `first_partitions` are the first of these."""

    member_id: str
    since_ms: int
    lag: int = 0
    partitions: int = 0
    first_partitions: list[TopicPartition] = field(default_factory=list)


class MemberProgress(Struct, gc=False):
    """What one round has seen of a member, in monotonic ms. `committed_ms`: the last round that
    found a commit in any of its partitions. `waits_ms`: since when records wait for it; None if
    none do. `usual_ms`: the usual interval of its commits."""

    committed_ms: int = NEVER
    waits_ms: int | None = None
    usual_ms: int = 0

    def add(self, one: Progress) -> None:
        """Add one of the member's partitions."""
        self.committed_ms = max(self.committed_ms, one.committed_ms)
        if not one.lag:
            return
        if self.waits_ms is None:
            self.waits_ms, self.usual_ms = one.waits_ms, one.usual_ms
        else:
            self.waits_ms = min(self.waits_ms, one.waits_ms)
            self.usual_ms = min(self.usual_ms, one.usual_ms)

    def silent_since(self, now_ms: int) -> int | None:
        """Since when the member has committed nothing although records wait for it; None if that is
        too short a time to matter."""
        if self.waits_ms is None:
            return None
        since_ms = max(self.committed_ms, self.waits_ms)
        least_ms = max(SILENT_MS, SILENCE_FACTOR * self.usual_ms)
        return since_ms if now_ms - since_ms >= least_ms else None


def silent_members(
    partitions: PartitionsProgress, group_id: str, state: ShardState, now: Instant
) -> Steps[list[SilentMember]]:
    """Note the owner of each partition of a group, and find the members that commit nothing: the
    one that has been silent for longest first."""
    owners, pace = (yield from _owners(group_id, state)), Pace()
    members: dict[str, MemberProgress] = {}
    for (topic, number), one in partitions():
        owner = owners.get(topic, {}).get(number)
        one.belongs_to(owner, now.monotonic_ms)
        if owner is not None:
            members.setdefault(owner, MemberProgress()).add(one)
        if pace.due(_COST):
            yield
    silent: dict[str, SilentMember] = {}
    for member_id, member in members.items():
        since_ms = member.silent_since(now.monotonic_ms)
        if since_ms is not None:
            silent[member_id] = SilentMember(member_id, since_ms)
        if pace.due():
            yield
    if not silent:
        return []
    for partition, one in partitions():
        found = silent.get(one.owner or "") if one.lag else None
        if found is not None:
            found.lag += one.lag
            found.partitions += 1
            if len(found.first_partitions) < FIRST_PARTITIONS_MAX:
                found.first_partitions.append(partition)
        if pace.due():
            yield
    order = yield from sorted_in_steps((one.since_ms, one.member_id) for one in silent.values())
    return [silent[member_id] for _, member_id in order]


def _owners(group_id: str, state: ShardState) -> Steps[dict[str, dict[int, str]]]:
    """Returns which member has each partition of a group: topic -> number -> member id."""
    owners: dict[str, dict[int, str]] = {}
    group = state.groups.get(group_id)
    if group is None:
        return owners
    for owned in owned_places(group, state.image):
        if owned is None:
            yield
        else:
            member, topic, numbers = owned
            of_topic = owners.setdefault(topic, {})
            of_topic.update(dict.fromkeys(numbers, member.member_id))
    return owners
