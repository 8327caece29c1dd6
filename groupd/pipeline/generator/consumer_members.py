"""Members of a KIP-848 group. The real coordinator's core answers their heartbeats in virtual time,
so its records are what a coordinator writes."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.core.consumer_group.group import (
    ANSWER,
    SESSION,
    TARGET,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.member import (
    LEAVE_STATIC_EPOCH,
    MemberState,
)
from groupd.coordinator.core.consumer_group.soft_state import soft_of
from groupd.coordinator.core.epochs import LEAVE_EPOCH
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.shard_requests import DeleteGroup
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt, Instant, Outcome, RequestContext, Task
from groupd.pipeline.generator.script import (
    Act,
    EncodedRecord,
    GeneratedWorld,
    GroupPlan,
    Op,
    ScriptStep,
    client_host,
    member_uuid,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import Record

HEARTBEAT_MS = 5000
REBALANCE_TIMEOUT_MS = 300_000
_ROUNDS_MAX = 40


class _ConsumerClient:
    """What a consumer knows about itself."""

    __slots__ = ("assignment", "epoch", "member_id", "next_ms", "number", "owned")

    def __init__(self, number: int, member_id: str, next_ms: int) -> None:
        self.number = number
        self.member_id = member_id
        self.epoch = 0
        self.owned: tuple[TopicPartitions, ...] = ()
        self.assignment: tuple[TopicPartitions, ...] | None = None
        self.next_ms = next_ms


class ConsumerMembers:
    """The members of a consumer group. See `members.Members`."""

    def __init__(self, plan: GroupPlan, world: GeneratedWorld, rng: Random) -> None:
        self._plan = plan
        self._rng = rng
        used = [world.topics[number] for number in sorted({p.topic for p in plan.places})]
        self._names = tuple(sorted(topic.name for topic in used))
        self._places = {
            (world.topics[place.topic].topic_id, place.partition): number
            for number, place in enumerate(plan.places)
        }
        images = [TopicImage(topic.topic_id, topic.name, topic.partitions) for topic in used]
        config = CoordinatorConfig(consumer_assignment_interval_ms=0, consumer_target_linger_ms=0)
        state = ShardState(
            config,
            lambda: member_uuid(rng),
            load_assignors(config.consumer_assignors),
            MetadataImage(images, version=1),
        )
        self._shard = GroupCoordinatorShard(state)
        self._clients: dict[int, _ConsumerClient] = {}
        self._silent: set[int] = set()
        self._written = 0

    def apply(self, op: Op) -> Iterator[ScriptStep]:
        if op.act is Act.JOIN:
            self._silent.discard(op.member)
            client = _ConsumerClient(op.member, member_uuid(self._rng), op.at_ms)
            self._clients[op.member] = client
            yield self._beat(client, op.at_ms)
        elif op.act is Act.MUTE:
            self._silent.add(op.member)
            yield ScriptStep(op.at_ms, (), self._owners())
        elif op.act is Act.DELETE:
            request = DeleteGroup(self._plan.name)
            yield self._step(self._shard.handle(self._context(0), request, _at(op.at_ms)), op.at_ms)
        else:
            client = self._clients.pop(op.member)
            if op.act is Act.FENCE:
                key = (SESSION, self._plan.name, client.member_id)
                yield self._step(self._shard.expire(key, _at(op.at_ms)), op.at_ms)
            else:
                epoch = LEAVE_STATIC_EPOCH if op.act is Act.AWAY else LEAVE_EPOCH
                yield self._step(self._send(client, epoch, op.at_ms), op.at_ms)

    def settle(self, from_ms: int, until_ms: int) -> Iterator[ScriptStep]:
        """Sends heartbeats until every member has its target assignment, or until time is up."""
        clients = [c for c in self._clients.values() if c.number not in self._silent]
        for client in clients:
            client.next_ms = max(
                client.next_ms, from_ms + self._rng.randrange(1, HEARTBEAT_MS), from_ms + 1
            )
        for _ in range(_ROUNDS_MAX * max(len(clients), 1)):
            if self._is_settled(clients):
                return
            client = min(clients, key=lambda one: (one.next_ms, one.number))
            if client.next_ms >= until_ms:
                return
            step = self._beat(client, client.next_ms)
            if step.records:
                yield step

    def close(self) -> None:
        self._shard.discard()

    def _is_settled(self, clients: list[_ConsumerClient]) -> bool:
        group = self._shard.state.groups.get(self._plan.name)
        if not isinstance(group, ConsumerGroup):
            return True
        if soft_of(self._shard.state).regex_tasks:
            return False
        members = (group.members[client.member_id] for client in clients)
        return group.group_epoch == group.assignment_epoch and all(
            member.member_epoch == group.group_epoch and member.state is MemberState.STABLE
            for member in members
        )

    def _beat(self, client: _ConsumerClient, at_ms: int) -> ScriptStep:
        step, (reply,) = self._done(self._send(client, client.epoch, at_ms), at_ms)
        assert isinstance(reply, ConsumerGroupHeartbeatReply)
        client.epoch = reply.member_epoch
        client.next_ms = at_ms + HEARTBEAT_MS
        client.assignment = reply.assignment
        if reply.assignment is not None and reply.assignment != client.owned:
            # Closing lost partitions and opening new ones takes a moment; then the member reports
            # it.
            client.next_ms = at_ms + self._rng.randrange(80, 2500)
        return step

    def _send(self, client: _ConsumerClient, epoch: int, at_ms: int) -> Outcome:
        joins = epoch == 0
        tells = joins or client.assignment is not None
        if client.assignment is not None:
            client.owned = client.assignment
        plan = self._plan
        request = ConsumerGroupHeartbeatRequest(
            plan.name,
            client.member_id,
            epoch,
            instance_id=f"{plan.name}-{client.number}" if plan.static else None,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if joins else -1,
            subscribed_topic_names=self._names if joins and not plan.regex else None,
            subscribed_topic_regex=plan.regex if joins and plan.regex else None,
            server_assignor=plan.assignor if joins else None,
            topic_partitions=client.owned if tells else None,
        )
        return self._shard.handle(self._context(client.number), request, _at(at_ms))

    def _context(self, number: int) -> RequestContext:
        return RequestContext(0, 1, f"{self._plan.name}-{number}", client_host(number))

    def _step(self, outcome: Outcome, at_ms: int) -> ScriptStep:
        return self._done(outcome, at_ms)[0]

    def _done(self, outcome: Outcome, at_ms: int) -> tuple[ScriptStep, list[Any]]:
        """Everything that an outcome leads to at the same time, as one step, and the replies."""
        records: list[EncodedRecord] = []
        replies: list[Any] = []
        tasks: list[Task] = []
        more: Outcome | None = outcome
        while more is not None:
            records += self._replayed(more)
            replies += [reply for _, reply in more.replies]
            tasks += more.tasks
            more = self._next(tasks, at_ms)
        return ScriptStep(at_ms, tuple(records), self._owners()), replies

    def _next(self, tasks: list[Task], at_ms: int) -> Outcome | None:
        """The outcome of the first of `tasks`, or else of a deadline for a target or an answer,
        which is due at once because nothing lingers here. None if nothing is left to do."""
        if tasks:
            task = tasks.pop(0)
            return self._shard.task_done(task, run_through(task.steps()), _at(at_ms))
        for kind in (TARGET, ANSWER):
            key = (kind, self._plan.name, "")
            if self._shard.state.deadlines.cancel(key):
                return self._shard.expire(key, _at(at_ms))
        return None

    def _replayed(self, outcome: Outcome) -> Iterator[EncodedRecord]:
        for record in outcome.records:
            self._shard.replay(record, AppliedAt(self._written))
            self._written += 1
            yield encoded(record)

    def _owners(self) -> tuple[int, ...]:
        owners = [-1] * len(self._plan.places)
        group = self._shard.state.groups.get(self._plan.name)
        if isinstance(group, ConsumerGroup):
            for client in self._clients.values():
                member = group.members.get(client.member_id)
                if member is None or client.number in self._silent:
                    continue
                for topic_id, partitions in member.assigned.items():
                    for partition in partitions:
                        place = self._places.get((topic_id, partition))
                        if place is not None:
                            owners[place] = client.number
        return tuple(owners)


def encoded(record: Record) -> EncodedRecord:
    return encode_key(record.key), encode_value(record)


def _at(at_ms: int) -> Instant:
    return Instant(at_ms, at_ms)
