"""A group that members on both protocols join and leave, converting both ways, under every
migration policy, with writes that wait, fail or are refused (design 7, "Invariants")."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from tests.support.blocked import check_blocked
from tests.support.examples import examples
from tests.unit.interop.clients import PARTITIONS, ClassicClient, Client, ConsumerClient
from tests.unit.interop.harness import Bench
from tests.unit.interop.values import GROUP, hard_state

POLICIES = ("bidirectional", "upgrade", "downgrade", "disabled")
CLASSIC, CONSUMER = ("c1", "c2", "c3", "static"), ("m1", "m2", "static")
NAMES = st.sampled_from(sorted({*CLASSIC, *CONSUMER}))
INSTANCES = {"static": "i1"}
ROUNDS = st.sampled_from([0, 1, 2, 3, 10])
CONVERGES_WITHIN_ROUNDS = 120


class Migration(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.clients: dict[str, Client] = {}
        self.dead: list[Client] = []
        self.eager = False
        self.epoch: tuple[object, int] | None = None
        self.made = 0
        self.took_over = False

    @initialize(
        policy=st.sampled_from(POLICIES),
        eager=st.booleans(),
        interval=st.sampled_from([0, 1000]),
        first=st.lists(NAMES, max_size=3),
    )
    def start(self, policy: str, eager: bool, interval: int, first: list[str]) -> None:
        self.bench = Bench(
            consumer_migration_policy=policy, consumer_assignment_interval_ms=interval
        )
        self.eager = eager
        for name in first:
            if name in CLASSIC:
                self.start_classic(name, 10)
            else:
                self.start_consumer(name, 10)

    # Members

    @rule(name=st.sampled_from(CLASSIC), rounds=ROUNDS)
    def start_classic(self, name: str, rounds: int) -> None:
        """A process starts; a static one perhaps in the place of one that died."""
        self.replace(name, ClassicClient(self.bench, self.eager, INSTANCES.get(name)))
        self.everybody_steps(rounds)

    @rule(name=st.sampled_from(CONSUMER), rounds=ROUNDS)
    def start_consumer(self, name: str, rounds: int) -> None:
        self.made += 1
        member_id = f"{name}-{self.made}"
        self.replace(name, ConsumerClient(self.bench, member_id, INSTANCES.get(name)))
        self.everybody_steps(rounds)

    def replace(self, name: str, client: Client) -> None:
        before = self.clients.get(name)
        if before is not None and not before.stopped and not before.instance:
            return
        if before is not None:
            self.dead.append(before)
            self.took_over |= before.instance is not None
        self.clients[name] = client
        self.step_one(name)

    @rule(names=st.lists(NAMES, min_size=1, max_size=4))
    def step(self, names: list[str]) -> None:
        for name in names:
            if name in self.clients:
                self.step_one(name)

    @rule(rounds=ROUNDS)
    def everybody_steps(self, rounds: int) -> None:
        for _ in range(rounds):
            for name in sorted(self.clients):
                self.step_one(name)
            self.bench.advance(100)
            self.epochs_do_not_go_back()

    def step_one(self, name: str) -> None:
        self.clients[name].step()
        self.epochs_do_not_go_back()

    @rule(name=NAMES, for_a_while=st.booleans(), rounds=ROUNDS)
    def leave(self, name: str, for_a_while: bool, rounds: int) -> None:
        client = self.clients.get(name)
        if client is None or client.stopped:
            return
        if isinstance(client, ClassicClient):
            client.leave()
        elif isinstance(client, ConsumerClient):
            client.leave(-2 if for_a_while and client.instance else -1)
        self.epochs_do_not_go_back()
        self.everybody_steps(rounds)

    @rule(name=NAMES)
    def crash(self, name: str) -> None:
        if name in self.clients:
            self.dead.append(self.clients.pop(name))

    # The world

    @rule(ms=st.sampled_from([1_000, 9_000, 31_000, 46_000]))
    def time_passes(self, ms: int) -> None:
        self.bench.advance(ms)

    @rule(how=st.sampled_from(["wait", "end", "end", "fail"]))
    def appends(self, how: str) -> None:
        self.bench.hold = how == "wait"
        if how == "end":
            self.bench.commit()
        elif how == "fail":
            self.bench.fail()
            self.epoch = None

    # Invariants

    @invariant()
    def whoever_waits_says_what_for(self) -> None:
        check_blocked(self.bench.state, self.bench.now)

    @invariant()
    def nothing_parked_is_lost(self) -> None:
        expected = {token for outcome, _ in self.bench.pending for token, _ in outcome.replies}
        group = self.bench.state.groups.get(GROUP)
        if isinstance(group, ClassicGroup):
            for member in group.members.values():
                expected |= {member.join_token, member.sync_token}  # type: ignore[arg-type]
        assert self.bench.unanswered() <= expected

    @invariant()
    def one_owner_each(self) -> None:
        """No partition has two owners. If an answer under way takes one from a classic member, that
        counts as given up, as in Kafka: a conversion may give it to others at once."""
        members: Any = getattr(self.bench.state.groups.get(GROUP), "members", {})
        seen: set[int] = set()
        for client in (*self.clients.values(), *self.dead):
            if client.member_id in members:
                assert seen.isdisjoint(client.holds)
                seen |= client.holds

    @invariant()
    def coordinator_gives_each_partition_once(self) -> None:
        group = self.bench.state.groups.get(GROUP)
        if not isinstance(group, ConsumerGroup):
            return
        held = [
            (topic, partition)
            for member in group.members.values()
            for holdings in (member.assigned, member.pending_revocation)
            for topic, partitions in holdings.items()
            for partition in partitions
        ]
        assert len(held) == len(set(held))

    @invariant()
    def epochs_do_not_go_back(self) -> None:
        """They do not as long as the group has members, through every conversion."""
        group = self.bench.state.groups.get(GROUP)
        if group is None or group.is_empty():
            self.epoch = None
            return
        assert isinstance(group, ClassicGroup | ConsumerGroup)
        epoch = group.generation if isinstance(group, ClassicGroup) else group.group_epoch
        if self.epoch is not None:
            assert epoch >= self.epoch[1]
        self.epoch = (type(group), epoch)
        if isinstance(group, ConsumerGroup):
            assert group.assignment_epoch <= epoch
            for member in group.members.values():
                assert member.member_epoch <= group.assignment_epoch

    @invariant()
    def log_gives_the_same_state(self) -> None:
        if self.bench.pending:
            return
        live, logged = hard_state(self.bench.state), hard_state(self.bench.replayed())
        group = self.bench.state.groups.get(GROUP)
        if isinstance(group, ClassicGroup) and group.state not in (State.STABLE, State.EMPTY):
            # In a rebalance memory is ahead of the log (docs/spec/classic-group.md#5).
            assert logged[GROUP]["generation"] <= group.generation
            return
        assert live == logged

    # The end

    def teardown(self) -> None:
        self.bench.hold = False
        self.bench.commit()
        for _ in range(CONVERGES_WITHIN_ROUNDS):
            for name in sorted(self.clients):
                self.step_one(name)
            self.bench.advance(1_000)
            self.nothing_parked_is_lost()
            self.one_owner_each()
            self.epochs_do_not_go_back()
            if self.is_settled():
                self.log_gives_the_same_state()
                return
        raise AssertionError(f"not settled: {self.describe()}")

    def is_settled(self) -> bool:
        live = [client for client in self.clients.values() if not client.stopped]
        group: Any = self.bench.state.groups.get(GROUP)
        if not live:
            return True
        owned = sorted(p for client in live for p in client.owned)
        ids = {client.member_id for client in live}
        # A static member that takes over between the two rebalances of a cooperative handover has
        # nothing to give up: nobody asks for the second one. Real groups wait for the next change.
        half_way = not self.eager and isinstance(group, ClassicGroup) and self.took_over
        return (
            (owned == list(PARTITIONS) or half_way)
            and all(client.settled for client in live)
            and group is not None
            and group.state_name() == "Stable"
            and set(group.members) == ids
        )

    def describe(self) -> str:
        group: Any = self.bench.state.groups.get(GROUP)
        state = None if group is None else (type(group), group.state_name(), group.members)
        return f"{state} {[(name, vars(one)) for name, one in sorted(self.clients.items())]}"


Migration.TestCase.settings = examples(
    100,
    stateful_step_count=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestMigration = Migration.TestCase


def test_an_upgrade_in_an_interrupted_rebalance_frees_nothing_that_is_read() -> None:
    """The third classic member interrupts the rebalance that the second one started."""
    machine = Migration()
    machine.start(policy="bidirectional", eager=False, interval=0, first=[])
    machine.start_classic("c1", 1)
    machine.start_classic("c2", 3)
    machine.start_classic("static", 0)
    machine.start_consumer("m1", 1)
    group = machine.bench.state.groups[GROUP]
    assert isinstance(group, ConsumerGroup)
    assert machine.clients["c1"].owned == set(PARTITIONS)
    for _ in range(10):
        machine.one_owner_each()
        machine.everybody_steps(1)
    assert machine.clients["c1"].owned < set(PARTITIONS)
