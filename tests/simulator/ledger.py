"""What was promised to clients, held against what is on disk.

`note` sees every durable record, `before` every request as it is handled, `released` every reply
as it leaves. A reply must rest on durable records only; an accepted commit must come from a member
in good standing; commits of a partition follow its owners, never back to an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH
from groupd.coordinator.core.group import Group
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    JoinGroupReply,
    JoinGroupRequest,
    SyncGroupReply,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)
from groupd.protocol.messages.groups import DeleteGroupsRequest
from groupd.protocol.messages.offsets import (
    OffsetCommitReply,
    OffsetCommitRequest,
    OffsetFetchReply,
)
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
)
from tests.simulator.client import Client, TopicPartition
from tests.simulator.network import Call
from tests.simulator.plan import assigned_partitions
from tests.simulator.world import Violation

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation

Holding = tuple[int, frozenset[TopicPartition]]


@dataclass(slots=True)
class Commit:
    """A commit that a client sends. Its offset is its place among all commits, so it is unique in a
    run and names the commit."""

    client: Client
    life: int
    place: TopicPartition
    tenure: int


@dataclass(frozen=True, slots=True)
class HeartbeatFacts:
    """The facts about a heartbeat at the time when it was handled. `said_before`: the number of
    records about the member that were in the log by then. `must_pass`: whether the member's epoch
    is valid; None where another rule decides."""

    said_before: int
    must_pass: bool | None


class Ledger:
    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._commits: list[Commit] = []
        self._durable_offsets: set[int] = set()
        self._written_at_ms: dict[int, int] = {}
        self._acknowledged: dict[tuple[str, str, int], int] = {}
        self._last_tenure: dict[tuple[str, TopicPartition], Commit] = {}
        self._members: dict[tuple[str, str], list[Holding]] = {}
        self._assignments: dict[tuple[str, int], dict[str, bytes]] = {}
        self._leaders: dict[tuple[Group | None, int], str] = {}
        self._plans: dict[tuple[str, int], str] = {}
        self._generations: dict[str, int] = {}
        self.deleted_groups: set[str] = set()
        """Groups whose deletion was ever asked for."""

        self.removed_groups: set[str] = set()
        """Consumer groups that were empty once and went."""

    def new_commit(self, client: Client, place: TopicPartition, tenure: int) -> int:
        self._commits.append(Commit(client, client.life, place, tenure))
        return len(self._commits) - 1

    # Durable records

    def note(self, log_name: str, log_offset: int, record: Record) -> None:
        key, value = record.key, record.value
        if isinstance(key, ConsumerGroupCurrentMemberKey):
            history = self._members.setdefault((key.group, key.member_id), [])
            holding = _holding(value)
            if holding[0] == LEAVE_STATIC_EPOCH and history and history[-1][1] != holding[1]:
                raise Violation(f"{key} left for a while, and lost partitions")
            history.append(holding)
        elif isinstance(key, OffsetCommitKey):
            if isinstance(value, OffsetCommitValue):
                self._note_commit(key, value)
            else:
                self._note_forgotten(log_name, key)
        elif isinstance(key, GroupMetadataKey):
            self._note_generation(key, value)
        elif isinstance(key, ConsumerGroupMetadataKey) and value is None:
            self.removed_groups.add(key.group)
            self._forget_tenures(key.group)

    def _note_commit(self, key: OffsetCommitKey, value: OffsetCommitValue) -> None:
        self._durable_offsets.add(value.offset)
        self._written_at_ms[value.offset] = value.commit_timestamp_ms
        commit = self._commits[value.offset]
        if commit.place != (value.topic_id, key.partition) or self._simulation.options.mixed_groups:
            return
        place = (key.group, commit.place)
        last = self._last_tenure.get(place)
        moved_back = last is not None and commit.tenure < last.tenure
        if moved_back and not (commit.client.tainted or last.client.tainted):
            raise Violation(
                f"{key}: {commit.client.name} moved the offset back to the time before "
                f"{last.client.name} took the partition"
            )
        self._last_tenure[place] = commit

    def _forget_tenures(self, group_id: str) -> None:
        for place in [place for place in self._last_tenure if place[0] == group_id]:
            del self._last_tenure[place]

    def _note_forgotten(self, log_name: str, key: OffsetCommitKey) -> None:
        acknowledged = self._acknowledged.pop((key.group, key.topic, key.partition), None)
        if acknowledged is None or key.group in self.deleted_groups:
            return
        commit = self._commits[acknowledged]
        if commit.place[0] in self._simulation.topics.deleted:
            return
        if not self._has_expired(log_name, key, acknowledged):
            raise Violation(f"{key}: acknowledged offset {acknowledged} is dropped")

    def _has_expired(self, log_name: str, key: OffsetCommitKey, offset: int) -> bool:
        """Whether an offset is old enough, as far as the clock can be trusted, and of no subscribed
        topic."""
        simulation = self._simulation
        group = simulation.shadow.shard(log_name).state.groups.get(key.group)
        if isinstance(group, ConsumerGroup) and group.is_subscribed_to(key.topic):
            return False
        age_ms = simulation.world.now_ms + simulation.wall_offset_ms - self._written_at_ms[offset]
        retention_ms = simulation.config.offsets_retention_minutes * 60_000
        return age_ms >= retention_ms or simulation.options.wall_jump_every_ms > 0

    def _note_generation(self, key: GroupMetadataKey, value: Any) -> None:
        if not isinstance(value, GroupMetadataValue):
            self._generations.pop(key.group, None)
            self._forget_tenures(key.group)
            for known in [place for place in self._plans if place[0] == key.group]:
                del self._plans[known]
            return
        if value.generation < self._generations.get(key.group, 0):
            raise Violation(f"the generation of {key.group} went back to {value.generation}")
        self._generations[key.group] = value.generation
        known_ = self._assignments.setdefault((key.group, value.generation), {})
        for member in value.members:
            known_[member.member_id] = member.assignment

    # Requests

    def before(self, call: Call) -> None:
        request = call.request
        if isinstance(request, OffsetCommitRequest):
            call.facts = self._may_commit(call, request)
        elif isinstance(request, ConsumerGroupHeartbeatRequest):
            history = self._members.get((request.group_id, request.member_id), ())
            call.facts = HeartbeatFacts(len(history), self._must_pass(call, request))
        elif isinstance(request, DeleteGroupsRequest):
            self.deleted_groups.update(request.group_ids)

    def _may_commit(self, call: Call, request: OffsetCommitRequest) -> bool:
        """The rule in its own words: the member is there and has had the partition since the
        epoch it speaks of; a classic one speaks of the current generation."""
        group = call.connection.process.group(request.group_id)
        said = request.generation_or_epoch
        if isinstance(group, ClassicGroup):
            return request.member_id in group.members and said == group.generation
        if not isinstance(group, ConsumerGroup):
            return False
        member = group.members.get(request.member_id)
        if member is None or said > member.member_epoch:
            return False
        if said == member.member_epoch:
            return True
        image = call.connection.process.broker.image
        for topic in request.topics:
            known = image.by_name.get(topic.name) if topic.name else image.by_id.get(topic.topic_id)
            if known is None:
                # Refused by itself, and of no account for the rest.
                continue
            held = dict(member.pending_revocation.get(known.topic_id, {}))
            held.update(member.assigned.get(known.topic_id, {}))
            for entry in topic.partitions:
                since = held.get(entry.partition)
                if entry.partition < known.partitions and (since is None or said < since):
                    return False
        return True

    def _must_pass(self, call: Call, request: ConsumerGroupHeartbeatRequest) -> bool | None:
        """A member passes with its epoch, and with the one before if it may have missed a reply:
        then it owns nothing but what it was given. Nobody takes an instance that is in use."""
        runtime = call.connection.process.shard_of(request.group_id)
        group = call.connection.process.group(request.group_id)
        active = runtime is not None and runtime.state is CoordinatorState.ACTIVE
        if not active or not isinstance(group, ConsumerGroup):
            return None
        if request.member_epoch == 0:
            owner = group.static_member(request.instance_id) if request.instance_id else None
            taken = owner is not None and owner.classic is None
            return False if taken and owner.member_epoch != LEAVE_STATIC_EPOCH else None
        member = group.members.get(request.member_id)
        if member is None or request.member_epoch < 0:
            return None
        if member.instance_id != request.instance_id:
            return None
        if request.member_epoch == member.member_epoch:
            return True
        if request.member_epoch > member.member_epoch:  # also that of a static member that left
            return False
        if request.member_epoch != member.previous_member_epoch or request.topic_partitions is None:
            return False
        return all(
            number in member.assigned.get(topic.topic_id, ())
            for topic in request.topic_partitions
            for number in topic.partitions
        )

    # Replies

    def _check_fencing(self, call: Call, error: ErrorCode) -> None:
        must_pass = call.facts.must_pass
        # A heartbeat that waits for a target is looked at again when it is answered. Its client may
        # have given it up by then, and moved on with later ones.
        must_still_pass = must_pass is True and self._must_pass(call, call.request) is True
        if must_still_pass and error is ErrorCode.FENCED_MEMBER_EPOCH:
            raise Violation(f"{call.client} is fenced without need")
        if must_pass is False and error is ErrorCode.NONE:
            raise Violation(f"{call.client} was let in by mistake: {call.request}")

    def released(self, call: Call, reply: Any) -> None:
        if isinstance(reply, ConsumerGroupHeartbeatReply):
            self._check_fencing(call, reply.error)
            if reply.error is ErrorCode.NONE:
                self._check_heartbeat(call, reply)
        elif isinstance(reply, OffsetCommitReply):
            self._check_commit(call, reply)
        elif isinstance(reply, JoinGroupReply):
            if reply.error is ErrorCode.NONE:
                self._check_leader(call, reply)
        elif isinstance(reply, SyncGroupReply):
            if reply.error is ErrorCode.NONE:
                self._check_plan(call.request, reply)
        elif isinstance(reply, OffsetFetchReply):
            self._check_fetch(reply)

    def _check_heartbeat(self, call: Call, reply: ConsumerGroupHeartbeatReply) -> None:
        request: ConsumerGroupHeartbeatRequest = call.request
        history = self._members.get((request.group_id, reply.member_id or ""), [])
        if reply.member_epoch < 0:
            if not any(epoch < 0 for epoch, _ in history[call.facts.said_before :]):
                raise Violation(f"{call.client} left, but that is not durable")
            return
        told = None
        if reply.assignment is not None:
            told = frozenset(
                (t.topic_id, number) for t in reply.assignment for number in t.partitions
            )
        for epoch, assigned in reversed(history):
            if epoch == reply.member_epoch and told in (None, assigned):
                return
        raise Violation(f"{call.client} was told what is not durable: {reply}")

    def _check_commit(self, call: Call, reply: OffsetCommitReply) -> None:
        request: OffsetCommitRequest = call.request
        errors = {
            (key, entry.partition): entry.error
            for topic in reply.topics
            for entry in topic.partitions
            for key in (topic.name, topic.topic_id)
        }
        for topic in request.topics:
            for entry in topic.partitions:
                if errors[topic.name or topic.topic_id, entry.partition] is not ErrorCode.NONE:
                    continue
                if not call.facts:
                    raise Violation(f"{call.client} committed without the right to: {request}")
                if entry.offset not in self._durable_offsets:
                    raise Violation(f"commit {entry.offset} is acknowledged but not durable")
                name = topic.name or self._name_of(topic.topic_id)
                self._acknowledged[request.group_id, name, entry.partition] = entry.offset

    def _name_of(self, topic_id: bytes) -> str:
        topic = self._simulation.topics.image.by_id.get(topic_id)
        return "" if topic is None else topic.name

    def _check_leader(self, call: Call, reply: JoinGroupReply) -> None:
        request: JoinGroupRequest = call.request
        if not reply.members or reply.skip_assignment:
            return
        # A generation that was not yet durable when the shard was rebuilt is used again, and so
        # are those of a group that was deleted.
        place = (call.connection.process.group(request.group_id), reply.generation_id)
        known = self._leaders.setdefault(place, reply.leader)
        if known != reply.leader:
            raise Violation(
                f"generation {reply.generation_id} of {request.group_id} has two leaders: "
                f"{known}, {reply.leader}"
            )

    def _check_plan(self, request: SyncGroupRequest, reply: SyncGroupReply) -> None:
        if not reply.assignment or self._simulation.options.mixed_groups:
            return
        place = (request.group_id, request.generation_id)
        if self._assignments.get(place, {}).get(request.member_id) != reply.assignment:
            raise Violation(f"{request.member_id} is assigned what is not durable")
        _, plan = assigned_partitions(reply.assignment)
        if self._plans.setdefault(place, plan) != plan:
            raise Violation(f"two plans in generation {request.generation_id}: {plan}")

    def _check_fetch(self, reply: OffsetFetchReply) -> None:
        for group in reply.groups:
            for topic in group.topics:
                for entry in topic.partitions:
                    if entry.offset >= 0 and entry.offset not in self._durable_offsets:
                        raise Violation(f"offset {entry.offset} is shown but not durable")


def _holding(value: Any) -> Holding:
    if not isinstance(value, ConsumerGroupCurrentMemberValue):
        return -1, frozenset()
    assigned = frozenset((t.topic_id, number) for t in value.assigned for number in t.partitions)
    return value.member_epoch, assigned
