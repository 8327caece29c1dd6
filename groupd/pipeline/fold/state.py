"""The live state of a group, the same for both protocols: members, topics, and why a member is
gone.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from groupd.coordinator.core.assignors.api import SubscriptionType
from groupd.coordinator.core.consumer_group.target_assignment import subscription_type
from groupd.coordinator.history.rebalance import RebalanceEnd

# A partition is an `OwnedPartition`: (topic id as text, number) in consumer groups, whose records
# have topic ids, and (topic name, number) in classic groups. `MemberInterval.key` identifies a
# member. For a static member it is the instance id, because a replacement under another member id
# is the same owner.

OwnedPartition = tuple[str, int]

STABLE, REVOKING, WAITING, AWAY = "stable", "revoking", "waiting", "away"
CONSUMER, CLASSIC = "consumer", "classic"

# COMPLETED and SUPERSEDED are the words of `coordinator.history`, which reads events; its EMPTY is
# EMPTIED here. The two do not show the same rebalances: events tell which epochs were never
# installed, and `coordinator.history` counts these to the next rebalance; here every epoch is a
# rebalance.

OPEN, UNFINISHED, EMPTIED = "open", "unfinished", "emptied"
COMPLETED, SUPERSEDED = RebalanceEnd.COMPLETED.value, RebalanceEnd.SUPERSEDED.value


class Settings(Struct, frozen=True):
    """Settings that are not in the log. `session_timeout_ms`: the session timeout of consumer
    groups (group.consumer.session.timeout.ms). A member flaps if it is gone within `flap_life_ms`
    of joining, and its client does that `flap_count` times in `flap_window_ms`."""

    session_timeout_ms: int = 45_000
    flap_life_ms: int = 30_000
    flap_count: int = 3
    flap_window_ms: int = 600_000


class Owner(Struct, frozen=True):
    member_id: str
    key: str


class MemberInterval(Struct):
    """A member from joining to leaving. `heard_ms`: the time of its last record, which is its last
    known heartbeat. The fields about commits count those on partitions that it holds."""

    member_id: str
    protocol: str
    joined_ms: int
    log_offset: int
    began_by: str | None = None
    replaces: str | None = None
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rack_id: str | None = None
    topics: tuple[str, ...] = ()
    regex: str = ""
    assignor: str | None = None
    rebalance_timeout_ms: int | None = None
    session_timeout_ms: int | None = None
    epoch: int | None = None
    first_epoch: int | None = None
    epochs: int = 0
    state: str = STABLE
    state_since_ms: int = 0
    state_offset: int = 0
    assigned: set[OwnedPartition] = field(default_factory=set)
    pending: set[OwnedPartition] = field(default_factory=set)
    partitions_max: int = 0
    away_ms: int = 0
    heard_ms: int = 0
    commits: int = 0
    last_commit_ms: int | None = None
    commit_gap_ms: int = 0

    @property
    def key(self) -> str:
        return f"i:{self.instance_id}" if self.instance_id else f"m:{self.member_id}"

    @property
    def owner(self) -> Owner:
        return Owner(self.member_id, self.key)

    @property
    def client(self) -> str:
        """The client behind the member: unlike the member id it survives a restart of the
        process."""
        return self.instance_id or f"{self.client_id}{self.client_host}"

    @property
    def last_sign_ms(self) -> int:
        return max(self.heard_ms, self.last_commit_ms or 0)

    def held(self) -> set[OwnedPartition]:
        return self.assigned | self.pending

    def committed(self, at_ms: int) -> None:
        if self.last_commit_ms is not None:
            self.commit_gap_ms = max(self.commit_gap_ms, at_ms - self.last_commit_ms)
        self.commits += 1
        self.last_commit_ms = at_ms


class OwnedInterval(Struct):
    """The present interval in which a member owns a partition."""

    owner: Owner
    since_ms: int
    log_offset: int
    epoch: int | None
    revoking_since_ms: int | None = None


class Move(Struct):
    place: OwnedPartition
    kind: str
    before: Owner | None
    after: Owner | None
    forced: bool
    released_ms: int | None = None
    taken_ms: int | None = None

    @property
    def unowned_ms(self) -> int | None:
        if self.released_ms is None or self.taken_ms is None:
            return None
        return max(self.taken_ms - self.released_ms, 0)


class Rebalance(Struct):
    """A rebalance. `causes`: triggers, the most important first, each with a member id or "".
    `untaken`: the number of moves whose new owner does not have the partition yet; the row waits
    for them."""

    epoch: int
    protocol: str
    written_ms: int
    log_offset: int
    causes: tuple[tuple[str, str], ...]
    joined: tuple[str, ...]
    left: tuple[str, ...]
    members_before: int
    members_after: int
    complete: bool
    why: str
    assignor: str | None = None
    started_ms: int | None = None
    target_ms: int | None = None
    stable_ms: int | None = None
    status: str = OPEN
    moves: list[Move] = field(default_factory=list)
    untaken: int = 0
    partitions: int = 0
    minimal: int | None = None
    minimal_method: str | None = None
    skipped: int | None = None
    waiting_for: tuple[str, ...] = ()
    flapping: tuple[str, ...] = ()

    @property
    def triggers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(trigger for trigger, _ in self.causes))

    @property
    def trigger_members(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(member_id for _, member_id in self.causes if member_id))

    def count(self, kind: str) -> int:
        return sum(move.kind == kind for move in self.moves)

    @property
    def needless(self) -> int | None:
        return None if self.minimal is None else max(self.count("moved") - self.minimal, 0)

    def unowned(self) -> list[int]:
        """For how many milliseconds each moved partition had no owner, where that is known."""
        return [m.unowned_ms for m in self.moves if m.kind == "moved" and m.unowned_ms is not None]


class Cause(Struct):
    at_ms: int
    trigger: str
    member_id: str


class FoldedGroup(Struct):
    """A group in its present state.

    - `complete`: the history is known from the group's creation, or from a time when it was empty.
    - `settled`: members at the group epoch with nothing to revoke or to wait for.
    - `away`: static members that left for a while.
    - `target`, `target_of`: the target by partition and by member (classic: the assignment).
    - `changed`: partitions whose target changed since the last target epoch, with the former owner.
    - `departing`: members removed by the operation that is being read; its other records say why.
    - `released`: the partitions that no member holds, since when, and which member held each last.
    """

    group_id: str
    log_partition: int
    protocol: str = CONSUMER
    epoch: int = -1
    metadata_hash: int | None = None
    complete: bool = False
    members: dict[str, MemberInterval] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    target: dict[OwnedPartition, Owner] = field(default_factory=dict)
    target_of: dict[str, set[OwnedPartition]] = field(default_factory=dict)
    changed: dict[OwnedPartition, Owner | None] = field(default_factory=dict)
    holders: dict[OwnedPartition, OwnedInterval] = field(default_factory=dict)
    released: dict[OwnedPartition, tuple[int, Owner]] = field(default_factory=dict)
    awaiting: dict[OwnedPartition, tuple[Rebalance, Move]] = field(default_factory=dict)
    rebalance: Rebalance | None = None
    causes: list[Cause] = field(default_factory=list)
    departing: dict[str, MemberInterval] = field(default_factory=dict)
    departing_ms: int = 0
    converted_ms: int | None = None
    joined_since: list[str] = field(default_factory=list)
    left_since: list[str] = field(default_factory=list)
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    short_lives: dict[str, list[int]] = field(default_factory=dict)
    protocol_type: str = "consumer"
    protocol_name: str | None = None
    empty_since_ms: int | None = None
    last_ms: int = 0

    def subscription_of(self, member: MemberInterval) -> frozenset[str]:
        """The names of a member's topics, including those that match its regular expression."""
        return frozenset(member.topics) | frozenset(self.regexes.get(member.regex, ()))

    def is_homogeneous(self) -> bool:
        kinds = {(member.topics, member.regex) for member in self.members.values()}
        return subscription_type(list(kinds)) is SubscriptionType.HOMOGENEOUS


# Why a member is gone -----------------------------------------------------------------------

# The evidence, in this order:
#
# - A static member had left for a while (epoch -2): its session expired, unless it was gone sooner.
# - A member was revoking for just its rebalance timeout: it missed that timeout.
# - A member gave a sign of life more recently than its session timeout: the session cannot have
#   expired, so the member left (or an administrator removed it).
# - A member committed regularly: if it then was silent for its session timeout, the session has
#   probably expired; if it committed until just before the end, it has probably left.

LEFT, EXPIRED, REBALANCE_TIMEOUT, REMOVED = "left", "expired", "rebalance-timeout", "removed"
REPLACED, CONVERTED = "replaced", "converted"

TRIGGERS = {
    LEFT: "leave",
    EXPIRED: "expiry",
    REBALANCE_TIMEOUT: "rebalance-timeout",
    REMOVED: "removal",
    REPLACED: "static-replacement",
    CONVERTED: "conversion",
}
"""For each way in which a membership ends, the trigger of the rebalance that it causes."""

_SLACK_MS = 1000
"""How late the record of an expired timer may be."""

_HEARTBEAT_MS = 5000
"""The longest time between two heartbeats (group.consumer.heartbeat.interval.ms by default)."""

_REGULAR = 3
"""With at least this many commits a member counts as committing regularly."""


class MembershipEnd(Struct, frozen=True):
    """`certainty`: `certain`, `likely`, or None if `by` is REMOVED. `why`: the evidence in
    words."""

    by: str
    certainty: str | None
    why: str
    successor: str | None = None


def membership_end(member: MemberInterval, at_ms: int, settings: Settings) -> MembershipEnd:
    """Why a member is gone at `at_ms`; not for replaced or converted members. For a classic member
    `at_ms` is when the first generation without it was written."""
    session_ms = member.session_timeout_ms or settings.session_timeout_ms
    if member.state == AWAY:
        return _of_absent(at_ms - member.state_since_ms, session_ms)
    late_ms = _beyond_rebalance_timeout(member, at_ms)
    if late_ms is not None:
        return MembershipEnd(
            REBALANCE_TIMEOUT,
            "likely",
            f"it was revoking partitions for its rebalance timeout of {member.rebalance_timeout_ms}"
            f" ms and {late_ms} ms",
        )
    # A classic member's commits count as heartbeats; a consumer group's commits do not.
    heard_ms = member.last_sign_ms if member.protocol == CLASSIC else member.heard_ms
    bound_ms = session_ms
    if member.protocol == CLASSIC and member.rebalance_timeout_ms is not None:
        bound_ms = min(bound_ms, member.rebalance_timeout_ms)
    if at_ms - heard_ms < bound_ms:
        return MembershipEnd(
            LEFT,
            "certain",
            f"it was heard of {at_ms - heard_ms} ms before, less than its timeout of {bound_ms} ms",
        )
    return _by_habit(member, at_ms, session_ms)


def _of_absent(absent_ms: int, session_ms: int) -> MembershipEnd:
    if absent_ms >= session_ms - _HEARTBEAT_MS:
        return MembershipEnd(
            EXPIRED, "likely", f"the static member was away for {absent_ms} ms and did not return"
        )
    return MembershipEnd(
        LEFT, "certain", f"the static member was away for {absent_ms} ms, less than its session"
    )


def _beyond_rebalance_timeout(member: MemberInterval, at_ms: int) -> int | None:
    """How long after its rebalance timeout the member was removed; None if that was not the
    reason."""
    if (
        member.state != REVOKING
        or not member.rebalance_timeout_ms
        or member.rebalance_timeout_ms < 0
    ):
        return None
    late_ms = at_ms - member.state_since_ms - member.rebalance_timeout_ms
    return late_ms if 0 <= late_ms <= _SLACK_MS else None


def _by_habit(member: MemberInterval, at_ms: int, session_ms: int) -> MembershipEnd:
    if member.commits >= _REGULAR and member.last_commit_ms is not None:
        silent_ms = at_ms - member.last_commit_ms
        if silent_ms <= _HEARTBEAT_MS:
            return MembershipEnd(LEFT, "likely", f"it committed {silent_ms} ms before")
        if silent_ms >= max(session_ms - _HEARTBEAT_MS, 3 * member.commit_gap_ms):
            return MembershipEnd(
                EXPIRED,
                "likely",
                f"it committed at least every {member.commit_gap_ms} ms, then not for"
                f" {silent_ms} ms",
            )
    return MembershipEnd(
        REMOVED,
        None,
        f"it left or its session expired: its last sign of life is {at_ms - member.last_sign_ms} ms"
        " before",
    )


class TopicNames:
    """Ids are UUID text. A name has several ids if its topic was deleted and created again."""

    __slots__ = ("_ids", "_names")

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)
        self._ids: dict[str, set[str]] = {}
        for topic_id, name in names.items():
            self._ids.setdefault(name, set()).add(topic_id)

    def learn(self, topic_id: str | None, name: str) -> None:
        if topic_id and topic_id not in self._names:
            self._names[topic_id] = name
            self._ids.setdefault(name, set()).add(topic_id)

    def name(self, topic_id: str) -> str | None:
        return self._names.get(topic_id)

    def id_of(self, name: str) -> str | None:
        """The id of a topic; None if none is known, or if several are."""
        ids = self._ids.get(name, set())
        return next(iter(ids)) if len(ids) == 1 else None

    def columns(self, place: OwnedPartition, protocol: str) -> dict[str, str | int | None]:
        """The columns `topic`, `topic_id` and `partition` of a row."""
        topic, partition = place
        if protocol == CLASSIC:
            return {"topic": topic, "topic_id": self.id_of(topic), "partition": partition}
        return {"topic": self.name(topic), "topic_id": topic, "partition": partition}
