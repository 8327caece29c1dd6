"""ClassicGroup: the members of a classic group, their votes and the group's state.

Rules. Handlers of this package change the object directly and then write a record (Kafka does the
same). The replay of that record finds the changed object (`changed_groups`); a load builds a new
object. The group keeps counts (parked Joins, supporters of a protocol), so that no request has to
go through all members. Therefore members, protocols and parked tokens are only changed through its
methods.

A group that only holds offsets (a "simple" group) is a ClassicGroup too: Empty, no protocol type,
generation 0, no record of its own. Source: docs/spec/classic-group.md#2 to #5;
docs/spec/offsets-and-log.md#3, #4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence, Set
from enum import Enum

from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.core.group import ExpirationBase, commit_time
from groupd.coordinator.core.types import CLASSIC, Instant, RequestToken
from groupd.protocol.consumer_protocol import (
    MalformedSubscription,
    subscribed_topics,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import JoinProtocol
from groupd.protocol.messages.offsets import CommitTopic
from groupd.protocol.records.schema import GroupMetadataKey, Record

TYPE_NAME = CLASSIC

SESSION = "classic-session"
"""Deadline kind: the session of a member, or of an id that is given out and not used yet."""

CONSUMER_PROTOCOL_TYPE = "consumer"
UNKNOWN_TIMESTAMP_MS = -1


class State(Enum):
    """The states, with the names that Kafka uses on the wire."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS: dict[State, frozenset[State]] = {
    State.EMPTY: frozenset({State.PREPARING_REBALANCE}),
    State.PREPARING_REBALANCE: frozenset({State.EMPTY, State.STABLE, State.COMPLETING_REBALANCE}),
    State.COMPLETING_REBALANCE: frozenset({State.PREPARING_REBALANCE}),
    State.STABLE: frozenset({State.COMPLETING_REBALANCE}),
    State.DEAD: frozenset(State),
}


class ClassicGroup:
    """The members of a group and its state. `protocol_type` "", `protocol_name` None and
    `leader_id` None mean that there is none yet.

    `static_members`: instance id -> member id. `pending_members`: ids given out with
    MEMBER_ID_REQUIRED and not yet used, oldest first. `pending_sync`: members of this generation
    that have not sent SyncGroup. `initial_rebalance`: the group was Empty when the current (or
    last) join phase began; `initial_delay_ms`: the last delay of that phase's timer;
    `initial_remaining_ms`: how much delay may still be added; `member_added`: whether a member has
    joined since the timer was last set. `assigning_generation`: the generation whose leader's
    assignment is being written, -1 if none. `subscribed_topics`: None if not known.
    """

    __slots__ = (
        "_supporters",
        "assigning_generation",
        "generation",
        "group_id",
        "held_assignments",
        "initial_delay_ms",
        "initial_rebalance",
        "initial_remaining_ms",
        "joins_parked",
        "leader_id",
        "linger_rounds",
        "member_added",
        "members",
        "pending_members",
        "pending_sync",
        "protocol_name",
        "protocol_type",
        "state",
        "state_timestamp_ms",
        "static_members",
        "subscribed_topics",
    )

    def __init__(
        self,
        group_id: str,
        *,
        state: State = State.EMPTY,
        state_timestamp_ms: int = UNKNOWN_TIMESTAMP_MS,
        generation: int = 0,
        protocol_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.state = state
        self.state_timestamp_ms = state_timestamp_ms
        self.generation = generation
        self.protocol_type = protocol_type
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, ClassicGroupMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_members: dict[str, None] = {}
        self.pending_sync: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        self.initial_rebalance = False
        self.member_added = False
        self.linger_rounds = 0
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0
        self.assigning_generation = -1
        self.held_assignments: Mapping[str, bytes] = {}
        self.joins_parked = 0
        self._supporters: dict[str, int] = {}

    @classmethod
    def simple(cls, group_id: str) -> ClassicGroup:
        """A group that only holds offsets; the replay of an offset record makes it."""
        return cls(group_id)

    # Membership

    def add(self, member: ClassicGroupMember, protocol_type: str) -> None:
        """Add a member. The first member sets the protocol type and becomes the leader."""
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        self.pending_members.pop(member.member_id, None)
        self._support(member, 1)

    def remove(self, member_id: str) -> ClassicGroupMember | None:
        """Remove a member or a pending id. The caller must have taken its parked requests
        before."""
        self.pending_members.pop(member_id, None)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        assert not member.is_waiting, "a parked request would be lost"
        self._support(member, -1)
        instance_id = member.group_instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if self.leader_id == member_id:
            self.leader_id = min(self.members, default=None)
        return member

    def update(
        self,
        member: ClassicGroupMember,
        protocols: tuple[JoinProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        if protocols != member.protocols:
            self._support(member, -1)
            member.protocols = protocols
            self._support(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def _support(self, member: ClassicGroupMember, change: int) -> None:
        counts = self._supporters
        for name in member.protocol_names():
            counts[name] = counts.get(name, 0) + change

    def rename(self, member: ClassicGroupMember, new_id: str) -> None:
        """Give a static member another member id. The leader and `pending_sync` follow."""
        assert member.group_instance_id is not None, "only static members are replaced"
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = new_id
        self.members[new_id] = member
        self.static_members[member.group_instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.pending_sync:
            self.pending_sync.remove(old_id)
            self.pending_sync.add(new_id)

    def sorted_members(self) -> list[ClassicGroupMember]:
        return [self.members[member_id] for member_id in sorted(self.members)]

    def check_member(self, member_id: str, instance_id: str | None) -> ClassicGroupMember:
        """The member with this id (docs/spec/classic-group.md#J15). A static member may omit its
        instance id.

        Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
        """
        if instance_id is not None:
            mapped = self.static_members.get(instance_id)
            if mapped is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if mapped != member_id:
                raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # Parked requests

    def park_join(self, member: ClassicGroupMember, token: RequestToken) -> None:
        """Park the member's Join. If an earlier Join is parked, this one replaces it; the earlier
        one needs no answer, because its connection is closed."""
        if member.join_token is None:
            self.joins_parked += 1
        member.join_token = token

    def take_join(self, member: ClassicGroupMember) -> RequestToken | None:
        token, member.join_token = member.join_token, None
        if token is not None:
            self.joins_parked -= 1
        return token

    def all_joined(self) -> bool:
        return self.joins_parked == len(self.members) and not self.pending_members

    # Choices

    def supports(self, protocol_type: str, protocols: Collection[JoinProtocol]) -> bool:
        """Whether the group can accept a member with these protocols
        (docs/spec/classic-group.md#2.1, "Protocol rule")."""
        if self.state is State.EMPTY:
            return protocol_type != "" and len(protocols) > 0
        if protocol_type != self.protocol_type:
            return False
        counts = self._supporters
        return len(self.members) in [counts.get(protocol.name, 0) for protocol in protocols]

    def vote(self) -> str:
        """The protocol that the members choose. Each member votes for the first of its protocols
        that all members support; if votes are equal, the smallest name wins. The group must have
        members."""
        size = len(self.members)
        candidates = frozenset(name for name, count in self._supporters.items() if count == size)
        votes = Counter([member.first_of(candidates) for member in self.members.values()])
        return min((-count, name) for name, count in votes.items() if name is not None)[1]

    def elect_joined_leader(self) -> bool:
        """Keep the leader if its Join is parked; otherwise the member with the smallest id whose
        Join is parked becomes the leader. Returns False if no Join is parked."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join_token is not None:
            return True
        joined = [m.member_id for m in self.members.values() if m.join_token is not None]
        self.leader_id = min(joined, default=self.leader_id)
        return bool(joined)

    def max_rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, 0 if there are none."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # State

    def transition(self, to: State, wall_ms: int) -> None:
        assert self.state in _PREVIOUS[to], f"{self.state.value} -> {to.value}"
        self.state = to
        self.state_timestamp_ms = wall_ms

    def next_generation(self, wall_ms: int) -> None:
        """End the join phase: the next generation begins in CompletingRebalance with a protocol, or
        in Empty if there are no members."""
        self.generation += 1
        self.held_assignments = {}
        self.pending_sync.clear()
        if self.members:
            self.protocol_name = self.vote()
            self.transition(State.COMPLETING_REBALANCE, wall_ms)
        else:
            self.protocol_name = None
            self.transition(State.EMPTY, wall_ms)
        self.refresh_subscription()

    def refresh_subscription(self) -> None:
        """Set the subscribed topics (docs/spec/offsets-and-log.md#3.3): the union of the members'
        subscriptions at this generation, None if one cannot be read."""
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return
        if self.members and self.protocol_name is None:
            return
        # Most members send the same bytes, which are read once.
        metadata = {member.metadata(self.protocol_name) for member in self.members.values()}
        try:
            self.subscribed_topics = frozenset().union(*map(subscribed_topics, metadata))
        except MalformedSubscription:
            self.subscribed_topics = None

    # The protocol `coordinator.core.group.Group`

    type_name = TYPE_NAME

    @property
    def offset_owner(self) -> ClassicGroup:
        return self

    @property
    def epoch(self) -> int:
        return self.generation

    def state_name(self) -> str:
        return self.state.value

    def is_empty(self) -> bool:
        return not self.members

    def awaits_members(self) -> bool:
        return bool(self.pending_members)

    def admits_classic_members(self) -> bool:
        return True

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_or_epoch: int,
        topics: Sequence[CommitTopic],
        *,
        api_version: int,
        transactional: bool,
        too_long: Set[tuple[str, int]],
    ) -> None:
        """Checks an offset commit (docs/spec/offsets-and-log.md#3.1, "Classic"). An accepted plain
        commit also restarts the member's session: `on_offset_commit`."""
        if self.state is State.DEAD:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if generation_or_epoch < 0 and self.state is State.EMPTY:
            return
        if generation_or_epoch >= 0 or member_id or instance_id is not None:
            self.check_member(member_id, instance_id)
            if generation_or_epoch != self.generation:
                raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        if self.state is State.COMPLETING_REBALANCE and not transactional:
            raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)

    def on_offset_commit(
        self, member_id: str, instance_id: str | None, now: Instant, deadlines: Deadlines
    ) -> None:
        """Restart the member's session: in Stable and PreparingRebalance a plain commit shows that
        the member is alive (docs/spec/offsets-and-log.md#3.1). With an unknown or empty member id
        nothing happens."""
        member = self.members.get(member_id)
        if member is not None and self.state in (State.STABLE, State.PREPARING_REBALANCE):
            key = (SESSION, self.group_id, member_id)
            deadlines.set(key, now.monotonic_ms + member.session_timeout_ms)

    def check_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allows everything: classic groups ignore member id and epoch in OffsetFetch."""

    def check_offset_delete(self) -> None:
        """Raises NON_EMPTY_GROUP if the group has members and is not of protocol type "consumer",
        GROUP_ID_NOT_FOUND if it is dead."""
        if self.state is State.DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if self.state is not State.EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        """Raises NON_EMPTY_GROUP unless the group is Empty, GROUP_ID_NOT_FOUND if it is dead. A
        group with pending ids only may be Empty."""
        if self.state is State.DEAD:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "The group id does not exist.")
        if self.state is not State.EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, "The group is not empty.")

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether the group uses the topic. If its subscription is not known, a group of protocol
        type "consumer" counts as using every topic, and any other group as using none."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self.subscribed_topics

    def offset_expiration_base(self) -> ExpirationBase:
        if self.protocol_type == "":
            return commit_time
        if self.state is State.EMPTY:
            since = self.state_timestamp_ms
            return commit_time if since == UNKNOWN_TIMESTAMP_MS else lambda _: since
        if self.state is State.STABLE and self.subscribed_topics is not None:
            return commit_time
        return lambda _: None

    def cancel_deadlines(self, deadlines: Deadlines) -> None:
        deadlines.cancel_group(self.group_id)

    def tombstones(self) -> list[Record]:
        return [Record(GroupMetadataKey(self.group_id))]
