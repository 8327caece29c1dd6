"""What happens in the generated world: topics and how fast they are written to, and the script that
the members and commits of a group follow.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator, Sequence
from enum import Enum
from random import Random
from typing import NamedTuple

from msgspec import Struct

from groupd.coordinator.logtools.record_json import id_text
from groupd.protocol.messages import TopicId

# Production ---------------------------------------------------------------------------------

# Production is a function of time, not a simulation: the end offset of a partition at any instant
# can be computed at once, and never falls. A day has a busy and a quiet half.

DAY_S = 86400.0
_PARTITION_COUNTS = (6, 6, 12, 12, 24, 32)
_THEMES = (
    "orders",
    "payments",
    "clicks",
    "inventory",
    "shipments",
    "emails",
    "invoices",
    "sessions",
    "prices",
    "audit",
)
_KINDS = ("created", "updated", "events", "changes", "raw")


class GeneratedPartition(NamedTuple):
    """A partition of a topic. `topic` is the topic's index in its world."""

    topic: int
    partition: int


class GeneratedTopic(Struct, frozen=True):
    """A topic. `rates`: records a second, by partition. `bases`: end offsets at the beginning, by
    partition. `wave`: how much busier than the mean the busiest hour is, less than 1; `peak_s`:
    when that hour is."""

    name: str
    topic_id: TopicId
    rates: tuple[float, ...]
    bases: tuple[int, ...]
    wave: float
    peak_s: float

    @property
    def partitions(self) -> int:
        return len(self.rates)

    def busy_seconds(self, elapsed_s: float) -> float:
        """How many seconds at the mean rate would have produced as much as the `elapsed_s` seconds
        since the beginning."""
        turn = DAY_S / (2 * math.pi)
        swing = math.sin((elapsed_s - self.peak_s) / turn) + math.sin(self.peak_s / turn)
        return elapsed_s + self.wave * turn * swing

    def end(self, partition: int, elapsed_s: float) -> int:
        """The end offset of a partition `elapsed_s` seconds after the beginning."""
        made = self.rates[partition] * self.busy_seconds(elapsed_s)
        return self.bases[partition] + int(made)


def make_topics(count: int, rng: Random) -> list[GeneratedTopic]:
    """Topics with different names and ids; a few are much busier than the rest."""
    return [_topic(number, rng) for number in range(count)]


def _topic(number: int, rng: Random) -> GeneratedTopic:
    theme, kind = _THEMES[number % 10], _KINDS[number // 10 % 5]
    name = theme if number < 10 else f"{theme}.{kind}"
    if number >= 50:
        name += f".{number // 50}"
    mean = 10 ** rng.uniform(-0.5, 1.8)
    rates = tuple(mean * rng.uniform(0.7, 1.4) for _ in range(rng.choice(_PARTITION_COUNTS)))
    return GeneratedTopic(
        name,
        rng.randbytes(16),
        rates,
        tuple(rng.randrange(5_000_000) for _ in rates),
        rng.uniform(0.2, 0.8),
        rng.uniform(8, 20) * 3600,
    )


class EndOffset(NamedTuple):
    """The end offset of a partition at an instant."""

    topic: str
    partition: int
    end_offset: int
    time_ms: int


def end_offsets(
    topics: list[GeneratedTopic], start_ms: int, end_ms: int, points: int
) -> Iterator[EndOffset]:
    """End offsets at `points` instants, the last one just before `end_ms`, sorted by topic,
    partition and time."""
    times = [start_ms + (end_ms - start_ms) * number // (points - 1) for number in range(points)]
    times[-1] = end_ms - 1
    for topic in topics:
        for partition in range(topic.partitions):
            for at_ms in times:
                end = topic.end(partition, (at_ms - start_ms) / 1000)
                yield EndOffset(topic.name, partition, end, at_ms)


# Script -------------------------------------------------------------------------------------

# A script refers to members by number. A member gets an id when it joins, and a new one when it
# joins again, as consumers do. Times are milliseconds since 1970.

EncodedRecord = tuple[bytes, bytes | None]


class Act(Enum):
    """What can happen: first the acts of a member, then those on committed offsets."""

    JOIN = "join"
    LEAVE = "leave"
    FENCE = "fence"
    """The session times out; the member has been silent since its `MUTE`."""
    MUTE = "mute"
    AWAY = "away"
    """A static member leaves for a while; `JOIN` brings it back."""
    STICK = "stick"
    """Commits go on, but at the same offset."""
    FREE = "free"
    """Commits move again after `STICK`."""
    REWIND = "rewind"
    """The offset goes back by `amount` records."""
    SKIP = "skip"
    """The offset goes to the end of the partition."""
    FORGET = "forget"
    """Committed offsets are deleted."""
    DELETE = "delete"
    """The group is deleted with its offsets; it has no members then."""


class Op(NamedTuple):
    """One thing that happens. `places`: indexes into `GroupPlan.places`; () stands for all."""

    at_ms: int
    act: Act
    member: int = -1
    places: tuple[int, ...] = ()
    amount: int = 0


class Kind(Enum):
    """How the members of a group talk to the coordinator."""

    CONSUMER = "consumer"
    CLASSIC = "classic"
    SIMPLE = "simple"
    """No members: offsets are committed by hand."""


class GroupPlan(Struct, frozen=True):
    """A group before anything happens. `capacity`: how much a consumer can read, as a multiple of
    the mean rate of its partitions. `static`: members have instance ids. `regex`: members subscribe
    with a regular expression. `producer_id`: that of the first member's transactions, -1 for a
    group without transactions; the other members have the following ids."""

    name: str
    kind: Kind
    places: tuple[GeneratedPartition, ...]
    ops: tuple[Op, ...]
    records: int
    capacity: float = 2.0
    static: bool = False
    regex: str = ""
    producer_id: int = -1
    aborts: float = 0.05
    assignor: str | None = None


class ScriptStep(NamedTuple):
    """A write of the coordinator, or only a change of which member reads which partition. `owners`:
    for each of the group's partitions, the number of the member that reads it, -1 without an
    owner."""

    at_ms: int
    records: tuple[EncodedRecord, ...]
    owners: tuple[int, ...]
    op: Op | None = None


class ScriptTurn(NamedTuple):
    """One batch of a shard's log, at offset 0 until it gets its place in the log."""

    at_ms: int
    records: int
    payload: bytes


class GeneratedWorld(Struct, frozen=True):
    """What the groups of a log share. `partitions`: the number of partitions of
    `__consumer_offsets`. `end_points`: how many times the end offsets of topics are written
    down."""

    topics: Sequence[GeneratedTopic]
    start_ms: int
    end_ms: int
    partitions: int
    seed: int
    end_points: int = 97


def member_uuid(rng: Random) -> str:
    """A member id of the consumer protocol, which has the form of a topic id."""
    return id_text(rng.randbytes(16))


def classic_member_id(client_id: str, rng: Random) -> str:
    """A member id such as a broker gives to a member of the classic protocol."""
    return f"{client_id}-{uuid.UUID(bytes=rng.randbytes(16), version=4)}"


def client_host(number: int) -> str:
    return f"/10.1.{number // 250}.{number % 250 + 1}"
