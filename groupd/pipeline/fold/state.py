"""The live state of a group, the same for both protocols.

A partition is a `Place`: (topic id as text, number) in consumer groups, whose records have topic
ids, and (topic name, number) in classic groups. `Life.key` identifies a member. For a static member
it is the instance id, because a replacement under another member id is the same owner.
"""

from __future__ import annotations

from msgspec import Struct, field

Place = tuple[str, int]

STABLE, REVOKING, WAITING, AWAY = "stable", "revoking", "waiting", "away"
CONSUMER, CLASSIC = "consumer", "classic"


class Settings(Struct, frozen=True):
    """Settings that the log does not tell. `session_timeout_ms`: the session timeout of consumer
    groups (group.consumer.session.timeout.ms). A member flaps if it goes within `flap_life_ms` of
    joining and its client does that `flap_count` times in `flap_window_ms`."""

    session_timeout_ms: int = 45_000
    flap_life_ms: int = 30_000
    flap_count: int = 3
    flap_window_ms: int = 600_000


class Owner(Struct, frozen=True):
    member_id: str
    key: str


class Life(Struct):
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
    assigned: set[Place] = field(default_factory=set)
    pending: set[Place] = field(default_factory=set)
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

    def held(self) -> set[Place]:
        return self.assigned | self.pending

    def committed(self, at_ms: int) -> None:
        if self.last_commit_ms is not None:
            self.commit_gap_ms = max(self.commit_gap_ms, at_ms - self.last_commit_ms)
        self.commits += 1
        self.last_commit_ms = at_ms


class Holding(Struct):
    """The present interval in which a member owns a partition."""

    owner: Owner
    since_ms: int
    log_offset: int
    epoch: int | None
    revoking_since_ms: int | None = None


class Move(Struct):
    place: Place
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
    status: str = "open"
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
        """For how long each moved partition had no owner, in milliseconds, where that is known."""
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
    - `target`, `target_of`: the target assignment by place and by member (classic: the assignment).
    - `changed`: places whose target changed since the last target epoch, with the former owner.
    - `departing`: members removed by the operation that is being read; its other records say why.
    - `released`: places that no member holds, since when, and who held them last.
    """

    group_id: str
    log_partition: int
    protocol: str = CONSUMER
    epoch: int = -1
    metadata_hash: int | None = None
    complete: bool = False
    members: dict[str, Life] = field(default_factory=dict)
    settled: set[str] = field(default_factory=set)
    away: set[str] = field(default_factory=set)
    target: dict[Place, Owner] = field(default_factory=dict)
    target_of: dict[str, set[Place]] = field(default_factory=dict)
    changed: dict[Place, Owner | None] = field(default_factory=dict)
    holders: dict[Place, Holding] = field(default_factory=dict)
    released: dict[Place, tuple[int, Owner]] = field(default_factory=dict)
    awaiting: dict[Place, tuple[Rebalance, Move]] = field(default_factory=dict)
    rebalance: Rebalance | None = None
    causes: list[Cause] = field(default_factory=list)
    departing: dict[str, Life] = field(default_factory=dict)
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

    def subscription_of(self, life: Life) -> frozenset[str]:
        """The topic names that a member subscribes to, those of its resolved expression
        included."""
        return frozenset(life.topics) | frozenset(self.regexes.get(life.regex, ()))

    def is_homogeneous(self) -> bool:
        kinds = {(life.topics, life.regex) for life in self.members.values()}
        return len(kinds) < 2 and not any(topics and regex for topics, regex in kinds)
