"""What happens to a group, in order: the script that its members and its commits follow.

A script names members by number; an id is given when one joins, and a new one when it joins again,
as consumers do. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from groupd.pipeline.generator.traffic import GeneratedTopic, TopicPartition

EncodedRecord = tuple[bytes, bytes | None]


class Act(Enum):
    """What happens. The first ones concern a member, the others committed offsets."""

    JOIN = "join"
    LEAVE = "leave"
    FENCE = "fence"
    """Its session times out; it has been silent since then already (`MUTE`)."""
    MUTE = "mute"
    AWAY = "away"
    """A static member goes for a while; `JOIN` brings it back."""
    STICK = "stick"
    """Commits go on, but at the same offset."""
    FREE = "free"
    """The end of `STICK`."""
    REWIND = "rewind"
    """`amount` records back."""
    SKIP = "skip"
    """On to the end."""
    FORGET = "forget"
    """Committed offsets are deleted."""
    DELETE = "delete"
    """The group is deleted with its offsets; it has no members."""


class Op(NamedTuple):
    """`places`: numbers of the group's places; () stands for all."""

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
    """No members: somebody commits by hand."""


class GroupPlan(Struct, frozen=True):
    """A group before it lives. `capacity`: what a consumer can do, in multiples of the mean rate
    of its partitions. `static`: members have instance ids. `regex`: members subscribe by one.
    `producer_id`: of the first member's transactions, -1 for a group without; the others follow."""

    name: str
    kind: Kind
    places: tuple[TopicPartition, ...]
    ops: tuple[Op, ...]
    records: int
    capacity: float = 2.0
    static: bool = False
    regex: str = ""
    producer_id: int = -1
    aborts: float = 0.05
    assignor: str | None = None


class ScriptStep(NamedTuple):
    """A write of the coordinator, or only a change of who reads what. `owners`: by place the
    member's number, -1 for nobody."""

    at_ms: int
    records: tuple[EncodedRecord, ...]
    owners: tuple[int, ...]
    op: Op | None = None


class ScriptTurn(NamedTuple):
    """One batch of a shard's log, at offset 0 until it has its place."""

    at_ms: int
    records: int
    payload: bytes


class GeneratedWorld(Struct, frozen=True):
    """What the groups of a log share. `partitions`: of `__consumer_offsets`. `end_points`: how
    often the ends of topics are written down."""

    topics: Sequence[GeneratedTopic]
    start_ms: int
    end_ms: int
    partitions: int
    seed: int
    end_points: int = 97
