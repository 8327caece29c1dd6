"""A consumer on the classic protocol: Join, Sync, Heartbeat, Leave; eager or cooperative, dynamic
or static, follower or leader. Partitions are owned by topic name, as the protocol has no ids."""

from __future__ import annotations

from typing import Any

from groupd.coordinator.core.metadata_image import TopicImage
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupReply,
    JoinGroupRequest,
    JoinProtocol,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupReply,
    SyncGroupRequest,
)
from tests.simulator.client import RETRIABLE, RETRY_MS, Client, Subscription, TopicPartition
from tests.simulator.plan import (
    COOPERATIVE,
    EAGER,
    assigned_partitions,
    make_plan,
    subscription_bytes,
)

_GRACE_MS = 5000
_HEARTBEAT_VERSION = 4
_LEAVE_VERSION = 5
_SYNC_VERSION = 5
_REJOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.INCONSISTENT_GROUP_PROTOCOL})


class ClassicClient(Client):
    """`cooperative` is the group's choice; every member offers the same protocol. `surplus`: what
    is still owned but not assigned any more."""

    cooperative = False
    generation = -1
    stable = False
    surplus: frozenset[TopicPartition] = frozenset()

    def begin(self) -> None:
        options = self.simulation.options
        self.member_id = ""
        self.generation = -1
        self.stable = False
        self.session_timeout_ms = options.session_timeout_ms
        self.rebalance_timeout_ms = options.rebalance_timeout_ms
        self._version = self.world.random.choice([3, 5, 9, 9]) if self.instance_id is None else 9
        self._protocol = COOPERATIVE if self.cooperative else EAGER
        self._leads = False
        self._leaving = False
        self._joining = False
        self._planned_for: dict[str, int] | None = None
        self._round = 0
        self._joined_with = self.subscription
        self.surplus = frozenset()
        self.tainted = False
        self.later(0, self._rejoin)

    # Joining

    def _rejoin(self) -> None:
        """Gives up what must be given up, then sends the Join."""
        if self._joining or self._leaving:
            return
        self._joining = True
        self.stable = False
        self._round += 1
        for partition in sorted(self.surplus):
            # Nobody may claim what the last assignment took away.
            self.owned.pop(partition, None)
        self.surplus = frozenset()
        if self.owned and not self.cooperative:
            delay_ms = min(self.simulation.revocation_ms(self), self.session_timeout_ms // 2)
            self.later(delay_ms, self._revoked_all, self._round)
        else:
            self._join(self._round)

    def _revoked_all(self, round_: int) -> None:
        self.owned = {}
        self._join(round_)

    def _join(self, round_: int) -> None:
        if round_ != self._round or self._leaving:
            return
        self._joined_with = self.subscription
        request = JoinGroupRequest(
            self.group_id,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.member_id,
            "consumer",
            (JoinProtocol(self._protocol, self._subscription()),),
            self.instance_id,
        )
        options = self.simulation.options
        patience_ms = 2 * self.rebalance_timeout_ms + options.initial_rebalance_delay_ms + _GRACE_MS
        self.rpc("group", request, self._version, self._joined, patience_ms)

    def _subscription(self) -> bytes:
        owned = [(topic.decode(), number) for topic, number in self.owned]
        return subscription_bytes(self.subscription.names, owned, self.generation)

    def _joined(self, reply: JoinGroupReply | None) -> None:
        self._joining = False
        if reply is None or reply.error in RETRIABLE:
            self.later(RETRY_MS, self._rejoin)
        elif reply.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
            self._rejoin()
        elif reply.error is ErrorCode.NONE:
            self._joining = True
            self.member_id = reply.member_id
            self.generation = reply.generation_id
            self._sync(reply)
        else:
            self._on_error(reply.error)

    def _sync(self, joined: JoinGroupReply) -> None:
        plan = ()
        self._leads = joined.leader == self.member_id
        if self._leads and not joined.skip_assignment:
            self.simulation.plans += 1
            # User data would be a custom assignor's, and keep a group from being converted.
            mixed = self.simulation.options.mixed_groups
            name = "" if mixed else f"plan-{self.simulation.plans}"
            topics = self._planned_for = self._known_topics()
            plan = make_plan(name, self._protocol, joined.members, topics)
        request = SyncGroupRequest(
            self.group_id,
            self.generation,
            self.member_id,
            self.instance_id,
            "consumer",
            joined.protocol_name,
            plan,
        )
        patience_ms = self.rebalance_timeout_ms + _GRACE_MS
        self.rpc("group", request, _SYNC_VERSION, self._synced, patience_ms)

    def _known_topics(self) -> dict[str, int]:
        return {
            name: topic.partitions for name, topic in self.simulation.topics.image.by_name.items()
        }

    def _synced(self, reply: SyncGroupReply | None) -> None:
        self._joining = False
        if reply is None or reply.error in RETRIABLE:
            self.later(RETRY_MS, self._rejoin)
        elif reply.error is ErrorCode.NONE:
            self._assigned(reply.assignment)
        else:
            self._on_error(reply.error)

    def _assigned(self, data: bytes) -> None:
        assigned, _ = assigned_partitions(data)
        target = frozenset((topic.encode(), number) for topic, number in assigned)
        self.stable = True
        self._round += 1
        for partition in sorted(target):
            self.take(partition)
        surplus = self.surplus = frozenset(self.owned.keys() - target)
        if surplus:
            # Cooperative: what is to move is given up now, and then handed out by a rebalance.
            delay_ms = min(self.simulation.revocation_ms(self), self.session_timeout_ms // 2)
            self.later(delay_ms, self._revoked, surplus, self._round)
        self.later(self._interval_ms(), self._heartbeat, self._round)
        self.simulation.checks.owns(self)

    def _revoked(self, surplus: frozenset[TopicPartition], round_: int) -> None:
        if round_ == self._round:
            for partition in sorted(surplus):
                self.owned.pop(partition, None)
            self._rejoin()

    # Being a member

    def _interval_ms(self) -> int:
        return min(self.session_timeout_ms, self.rebalance_timeout_ms) // 3

    def _heartbeat(self, round_: int) -> None:
        if round_ != self._round or self._leaving:
            return
        news = self._leads and self._planned_for != self._known_topics()
        if news or self._joined_with != self.subscription:
            self._rejoin()
            return
        request = HeartbeatRequest(self.group_id, self.generation, self.member_id, self.instance_id)
        self.rpc("group", request, _HEARTBEAT_VERSION, lambda reply: self._beaten(round_, reply))

    def _beaten(self, round_: int, reply: Any) -> None:
        if round_ != self._round:
            return
        if reply is None or reply.error in RETRIABLE:
            self.later(RETRY_MS, self._heartbeat, round_)
        elif reply.error is ErrorCode.NONE:
            self.later(self._interval_ms(), self._heartbeat, round_)
        else:
            self._on_error(reply.error)

    def _on_error(self, error: ErrorCode) -> None:
        self._joining = False
        self.simulation.checks.on_error(self, error)
        if error is ErrorCode.FENCED_INSTANCE_ID:
            self.stop_for_good(error.name)
            return
        if error not in _REJOIN:
            self.owned = {}
            self.generation = -1
            self.tainted = False
            if error is not ErrorCode.ILLEGAL_GENERATION:
                self.member_id = ""
        self.later(self.world.between(0, RETRY_MS), self._rejoin)

    def subscribe(self, subscription: Subscription) -> None:
        super().subscribe(subscription)
        if self.stable:
            self._rejoin()

    def leave(self, *, for_a_while: bool) -> None:
        self.owned = {}
        self._leaving = True
        if for_a_while or not self.member_id:
            # A static member that restarts does not leave.
            self.die()
            return
        self.world.trace("leave", self.name)
        leaving = (LeavingMember(self.member_id, self.instance_id),)
        request = LeaveGroupRequest(self.group_id, leaving)
        self.rpc("group", request, _LEAVE_VERSION, lambda reply: self.die())

    def settled_at(self) -> int | None:
        return self.generation if self.stable else None

    def commit_identity(self) -> tuple[int, str] | None:
        return (self.generation, self.member_id) if self.stable else None

    def tenure_of(self, partition: TopicPartition) -> int:
        """An assignment is good for one generation."""
        return self.generation

    def topic_of(self, topic: TopicId) -> TopicImage | None:
        return self.simulation.topics.image.by_name.get(topic.decode())
