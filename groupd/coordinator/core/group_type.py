"""A group type as one object: everything the rest of the coordinator knows about it.

Each type makes its `GroupType` in its own folder, and `group_types` lists them. The shard, the
inspection, the metrics, the history and the log tools go over that list; none of them asks for the
class of a group. What a handler decides about one group is a method of the group (`group.Group`);
what belongs to the type as a whole is a field here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Protocol

from msgspec import Struct, field

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.group import Group, OffsetOwner
from groupd.coordinator.core.group_configs import GroupConfig
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.slices import Steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppendError,
    Completion,
    EventKind,
    Instant,
    Outcome,
    RequestContext,
    Task,
)
from groupd.protocol.messages import TopicId

Handler = Callable[[ShardState, RequestContext, Any, Instant], Outcome]
"""Answers one request. Raises ApiError, before anything has changed."""

HostedHandler = Callable[[ShardState, Any, RequestContext, Any, Instant], Outcome]
"""A `Handler` that is also given the group, before the context."""

Replay = Callable[[ShardState, Any, Any], None]
"""Applies one record: (state, key, value or None for a tombstone). The only writer of hard state.
Raises ReplayError."""


class Position(Protocol):
    """Where a group is in a partition. `offset`: that of the first record that it has not done
    with; `commit_timestamp_ms`: wall-clock time at which somebody has said so last."""

    @property
    def offset(self) -> int: ...

    @property
    def commit_timestamp_ms(self) -> int: ...


Positions = Mapping[str, Mapping[int, Position]]
"""Positions by topic name and partition. Others may change them while somebody reads them in
steps."""


Place = tuple[str | TopicId, int]
"""A partition, by topic name in types that know names, by topic id in those that know ids."""


Holding = tuple[str | TopicId, Collection[int]]
"""A topic, and partitions of it."""


class LoggedEventKind(Enum):
    """What a record of the log says happened to a group."""

    MEMBER_JOINED = "member-joined"
    MEMBER_LEFT = "member-left"
    MEMBER_ASSIGNED = "member-assigned"
    REBALANCED = "rebalanced"
    EPOCH = "group-epoch"
    CONVERTED = "converted"
    EMPTIED = "emptied"
    DELETED = "group-deleted"


LoggedEvent = tuple[LoggedEventKind, str, int, Mapping[str, Any]]
"""(kind, member id or "", epoch or -1, details)."""


class MemberIdentity(Struct, frozen=True):
    """`epoch`: the member epoch, or the generation of a classic group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    epoch: int


class Meter(Struct, frozen=True):
    """A counter and a rate, under `name`, of the events of one kind in groups of the type."""

    name: str
    kind: EventKind
    doc: str


def _nothing_started(state: ShardState, now: Instant) -> Outcome:
    return Outcome()


def _nothing_parked(state: ShardState) -> Outcome:
    return Outcome()


def _no_metadata(state: ShardState, delta: MetadataDelta) -> None:
    pass


def _no_session(state: ShardState, group: Any, member_id: str) -> None:
    return None


def _no_deadlines(state: ShardState, group: Any, now: Instant) -> Iterator[dict[str, Any]]:
    return iter(())


class Proposal(Struct, frozen=True):
    """What each member has now, and what an assignor would give it: by member id. `compared`: what
    the two are, in one or two sentences."""

    current: Mapping[str, Assignment]
    proposed: Mapping[str, Assignment]
    compared: str


class AssignorTrial(Struct, frozen=True):
    """`used`: the name of the assignor that a group uses; None if its members assign by themselves.
    `propose(state, group, name)`: what the assignor of that name would do with the group's members
    and topics now; it changes nothing. Both raise TrialRefused, `propose` AssignorFailed, too."""

    used: Callable[[ShardState, Any], str | None]
    propose: Callable[[ShardState, Any, str], Steps[Proposal]]


def committed_offsets(state: ShardState, store: OffsetStore, group: Group) -> Positions:
    """The positions of groups that commit offsets."""
    return store.topics(group.group_id)


def _no_problems(group: Any) -> Iterator[str]:
    return iter(())


class GroupType(Struct, frozen=True, kw_only=True):
    """Functions that take a `group` are given one of this type.

    What it is:
        name        as ListGroups v5 spells it, e.g. "consumer"
        group_key   class of the key whose tombstone is the end of a group
        configs     dynamic configs of its groups (resource GROUP, docs/spec/consumer-group.md#7):
                    names that no other type has; `ShardState.group_configs` has what is set
        simple_group
                    makes the group that an unknown id is once offsets are committed for it
                    (docs/spec/offsets-and-log.md#5.2); one type has it, None in all others
        soft_state  makes what the type keeps in a shard beside its groups, found again in
                    `ShardState.soft[name]`: not in the log, made anew when the shard is loaded
        states      all values of `state_name()`, for the gauges
        meters      rates of this type, under Kafka's names

    What it does; `state` is the shard's:
        requests    request class -> its handler
        hosted      requests of another type's protocol that groups of this type with members
                    answer instead (online migration, docs/spec/consumer-group.md#8)
        replay      class of a record's key -> how it is applied
        deadlines   first part of a `DeadlineKey` -> what happens when it has passed; no other type
                    has that part
        session     (state, group, member id) -> the deadline that a sign of life of the member sets
                    anew, and after how many ms it fences; None: no such member, or no session
        tasks       `Task.kind` -> what happens with its result (an Exception if it failed)
        completions `Completion.owner` -> what happens once the records are durable or have failed
        on_loaded   the log is replayed: set deadlines; an outcome with events alone
        on_metadata topics have changed; `state.image` is the new image
        unload      the shard is given up: an outcome with urgent replies to parked requests

    What is shown of it:
        inspect     JSON-friendly fields of a group: at least "members" (by id, those after a
                    given one) and "blocked" (what it waits for). Long lists may be iterators, in
                    which None is a stop and no item; they may end at `slices.LISTED_MAX` + 1
        awaited     deadlines for which no timer runs, as entries of "deadlines"
        identify    who a member is
        places      what a member owns, or may still commit for: topics and their partitions,
                    a topic perhaps twice
        positions   where it is in each partition, from which its lag is told: given the shard's
                    committed offsets, which are the positions unless the type says otherwise
        what_if     what another assignor would do; None where no assignor of the coordinator fits

    What a log says of it:
        logged      class of a record's key -> the events it stands for, given the group before it
                    (None if there was none), the key and the value
        epochs      class of a record's key -> (what it is called, attribute of the value) of a
                    number that may not fall while the group lives
        record_problems, group_problems
                    what `groupd log verify` is to report of a record, and of a group in the end
    """

    name: str
    group_key: type[Any]
    configs: tuple[GroupConfig, ...] = ()
    soft_state: Callable[[], Any] | None = None
    simple_group: Callable[[str], OffsetOwner] | None = None
    states: tuple[str, ...]
    meters: tuple[Meter, ...] = ()

    requests: Mapping[type, Handler]
    hosted: Mapping[type, HostedHandler] = field(default_factory=dict)
    replay: Mapping[type, Replay]
    deadlines: Mapping[str, Callable[[ShardState, DeadlineKey, Instant], Outcome]] = field(
        default_factory=dict
    )
    session: Callable[[ShardState, Any, str], tuple[DeadlineKey, int] | None] = _no_session
    tasks: Mapping[str, Callable[[ShardState, Task, Any, Instant], Outcome]] = field(
        default_factory=dict
    )
    completions: Mapping[
        str, Callable[[ShardState, Completion, AppendError | None, Instant], Outcome]
    ] = field(default_factory=dict)
    on_loaded: Callable[[ShardState, Instant], Outcome] = _nothing_started
    on_metadata: Callable[[ShardState, MetadataDelta], None] = _no_metadata
    unload: Callable[[ShardState], Outcome] = _nothing_parked

    inspect: Callable[[ShardState, Any, Instant, str | None], dict[str, Any]]
    awaited: Callable[[ShardState, Any, Instant], Iterator[dict[str, Any]]] = _no_deadlines
    identify: Callable[[Any, str], MemberIdentity]
    places: Callable[[Any, str], Iterable[Holding]]
    positions: Callable[[ShardState, OffsetStore, Any], Positions] = committed_offsets
    what_if: AssignorTrial | None = None

    logged: Mapping[type, Callable[[Any, Any, Any], Iterator[LoggedEvent]]] = field(
        default_factory=dict
    )
    epochs: Mapping[type, tuple[str, str]] = field(default_factory=dict)
    record_problems: Mapping[type, Callable[[Any, Any], Iterator[str]]] = field(
        default_factory=dict
    )
    group_problems: Callable[[Any], Iterator[str]] = _no_problems
