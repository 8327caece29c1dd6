"""The groups of a generated world: which kinds there are, and what happens to them.

Time is divided into slots with one incident each, after which all members are back. So incidents
can be told apart in the log, and a script needs no further checks to be consistent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from msgspec import Struct

from groupd.pipeline.generator.script import (
    Act,
    GeneratedPartition,
    GeneratedWorld,
    GroupPlan,
    Kind,
    Op,
)

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
SESSION_MS = 45_000
DAY_MS = 24 * HOUR_MS
_RECORDS_A_MEMBER = 6
"""About how many records a rebalance writes for each member."""

_LIFECYCLE_SHARE = 0.15
PRODUCERS_A_GROUP = 100
_FIRST_PRODUCER_ID = 1000

GroupIncident = Callable[["IncidentSlot"], Iterator[Op]]


class IncidentSlot(Struct, frozen=True):
    """The time for one incident. `rewind`: how many records are produced in ten minutes."""

    start_ms: int
    length_ms: int
    members: int
    places: int
    rewind: int
    rng: Random

    def soon(self, low_s: float, high_s: float) -> int:
        """A random length of time in milliseconds."""
        return int(self.rng.uniform(low_s, high_s) * 1000)


def _restart(slot: IncidentSlot) -> Iterator[Op]:
    """A deployment: one member after the other."""
    at_ms = slot.start_ms
    for member in range(slot.members):
        yield Op(at_ms, Act.LEAVE, member)
        yield Op(at_ms + slot.soon(8, 25), Act.JOIN, member)
        at_ms += slot.soon(30, 60)


def _bounce(slot: IncidentSlot) -> Iterator[Op]:
    """A deployment of static members, which keep their partitions."""
    at_ms = slot.start_ms
    for member in range(slot.members):
        yield Op(at_ms, Act.AWAY, member)
        yield Op(at_ms + slot.soon(5, 20), Act.JOIN, member)
        at_ms += slot.soon(25, 40)


def _rolling_start(slot: IncidentSlot) -> Iterator[Op]:
    """The whole application stops; later its members start one after the other."""
    for member in range(slot.members):
        yield Op(slot.start_ms + member * 1500, Act.LEAVE, member)
    at_ms = slot.start_ms + slot.members * 1500 + slot.soon(120, 300)
    for member in range(slot.members):
        yield Op(at_ms, Act.JOIN, member)
        at_ms += slot.soon(20, 50)


def _crash(slot: IncidentSlot) -> Iterator[Op]:
    member = slot.rng.randrange(slot.members)
    yield Op(slot.start_ms, Act.MUTE, member)
    yield Op(slot.start_ms + SESSION_MS, Act.FENCE, member)
    yield Op(slot.start_ms + SESSION_MS + slot.soon(5, 240), Act.JOIN, member)


def _scale(slot: IncidentSlot) -> Iterator[Op]:
    more = slot.rng.randrange(1, 3)
    for number in range(more):
        yield Op(slot.start_ms + number * slot.soon(3, 9), Act.JOIN, slot.members + number)
    end_ms = slot.start_ms + slot.length_ms * 2 // 3
    for number in range(more):
        yield Op(end_ms + number * 10_000, Act.LEAVE, slot.members + number)


def _storm(slot: IncidentSlot) -> Iterator[Op]:
    """Members are removed and come back, again and again."""
    at_ms = slot.start_ms
    for lap in range(slot.rng.randrange(8, 20)):
        member = lap % min(slot.members, 2)
        yield Op(at_ms, Act.MUTE, member)
        yield Op(at_ms + SESSION_MS, Act.FENCE, member)
        yield Op(at_ms + SESSION_MS + slot.soon(2, 10), Act.JOIN, member)
        at_ms += SESSION_MS + slot.soon(20, 60)


def _stuck(slot: IncidentSlot) -> Iterator[Op]:
    places = (slot.rng.randrange(slot.places),)
    yield Op(slot.start_ms, Act.STICK, places=places)
    yield Op(slot.start_ms + slot.length_ms * 4 // 5, Act.FREE, places=places)


def _rewind(slot: IncidentSlot) -> Iterator[Op]:
    """The consumer itself seeks back."""
    places = tuple(sorted(slot.rng.sample(range(slot.places), max(1, slot.places // 3))))
    yield Op(slot.start_ms, Act.REWIND, 0, places, slot.rewind)


def _reset(slot: IncidentSlot) -> Iterator[Op]:
    """An operator stops the group and moves its offsets."""
    for member in range(slot.members):
        yield Op(slot.start_ms + member * 1500, Act.LEAVE, member)
    at_ms = slot.start_ms + slot.members * 1500 + slot.soon(60, 180)
    skips = slot.rng.random() < 0.3
    yield Op(at_ms, Act.SKIP if skips else Act.REWIND, amount=10 * slot.rewind)
    for member in range(slot.members):
        yield Op(at_ms + slot.soon(30, 60) + member * 2000, Act.JOIN, member)


def _forget(slot: IncidentSlot) -> Iterator[Op]:
    yield Op(slot.start_ms, Act.FORGET, places=(slot.rng.randrange(slot.places),))


class Profile(Struct, frozen=True):
    """A kind of group. `share`: the fraction of all groups that are of this kind. `incidents`: what
    may happen, with weights. `a_day`: the number of incidents a day. `members`: possible numbers of
    members. `retires`: the group is deleted in the last quarter of its time."""

    name: str
    share: float
    kind: Kind
    incidents: tuple[tuple[GroupIncident, float], ...] = ()
    a_day: float = 0.5
    members: tuple[int, ...] = (1, 2, 3, 3, 4, 4, 6, 8)
    capacity: tuple[float, float] = (1.7, 4.0)
    static: bool = False
    regex: bool = False
    transactional: bool = False
    retires: bool = False
    assignor: str | None = None


_USUAL = (
    (_restart, 3.0),
    (_crash, 1.0),
    (_scale, 1.0),
    (_stuck, 0.3),
    (_rewind, 0.3),
    (_forget, 0.2),
)
PROFILES = (
    Profile("steady", 0.23, Kind.CONSUMER, _USUAL),
    Profile("slow", 0.08, Kind.CONSUMER, _USUAL, capacity=(1.05, 1.3)),
    Profile("busy", 0.10, Kind.CONSUMER, _USUAL, 3.0, assignor="uniform"),
    Profile("storm", 0.05, Kind.CONSUMER, ((_storm, 1.0), (_crash, 1.0)), 1.5),
    Profile(
        "rolling",
        0.04,
        Kind.CONSUMER,
        ((_rolling_start, 1.0), (_restart, 2.0)),
        1.0,
        members=(6, 8, 10),
    ),
    Profile("stuck", 0.05, Kind.CONSUMER, ((_stuck, 2.0), (_crash, 1.0)), 1.0),
    Profile("reset", 0.04, Kind.CONSUMER, ((_reset, 1.0), (_forget, 0.5)), 0.5),
    Profile("static", 0.08, Kind.CONSUMER, ((_bounce, 3.0), (_crash, 1.0)), 0.7, static=True),
    Profile("regex", 0.05, Kind.CONSUMER, _USUAL, regex=True),
    Profile("exactly-once", 0.07, Kind.CONSUMER, _USUAL, transactional=True),
    Profile("classic", 0.12, Kind.CLASSIC, (*_USUAL, (_reset, 0.3))),
    Profile("classic-storm", 0.03, Kind.CLASSIC, ((_storm, 1.0),), 1.0),
    Profile("retired", 0.03, Kind.CONSUMER, _USUAL, retires=True),
    Profile("by-hand", 0.03, Kind.SIMPLE, ((_rewind, 1.0), (_forget, 0.5)), 0.3),
)
_TEAMS = ("billing", "search", "fraud", "mail", "reports", "stock", "web", "crm", "ml", "ops")


def plan_groups(
    count: int, records: int, world: GeneratedWorld, rng: Random
) -> Iterator[GroupPlan]:
    """Plans `count` groups with `records` records in all; the last group is a steady one."""
    shares = [profile.share for profile in PROFILES]
    kinds = [*rng.choices(PROFILES, shares, k=count - 1), PROFILES[0]]
    weights = [(number + 1) ** -0.6 for number in range(count)]
    rng.shuffle(weights)
    total, given = sum(weights), 0.0
    spent = 0
    for number, (profile, weight) in enumerate(zip(kinds, weights, strict=True)):
        given += weight
        mine = round(records * given / total) - spent
        spent += mine
        yield _group(number, profile, mine, world, Random(f"{world.seed}/plan/{number}"))


def _group(
    number: int, profile: Profile, records: int, world: GeneratedWorld, rng: Random
) -> GroupPlan:
    topics = rng.sample(range(len(world.topics)), min(len(world.topics), rng.choice((1, 1, 1, 2))))
    # A small budget must not be used up by the first commits.
    room = max(1, records // 20)
    places = tuple(
        GeneratedPartition(topic, partition)
        for topic in sorted(topics)
        for partition in range(world.topics[topic].partitions)
    )[:room]
    members = max(1, min(len(places), rng.choice(profile.members), records // 60))
    kind = profile.kind if records >= 40 else Kind.SIMPLE
    rate = max(world.topics[place.topic].rates[place.partition] for place in places)
    ops: list[Op] = []
    if kind is not Kind.SIMPLE:
        start = world.start_ms + rng.randrange(1, 20_000)
        ops = [Op(start + 700 * member, Act.JOIN, member) for member in range(members)]
    ops += _incidents(profile, kind, records, members, len(places), int(rate * 600) + 1, world, rng)
    names = sorted({world.topics[place.topic].name for place in places})
    return GroupPlan(
        f"{_TEAMS[number % len(_TEAMS)]}-{profile.name}-{number:04d}",
        kind,
        places,
        tuple(sorted(ops, key=lambda op: op.at_ms)),
        records,
        rng.uniform(*profile.capacity),
        profile.static,
        "|".join(name.replace(".", "\\.") for name in names) if profile.regex else "",
        _FIRST_PRODUCER_ID + number * PRODUCERS_A_GROUP if profile.transactional else -1,
        assignor=profile.assignor,
    )


def _incidents(
    profile: Profile,
    kind: Kind,
    records: int,
    members: int,
    places: int,
    rewind: int,
    world: GeneratedWorld,
    rng: Random,
) -> Iterator[Op]:
    first = world.start_ms + 10 * MINUTE_MS
    end = world.end_ms - 10 * MINUTE_MS
    if profile.retires and kind is not Kind.SIMPLE:
        end -= (end - first) // 4
        yield from [Op(end + member * 2000, Act.LEAVE, member) for member in range(members)]
        yield Op(end + 5 * MINUTE_MS, Act.DELETE)
    length = end - first
    cost = _RECORDS_A_MEMBER * members * max(members, 2)
    affordable = int(records * _LIFECYCLE_SHARE / cost)
    wanted = round(profile.a_day * (world.end_ms - world.start_ms) / DAY_MS * rng.uniform(0.5, 1.5))
    count = min(wanted, affordable, max(length, 0) // HOUR_MS)
    choices = [choice for choice, _ in profile.incidents]
    odds = [chance for _, chance in profile.incidents]
    for number in range(count):
        slot_ms = length // count
        start = first + number * slot_ms + rng.randrange(slot_ms // 4)
        incident = rng.choices(choices, odds)[0]
        if kind is Kind.SIMPLE and incident not in (_rewind, _forget):
            continue
        yield from incident(IncidentSlot(start, slot_ms // 2, members, places, rewind, rng))
