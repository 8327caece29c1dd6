"""A whole shard with a small stand-in for its runtime: an append log whose writes the test may
hold, fail or refuse, replies that wait for them, tokens that are answered exactly once, and two
kinds of well-formed requests: the classic protocol's and the consumer protocol's. Nothing is
mocked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group import records
from groupd.coordinator.core.consumer_group.group import TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.subscription import (
    TopicsChange,
    metadata_hash,
)
from groupd.coordinator.core.epochs import schedule_refresh
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppendError,
    AppliedAt,
    Event,
    EventKind,
    Instant,
    Outcome,
    RequestContext,
    RequestToken,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupReply,
    JoinGroupRequest,
    JoinProtocol,
    LeaveGroupReply,
    LeaveGroupRequest,
    LeavingMember,
    SyncAssignment,
    SyncGroupReply,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    Record,
)
from tests.unit.consumer_group.harness import shape
from tests.unit.interop.values import (
    BAR_TOPIC,
    FAILURES,
    FOO_TOPIC,
    GROUP,
    HOST,
    REBALANCE_MS,
    SESSION_MS,
    Failed,
    Owned,
    Protocols,
    subscription,
)


class Bench:
    """`hold`: appends stay pending until `commit()` or `fail()`. `refuse`: the next write is
    larger than a batch may be. Time stands still unless the test moves it."""

    def __init__(self, *topics: TopicImage, **settings: Any) -> None:
        settings.setdefault("consumer_assignment_interval_ms", 0)
        settings.setdefault("consumer_target_linger_ms", 0)
        settings.setdefault("group_initial_rebalance_delay_ms", 0)
        self.config = CoordinatorConfig(**settings)
        self.image = MetadataImage(topics or (FOO_TOPIC, BAR_TOPIC), version=1)
        self.log: list[Record] = []
        self.now = Instant(1_000_000, 1_700_000_000_000)
        self.hold = False
        self.refuse = False
        self.pending: list[tuple[Outcome, list[Record]]] = []
        self.replies: dict[RequestToken, Any] = {}
        self.requests: dict[RequestToken, Any] = {}
        self.events: list[Event] = []
        self.outcome = Outcome()
        self._ids = count(1)
        self._tokens = count(1)
        self.shard = self._fresh()

    def _fresh(self) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(
            ShardState(
                config=self.config,
                new_id=lambda: f"id-{next(self._ids)}",
                assignors=load_assignors(self.config.consumer_assignors),
                image=self.image,
            )
        )

    @property
    def state(self) -> ShardState:
        return self.shard.state

    # The runtime

    def settle(self, outcome: Outcome, token: RequestToken | None = None) -> None:
        """Takes in the outcome of an input; it stays in `outcome`."""
        self.outcome = outcome
        self._take_in(outcome, token)

    def _take_in(self, outcome: Outcome, token: RequestToken | None = None) -> None:
        if outcome.logged and self.refuse:
            self.refuse = False
            self._deliver(outcome.urgent)
            self._refuse(outcome, token)
            return
        if outcome.logged:
            for record in outcome.logged:
                self.shard.replay(record, AppliedAt(len(self.log)))
            self.pending.append((outcome, list(outcome.logged)))
        elif outcome.gate is not None and self.pending:
            self.pending[-1][0].replies.extend(outcome.replies)
        else:
            self._deliver(outcome.replies)
        self._deliver(outcome.urgent)
        self.events += outcome.events
        for event in outcome.events:
            if event.kind is EventKind.GROUP_CONVERTED:
                assert event.group_type == event.details["to"]
        if outcome.logged and not self.hold:
            self.commit()

    def _refuse(self, outcome: Outcome, token: RequestToken | None) -> None:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        waiting = {one for one, _ in outcome.replies} | ({token} if token is not None else set())
        for one in sorted(waiting - self.replies.keys()):
            self.replies[one] = Failed(code)
        if outcome.completion is not None:
            done = self.shard.appended(outcome.completion, AppendError(code), self.now)
            self._deliver((one, reply) for one, reply in done.urgent if one not in waiting)

    def commit(self) -> None:
        """Makes everything pending durable."""
        pending, self.pending = self.pending, []
        for outcome, written in pending:
            self.log += written
            self._deliver(outcome.replies)
            if outcome.completion is not None:
                self._take_in(self.shard.appended(outcome.completion, None, self.now))

    def fail(self) -> None:
        """The append fails: what waits is refused, the shard is rebuilt from its log."""
        code = ErrorCode.NOT_COORDINATOR
        pending, self.pending = self.pending, []
        for outcome, _ in pending:
            if outcome.completion is not None:
                error = AppendError(code)
                self._deliver(self.shard.appended(outcome.completion, error, self.now).urgent)
            for token, _ in outcome.replies:
                self._deliver([(token, Failed(code))])
        self._deliver(self.shard.unload().urgent)
        self.reload()

    def reload(self) -> None:
        """Loads the same log under a new owner."""
        assert not self.pending
        self.shard = self._fresh()
        for offset, record in enumerate(self.log):
            self.shard.replay(record, AppliedAt(offset))
        self.settle(self.shard.on_loaded(self.now))

    def _deliver(self, replies: Iterable[tuple[RequestToken, Any]]) -> None:
        for token, reply in replies:
            assert token in self.requests, "a reply to nobody"
            assert token not in self.replies, "answered twice"
            self.replies[token] = reply

    def send(self, request: Any, version: int, client: str = "c") -> RequestToken:
        token = next(self._tokens)
        self.requests[token] = request
        context = RequestContext(token, version, client, HOST)
        try:
            outcome = self.shard.handle(context, request, self.now)
        except ApiError as error:
            self.outcome = Outcome()
            self._deliver([(token, FAILURES[type(request)](request, error))])
        else:
            self.settle(outcome, token)
            self._share_targets()
        return token

    def _share_targets(self) -> None:
        """Fires the targets that are due at once, without a linger. What that leads to is added to
        `outcome`."""
        due = self.state.deadlines.items()
        for key in [key for key, at_ms in due if key[0] == TARGET and at_ms <= self._now_ms]:
            self.state.deadlines.cancel(key)
            before, more = self.outcome, self.shard.expire(key, self.now)
            self._take_in(more)
            self.outcome = Outcome(
                records=before.records + more.records,
                replies=before.replies + more.replies,
                events=before.events + more.events,
            )

    @property
    def _now_ms(self) -> int:
        return self.now.monotonic_ms

    def advance(self, ms: int) -> None:
        """Lets time pass; what is due fires."""
        until = self.now.monotonic_ms + ms
        while (at_ms := self.shard.next_deadline()) is not None and at_ms <= until:
            self._move(max(at_ms, self.now.monotonic_ms))
            for key in self.shard.pop_due(at_ms):
                self.settle(self.shard.expire(key, self.now))
        self._move(until)

    def _move(self, to_ms: int) -> None:
        by = to_ms - self.now.monotonic_ms
        self.now = Instant(to_ms, self.now.wall_ms + by)

    def unanswered(self) -> set[RequestToken]:
        return self.requests.keys() - self.replies.keys()

    # Requests

    def join_token(
        self,
        member: str = "",
        *,
        topics: Iterable[str] = ("foo",),
        owned: Owned | None = None,
        protocols: Protocols | None = None,
        instance: str | None = None,
        version: int = 9,
        protocol_type: str = "consumer",
        session: int = SESSION_MS,
        rebalance: int = REBALANCE_MS,
        client: str = "c",
    ) -> RequestToken:
        if protocols is None:
            protocols = (("range", subscription(*topics, owned=owned)),)
        offered = tuple(JoinProtocol(name, data) for name, data in protocols)
        request = JoinGroupRequest(
            GROUP, session, rebalance, member, protocol_type, offered, instance
        )
        return self.send(request, version, client)

    def join(self, member: str = "", **options: Any) -> JoinGroupReply:
        reply = self.replies[self.join_token(member, **options)]
        assert isinstance(reply, JoinGroupReply)
        return reply

    def sync_token(
        self,
        member: str,
        generation: int,
        *,
        instance: str | None = None,
        name: str | None = None,
        protocol_type: str | None = None,
        assignments: Mapping[str, bytes] | None = None,
    ) -> RequestToken:
        entries = tuple(SyncAssignment(*pair) for pair in (assignments or {}).items())
        request = SyncGroupRequest(
            GROUP, generation, member, instance, protocol_type, name, entries
        )
        return self.send(request, 5)

    def sync(self, member: str, generation: int, **options: Any) -> SyncGroupReply:
        reply = self.replies[self.sync_token(member, generation, **options)]
        assert isinstance(reply, SyncGroupReply)
        return reply

    def classic_beat_token(
        self, member: str, generation: int, instance: str | None = None
    ) -> RequestToken:
        return self.send(HeartbeatRequest(GROUP, generation, member, instance), 4)

    def classic_beat(self, member: str, generation: int, instance: str | None = None) -> ErrorCode:
        code: ErrorCode = self.replies[self.classic_beat_token(member, generation, instance)].error
        return code

    def leave_token(self, *entries: tuple[str, str | None]) -> RequestToken:
        members = tuple(LeavingMember(member, instance) for member, instance in entries)
        return self.send(LeaveGroupRequest(GROUP, members), 5)

    def leave(self, *entries: tuple[str, str | None]) -> list[ErrorCode]:
        reply = self.replies[self.leave_token(*entries)]
        assert isinstance(reply, LeaveGroupReply)
        assert reply.error is ErrorCode.NONE
        return [entry.error for entry in reply.members]

    def beat_token(
        self,
        member: str,
        epoch: int,
        *,
        topics: Iterable[str] | None = None,
        owned: Mapping[bytes, Iterable[int]] | None = None,
        instance: str | None = None,
        regex: str | None = None,
    ) -> RequestToken:
        """Sends a heartbeat of the consumer protocol; epoch 0 subscribes to foo unless told
        otherwise."""
        if epoch == 0:
            topics, owned = ("foo",) if topics is None else topics, {}
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            member,
            epoch,
            instance_id=instance,
            rebalance_timeout_ms=REBALANCE_MS if epoch == 0 else -1,
            subscribed_topic_names=None if topics is None else tuple(topics),
            subscribed_topic_regex=regex,
            topic_partitions=(
                None
                if owned is None
                else tuple(TopicPartitions(one, tuple(its)) for one, its in owned.items())
            ),
        )
        return self.send(request, 1)

    def beat(self, member: str, epoch: int, **options: Any) -> ConsumerGroupHeartbeatReply:
        reply = self.replies[self.beat_token(member, epoch, **options)]
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        return reply

    # Given states

    def write(self, *written: Record) -> None:
        for record in written:
            self.shard.replay(record, AppliedAt(len(self.log)))
            self.log.append(record)

    def given_classic(
        self,
        generation: int,
        assigned: Mapping[str, bytes],
        *,
        protocol_type: str = "consumer",
        instances: Mapping[str, str] | None = None,
        metadata_: bytes | None = None,
    ) -> None:
        """A stable classic group on foo with freshly loaded timers."""
        members = tuple(
            GroupMetadataMember(
                member,
                (instances or {}).get(member),
                "c",
                HOST,
                REBALANCE_MS,
                SESSION_MS,
                subscription("foo") if metadata_ is None else metadata_,
                assigned[member],
            )
            for member in sorted(assigned)
        )
        value = GroupMetadataValue(
            protocol_type, generation, "range", min(assigned), self.now.wall_ms, members
        )
        self.write(Record(GroupMetadataKey(GROUP), value))
        self.settle(self.shard.on_loaded(self.now))

    def given_consumer(
        self,
        *members: ConsumerGroupMember,
        epoch: int = 10,
        targets: Mapping[str, Mapping[bytes, Any]] | None = None,
    ) -> None:
        """A consumer group at one epoch; targets are what the members have unless told."""
        for member in members:
            self.write(records.member_metadata(GROUP, member))
            self.write(records.current_member(GROUP, member))
        found = metadata_hash(self.consumer, self.image, TopicsChange())
        self.write(records.group_epoch(GROUP, epoch, found))
        for member in members:
            stored = (targets or {}).get(member.member_id, member.assigned)
            target = {one: tuple(sorted(its)) for one, its in stored.items()}
            self.write(records.target_member(GROUP, member.member_id, target))
        self.write(records.target_epoch(GROUP, epoch, 0))
        schedule_refresh(self.consumer, epoch, self.now)
        self.settle(self.shard.on_loaded(self.now))

    # What is there

    @property
    def consumer(self) -> ConsumerGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    @property
    def classic(self) -> ClassicGroup:
        group = self.state.groups[GROUP]
        assert isinstance(group, ClassicGroup)
        return group

    def shape(self) -> list[str]:
        """Records of the last outcome: R5 = value of type 5, T5 = its tombstone."""
        return shape(self.outcome.records)

    def due(self, kind: str, member: str = "") -> int | None:
        """The milliseconds until a deadline; None if it is not set."""
        at_ms = self.state.deadlines.due((kind, GROUP, member))
        return None if at_ms is None else at_ms - self.now.monotonic_ms

    def event_kinds(self) -> list[EventKind]:
        return [event.kind for event in self.outcome.events]

    def replayed(self) -> ShardState:
        """What the log builds from nothing."""
        shard = self._fresh()
        for offset, record in enumerate(self.log):
            shard.replay(record, AppliedAt(offset))
        return shard.state
