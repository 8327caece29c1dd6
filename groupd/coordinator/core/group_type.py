"""A group type as one object, with everything that the rest of the coordinator knows about it.

Each type makes its `GroupType` in its own folder, and `group_types` lists them. The shard, the
inspection, the metrics, the history and the log tools go through that list; none of them asks for
the class of a group. What a handler decides about one group is a method of the group
(`group.Group`); what belongs to the type as a whole is a field here.
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
    OutsideCall,
    RequestContext,
    Task,
)
from groupd.protocol.messages import TopicId
from groupd.protocol.records.schema import Record

Handler = Callable[[ShardState, RequestContext, Any, Instant], Outcome]
"""Answers one request. Raises ApiError; then nothing has changed."""

ForeignHandler = Callable[[ShardState, Any, RequestContext, Any, Instant], Outcome]
"""A `Handler` that also gets the group, before the context."""

Replay = Callable[[ShardState, Any, Any], None]
"""Applies one record: (state, key, value or None for a tombstone). The only writer of hard state.
Raises ReplayError."""


class Position(Protocol):
    """Where a group is in a partition. `offset`: the first record that it has not finished;
    `commit_timestamp_ms`: wall-clock time at which this was last reported."""

    @property
    def offset(self) -> int: ...

    @property
    def commit_timestamp_ms(self) -> int: ...


Positions = Mapping[str, Mapping[int, Position]]
"""Positions by topic name and partition. They may change while a reader goes through them in
steps."""


GroupPartition = tuple[str | TopicId, int]
"""A partition: by topic name in types that know names, by topic id in types that know ids."""


Holding = tuple[str | TopicId, Collection[int]]
"""A topic, and some of its partitions."""


class LoggedEventKind(Enum):
    """What a record of the log says has happened to a group."""

    MEMBER_JOINED = "member-joined"
    MEMBER_LEFT = "member-left"
    MEMBER_ASSIGNED = "member-assigned"
    REBALANCED = "rebalanced"
    EPOCH = "group-epoch"
    CONVERTED = "converted"
    EMPTIED = "emptied"
    DELETED = "group-deleted"


LoggedEvent = tuple[LoggedEventKind, str, int, Mapping[str, Any]]
"""(kind, member id or "", epoch or -1, details) of something that a record of the log says."""


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


def _no_outcome(*args: Any) -> Outcome:
    return Outcome()


def _none(*args: Any) -> None:
    return None


def _no_items(*args: Any) -> Iterator[Any]:
    return iter(())


class Proposal(Struct, frozen=True):
    """By member id: what each member has now, and what an assignor would give it. `compared`: one
    or two sentences that say what the two are."""

    current: Mapping[str, Assignment]
    proposed: Mapping[str, Assignment]
    compared: str


class AssignorTrial(Struct, frozen=True):
    """Tries another assignor on a group; nothing is changed. `used`: the name of the assignor that
    a group uses, None if its members assign by themselves. `propose(state, group, name)`: what the
    assignor of that name would do with the group's members and topics as they are now. Both raise
    TrialRefused; `propose` also raises AssignorFailed."""

    used: Callable[[ShardState, Any], str | None]
    propose: Callable[[ShardState, Any, str], Steps[Proposal]]


def committed_offsets(state: ShardState, store: OffsetStore, group: Group) -> Positions:
    """The positions of a group of a type that commits offsets."""
    return store.topics(group.group_id)


class GroupType(Struct, frozen=True, kw_only=True):
    """One group type. Functions that take a group get a group of this type, and `state` is that of
    the group's shard. No two types may have the same key in `requests`, `replay`, `deadlines`,
    `tasks`, `answers` or `completions`, or the same name in `configs`."""

    name: str
    """The type as ListGroups v5 spells it (KIP-848), "consumer" for example; events and metrics
    have it, too."""
    group_key: type[Any]
    """The class of the record key whose tombstone ends a group."""
    simple_group: Callable[[str], OffsetOwner] | None = None
    """Makes a group with this id when offsets are committed for an unknown id
    (docs/spec/offsets-and-log.md#5.2). Exactly one type has it."""
    states: tuple[str, ...]
    """All values of `Group.state_name()`, for gauges (docs/spec/offsets-and-log.md#9)."""
    meters: tuple[Meter, ...] = ()
    configs: tuple[GroupConfig, ...] = ()
    """The dynamic configs of its groups (resource GROUP; KIP-848, docs/spec/consumer-group.md#10).
    They may be set on any group id; the overrides are in `ShardState.group_configs`."""
    soft_state: Callable[[], Any] | None = None
    """Makes `ShardState.soft[name]`, which the type keeps in each shard beside its groups. It is
    not in the log: each load makes a new one."""

    # What it does

    requests: Mapping[type, Handler]
    foreign: Mapping[type, ForeignHandler] = field(default_factory=dict)
    """Request class of another type -> the handler that answers instead, if the group is of this
    type and has members (online migration, docs/spec/consumer-group.md#8)."""
    replay: Mapping[type, Replay]
    """By the class of a record's key."""
    deadlines: Mapping[str, Callable[[ShardState, DeadlineKey, Instant], Outcome]] = field(
        default_factory=dict
    )
    """First part of a `DeadlineKey` -> what happens when the deadline has passed. The group may be
    gone by then."""
    session: Callable[[ShardState, Any, str], tuple[DeadlineKey, int] | None] = _none
    """(state, group, member id) -> the key of the member's session deadline and its timeout in ms;
    None if the member has no session. Everything that shows that the member is alive restarts
    it."""
    tasks: Mapping[str, Callable[[ShardState, Task, Any, Instant], Outcome]] = field(
        default_factory=dict
    )
    """`Task.kind` -> what happens with the result, an Exception if the task failed."""
    answers: Mapping[str, Callable[[ShardState, OutsideCall, Any, Instant], Outcome]] = field(
        default_factory=dict
    )
    """`OutsideCall.whom` -> what happens with the answer, an Exception if the call failed."""
    completions: Mapping[
        str, Callable[[ShardState, Completion, AppendError | None, Instant], Outcome]
    ] = field(default_factory=dict)
    """`Completion.owner` -> what happens once the records of the outcome are durable (None) or have
    failed (AppendError)."""
    before_delete: Callable[[ShardState, Any], tuple[list[Record], OutsideCall] | None] = _none
    """What another coordinator has to do before an empty group may be deleted (KIP-932,
    docs/spec/share-group.md#SG-54): records, and a call whose answer is an ErrorCode or an
    Exception. Until then the group's requests are refused; it is deleted if the answer is NONE.
    Raises ApiError if that cannot be done now. None: there is nothing to do before. The retention
    sweep never deletes a group that needs such a call, as Kafka's `shouldExpire` says."""
    on_loaded: Callable[[ShardState, Instant], Outcome] = _no_outcome
    """The log is replayed, and `state.image` may be newer than the records. Sets the deadlines, and
    repeats the `calls` that are still open according to the records. If the log is empty, this
    happens when somebody first asks for the shard.

    The outcomes of all types are merged into one, in the order of `GROUP_TYPES`, and all their
    records are one batch: if they do not fit, nothing of the outcome happens, for any type. So the
    outcome must be small, however many groups there are. It may have records, urgent replies,
    events, tasks and calls only. Long work is done by a deadline that is due at once, does a part,
    and sets itself again."""
    on_metadata: Callable[[ShardState, MetadataDelta, Instant], Outcome] = _no_outcome
    """Topics have changed: `state.image` is new, and the delta says what is new in it. It is not
    called while the shard is loading, nor before somebody asks for one whose log was empty. For its
    outcome the same holds as for `on_loaded`."""
    unload: Callable[[ShardState], Outcome] = _no_outcome
    """The shard is given up. The outcome only has urgent replies, to all parked requests."""

    # What the admin port and the tools show

    inspect: Callable[[ShardState, Any, Instant, str | None], dict[str, Any]]
    """(state, group, now, after) -> JSON-friendly fields: at least "members" (by id, those after
    the id `after`) and "blocked" (`blocked.Wait`s). What may be long is an iterator in which None
    is not an item but a point where other work may run. It may end after `slices.LISTED_MAX` + 1
    items."""
    awaited: Callable[[ShardState, Any, Instant], Iterator[dict[str, Any]]] = _no_items
    """Further entries of "deadlines", for which there is no timer."""
    identify: Callable[[Any, str], MemberIdentity]
    """(group, member id) -> who the member is."""
    owned_partitions: Callable[[Any, str], Iterable[Holding]]
    """(group, member id) -> what the member owns or may still commit for. A topic may come
    twice."""
    positions: Callable[[ShardState, OffsetStore, Any], Positions | OutsideCall] = committed_offsets
    """Where the group is in each partition; lag counts from there. If another coordinator knows
    that (KIP-932: the share coordinator), it is a call, whose answer is Positions;
    `groupd.coordinator.lag` makes it."""
    what_if: AssignorTrial | None = None
    """What another assignor would do; None if no assignor of the coordinator fits."""

    # What a log says of it

    logged: Mapping[type, Callable[[Any, Any, Any], Iterator[LoggedEvent]]] = field(
        default_factory=dict
    )
    """Class of a record's key -> a function that returns the events of a record. It gets the group
    before the record (None if there was none), the key and the value."""
    epochs: Mapping[type, tuple[str, str]] = field(default_factory=dict)
    """Class of a record's key -> (name, attribute of the value) of a number that never decreases
    while the group exists."""
    record_problems: Mapping[type, Callable[[Any, Any], Iterator[str]]] = field(
        default_factory=dict
    )
    """Class of a record's key -> what `groupd log verify` reports of key and value."""
    group_problems: Callable[[Any], Iterator[str]] = _no_items
    """What `groupd log verify` reports of a group at the end of the log."""
