"""Invariants of consumer groups under any order of joins, heartbeats, leaves, failures and
metadata changes (design 7)."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH, ConsumerGroupMember
from groupd.protocol.errors import ApiError, ErrorCode
from tests.support.blocked import check_blocked
from tests.support.examples import examples
from tests.unit.consumer_group.harness import (
    BAR,
    FOO,
    GROUP,
    Shard,
    owned,
    parts,
    replayed,
    snapshot,
    topic,
)

MEMBERS = ("m1", "m2", "m3", "m4")
SUBSCRIPTIONS = st.sampled_from([["foo"], ["bar"], ["foo", "bar"], []])
INSTANCES = {"m3": "i1", "m4": "i1"}


class Client:
    """A well-behaved consumer: it owns what it was last told."""

    def __init__(self) -> None:
        self.epoch = 0
        self.owns: dict[bytes, list[int]] = {}

    def take(self, reply: Any) -> None:
        self.epoch = reply.member_epoch
        told = parts(reply.assignment)
        if told is not None:
            self.owns = told


class ConsumerGroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shard = Shard(topic("foo", FOO, 3), topic("bar", BAR, 2))
        self.clients: dict[str, Client] = {}
        self.epochs = (0, 0)

    def group_members(self) -> dict[str, ConsumerGroupMember]:
        return self.shard.group.members if GROUP in self.shard.state.groups else {}

    def send(self, member: str, epoch: int, **fields: Any) -> None:
        client = self.clients.get(member) or Client()
        if member in INSTANCES:
            fields["instance"] = INSTANCES[member]
        try:
            client.take(self.shard.beat(epoch, member, **fields))
        except ApiError as error:
            if error.code is not ErrorCode.UNRELEASED_INSTANCE_ID:
                # Fenced or unknown: drop everything and join again.
                self.clients[member] = Client()
        else:
            self.clients[member] = client

    @rule(member=st.sampled_from(MEMBERS), names=SUBSCRIPTIONS)
    def join(self, member: str, names: list[str]) -> None:
        self.send(member, 0, names=names)

    @rule(member=st.sampled_from(MEMBERS))
    def join_with_an_expression(self, member: str) -> None:
        self.send(member, 0, names=[], regex="(foo|bar)")

    @precondition(lambda self: self.shard.outcome.tasks)
    @rule()
    def resolve(self) -> None:
        self.shard.finish_task()

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), reports=st.booleans())
    def heartbeat(self, data: st.DataObject, reports: bool) -> None:
        member = data.draw(st.sampled_from(sorted(self.clients)))
        client = self.clients[member]
        self.send(member, client.epoch, owned=owned(client.owns) if reports else None)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), names=SUBSCRIPTIONS)
    def resubscribe(self, data: st.DataObject, names: list[str]) -> None:
        member = data.draw(st.sampled_from(sorted(self.clients)))
        self.send(member, self.clients[member].epoch, names=names)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data: st.DataObject, for_a_while: bool) -> None:
        member = data.draw(st.sampled_from(sorted(self.clients)))
        away = for_a_while and member in INSTANCES
        self.send(member, LEAVE_STATIC_EPOCH if away else -1)
        self.clients.pop(member, None)

    @rule(ms=st.sampled_from([1, 11_000, 46_000]))
    def time_passes(self, ms: int) -> None:
        self.shard.advance(ms)
        self.shard.fire()
        live = self.group_members()
        self.clients = {one: its for one, its in self.clients.items() if one in live}

    @rule(foo=st.integers(3, 4), bar=st.booleans())
    def metadata_changes(self, foo: int, bar: bool) -> None:
        topics = [topic("foo", FOO, foo)] + ([topic("bar", BAR, 2)] if bar else [])
        self.shard.topics(*topics)

    @invariant()
    def whoever_waits_says_what_for(self) -> None:
        check_blocked(self.shard.state, self.shard.now)

    @invariant()
    def replay_gives_the_live_state(self) -> None:
        assert snapshot(replayed(self.shard)) == snapshot(self.shard.state)

    @invariant()
    def a_partition_has_one_owner(self) -> None:
        seen: set[tuple[bytes, int]] = set()
        for member in self.group_members().values():
            for holdings in (member.assigned, member.pending_revocation):
                for topic_id, partitions in holdings.items():
                    for partition in partitions:
                        assert (topic_id, partition) not in seen
                        seen.add((topic_id, partition))
                        epoch = self.shard.group.partition_epochs.get(topic_id, partition)
                        assert epoch == member.member_epoch

    @invariant()
    def epochs_only_grow_and_keep_their_order(self) -> None:
        if GROUP not in self.shard.state.groups:
            return
        group = self.shard.group
        assert group.group_epoch >= self.epochs[0]
        assert group.assignment_epoch >= self.epochs[1]
        self.epochs = (group.group_epoch, group.assignment_epoch)
        assert group.assignment_epoch <= group.group_epoch
        for member in group.members.values():
            assert member.member_epoch <= group.assignment_epoch

    @invariant()
    def every_member_has_a_deadline(self) -> None:
        for member in self.group_members():
            assert self.shard.due("session", member) is not None

    def teardown(self) -> None:
        """Ends the faults: every member that is present settles within a few heartbeats."""
        self.shard.topics(topic("foo", FOO, 4), topic("bar", BAR, 2))
        self.shard.advance(11_000)
        for _ in range(12):
            for member in sorted(self.clients):
                client = self.clients[member]
                self.send(member, client.epoch, owned=owned(client.owns))
                if self.shard.outcome.tasks:
                    self.shard.finish_task()
            self.shard.advance(1)
        members = self.group_members()
        if members and members.keys() <= self.clients.keys():
            assert self.shard.group.state_name() == "Stable"


TestConsumerGroup = ConsumerGroupMachine.TestCase
TestConsumerGroup.settings = examples(
    150, stateful_step_count=25, suppress_health_check=[HealthCheck.too_slow]
)
