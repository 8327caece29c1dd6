"""Members that commit nothing although records wait for them. In a group with such a member
`groupd.coordinator.lag.judgement` judges the partitions that wait to be stalled."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import Struct, field

from groupd.coordinator.core.inspected_offsets import owned_places
from groupd.coordinator.core.slices import Pace, Steps, sorted_in_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.coordinator.lag.judgement import NEVER, SILENCE_FACTOR, Progress
from groupd.protocol.messages import TopicPartition

SILENT_MS = 60_000
"""How long a member may commit nothing while records wait for it."""

PLACES_MAX = 4
"""How many partitions of a silent member are named."""

_COST = 2
"""How many units of `Pace` a partition takes."""

Partitions = Callable[[], Iterable[tuple[TopicPartition, Progress]]]


class SilentMember(Struct, gc=False):
    """A member that has committed nothing since `since_ms` (monotonic). `lag`: the records that
    wait for it, in `partitions` partitions, of which `places` are the first."""

    member_id: str
    since_ms: int
    lag: int = 0
    partitions: int = 0
    places: list[TopicPartition] = field(default_factory=list)


class MemberProgress(Struct, gc=False):
    """What one round has seen of a member, in monotonic ms: the last round that found a commit in
    any of its partitions; since when records wait for it, `None` if none do; and the usual distance
    of its commits."""

    committed_ms: int = NEVER
    waits_ms: int | None = None
    usual_ms: int = 0

    def add(self, one: Progress) -> None:
        """One of its partitions."""
        self.committed_ms = max(self.committed_ms, one.committed_ms)
        if not one.lag:
            return
        if self.waits_ms is None:
            self.waits_ms, self.usual_ms = one.waits_ms, one.usual_ms
        else:
            self.waits_ms = min(self.waits_ms, one.waits_ms)
            self.usual_ms = min(self.usual_ms, one.usual_ms)

    def silent_since(self, now_ms: int) -> int | None:
        """Since when it has committed nothing although records wait for it; None: not for so long
        that it would be worth a word."""
        if self.waits_ms is None:
            return None
        since_ms = max(self.committed_ms, self.waits_ms)
        least_ms = max(SILENT_MS, SILENCE_FACTOR * self.usual_ms)
        return since_ms if now_ms - since_ms >= least_ms else None


def silent_members(
    partitions: Partitions, group_id: str, state: ShardState, now: Instant
) -> Steps[list[SilentMember]]:
    """Tell the partitions of a group who has them, and find the members that commit nothing: the
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
    for place, one in partitions():
        found = silent.get(one.owner or "") if one.lag else None
        if found is not None:
            found.lag += one.lag
            found.partitions += 1
            if len(found.places) < PLACES_MAX:
                found.places.append(place)
        if pace.due():
            yield
    order = yield from sorted_in_steps((one.since_ms, one.member_id) for one in silent.values())
    return [silent[member_id] for _, member_id in order]


def _owners(group_id: str, state: ShardState) -> Steps[dict[str, dict[int, str]]]:
    """The members that have the partitions of a group, by topic and number."""
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
