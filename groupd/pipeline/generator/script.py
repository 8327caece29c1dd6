"""What happens to a group, in order: the script that its members and its commits follow.

A script refers to members by number. A member gets an id when it joins, and a new one when it joins
again, as consumers do. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct

from groupd.pipeline.generator.traffic import GeneratedTopic, TopicPartition

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
    """Ends `STICK`."""
    REWIND = "rewind"
    """The offset goes back by `amount` records."""
    SKIP = "skip"
    """The offset goes to the end of the partition."""
    FORGET = "forget"
    """Committed offsets are deleted."""
    DELETE = "delete"
    """The group is deleted with its offsets; it has no members then."""


class Op(NamedTuple):
    """One thing that happens. `places`: indexes into the group's places; () stands for all."""

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
    """A write of the coordinator, or only a change of who reads what. `owners`: by place the number
    of the member, -1 without an owner."""

    at_ms: int
    records: tuple[EncodedRecord, ...]
    owners: tuple[int, ...]
    op: Op | None = None


class ScriptTurn(NamedTuple):
    """One batch of a shard's log, at offset 0 as long as it has no place in the log."""

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
