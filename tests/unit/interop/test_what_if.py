"""What an assignor of the consumer protocol would do with a classic group; none of it happens."""

from __future__ import annotations

from copy import deepcopy

import pytest

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.errors import TrialRefused
from groupd.coordinator.core.group_type import AssignorTrial, Proposal
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.slices import Steps, run_through
from tests.unit.interop.harness import Bench
from tests.unit.interop.values import (
    BAR,
    FOO,
    GROUP,
    assignment,
    classic_state,
    subscription,
)

HALVES = {"a": assignment({"foo": [0, 1, 2]}), "b": assignment({"foo": [3, 4, 5]})}
COMPARED = "Compared with the assignor {} of the consumer protocol (group.protocol=consumer)."


def trial(bench: Bench) -> AssignorTrial:
    found = type_of(bench.classic).what_if
    assert found is not None
    return found


def steps(bench: Bench, name: str) -> Steps[Proposal]:
    return trial(bench).propose(bench.state, bench.classic, name)


def proposal(bench: Bench, name: str = "uniform") -> Proposal:
    return run_through(steps(bench, name))


def refusal(bench: Bench) -> str:
    """Why no assignor can be tried."""
    with pytest.raises(TrialRefused) as refused:
        proposal(bench)
    return str(refused.value)


def test_what_the_members_have_and_what_they_would_get() -> None:
    bench = Bench()
    bench.given_classic(
        5, {"a": assignment({"foo": [0, 1, 2, 3, 4]}), "b": assignment({"foo": [5]})}
    )
    found = proposal(bench)
    assert found.current == {"a": {FOO: (0, 1, 2, 3, 4)}, "b": {FOO: (5,)}}
    # `uniform` leaves a member what it may keep.
    assert found.proposed["a"][FOO] == (0, 1, 2)
    assert found.proposed["b"][FOO] == (3, 4, 5)
    assert found.compared == "Now: assigned by its members with range. " + COMPARED.format(
        "uniform"
    )


def test_the_same_assignor_moves_nothing() -> None:
    bench = Bench()
    bench.given_classic(5, HALVES)
    found = proposal(bench, "range")
    assert found.proposed == found.current
    assert found.compared.endswith(COMPARED.format("range"))
    assert trial(bench).used(bench.state, bench.classic) is None


def test_nothing_changes() -> None:
    bench = Bench()
    bench.given_classic(5, HALVES)
    before = deepcopy(classic_state(bench.classic))
    deadlines = {kind: bench.due("classic-session", kind) for kind in HALVES}
    written = len(bench.log)
    proposal(bench)
    assert bench.state.groups.keys() == {GROUP}
    assert classic_state(bench.classic) == before
    assert {kind: bench.due("classic-session", kind) for kind in HALVES} == deadlines
    assert len(bench.log) == written


def test_every_member_gets_partitions_of_its_own_topics_only() -> None:
    bench = Bench()
    first = bench.join(topics=("foo",)).member_id
    second = bench.join(topics=("bar", "gone")).member_id
    tokens = [bench.join_token(first), bench.join_token(second, topics=("bar", "gone"))]
    bench.advance(0)
    leader = bench.replies[tokens[0]].leader
    shares = {first: assignment({"foo": range(6)}), second: assignment({"bar": range(3)})}
    bench.sync(leader, 1, assignments=shares)
    assert bench.classic.state is State.STABLE
    found = proposal(bench)
    assert found.current == {first: {FOO: (0, 1, 2, 3, 4, 5)}, second: {BAR: (0, 1, 2)}}
    assert found.proposed == found.current


def test_a_group_that_is_rebalancing_is_compared_with_what_it_had() -> None:
    bench = Bench()
    bench.given_classic(5, HALVES)
    new = bench.join().member_id
    bench.join_token(new)
    assert bench.classic.state is State.PREPARING_REBALANCE
    found = proposal(bench)
    assert found.current == {"a": {FOO: (0, 1, 2)}, "b": {FOO: (3, 4, 5)}, new: {}}
    assert sorted(len(given[FOO]) for given in found.proposed.values()) == [2, 2, 2]
    assert found.compared.startswith(
        "Now: the group is rebalancing, and these are the partitions that its members had before. "
    )


def test_an_interrupted_rebalance_leaves_what_members_said_they_own() -> None:
    """Two of them say so of partition 2, so nobody has it."""
    bench = Bench()
    ids = [bench.join().member_id for _ in range(2)]
    for member, owned in zip(ids, ([0, 1, 2], [2, 3]), strict=True):
        bench.join_token(member, owned={"foo": owned})
    bench.advance(0)
    assert bench.classic.state is State.COMPLETING_REBALANCE
    found = proposal(bench)
    assert found.current == {ids[0]: {FOO: (0, 1)}, ids[1]: {FOO: (3,)}}


def test_a_first_rebalance_is_compared_with_nothing() -> None:
    bench = Bench(group_initial_rebalance_delay_ms=3000)
    member = bench.join().member_id
    bench.join_token(member)
    found = proposal(bench)
    assert found.current == {member: {}}
    assert found.proposed == {member: {FOO: (0, 1, 2, 3, 4, 5)}}
    assert found.compared.startswith(
        "Now: the group is rebalancing, and none of its members has partitions yet. "
    )


def test_what_the_group_is_at_first_counts() -> None:
    """Members come, go and get another assignment while the work is under way."""
    bench = Bench()
    each = {f"m{number:03d}": assignment({"foo": [number]}) for number in range(6)}
    without = {f"n{number:03d}": assignment({}) for number in range(200)}
    bench.given_classic(5, each | without)
    expected = proposal(bench)
    work = steps(bench, "uniform")
    next(work)
    for member in bench.classic.members.values():
        member.assignment = HALVES["a"]
        member.protocols = ()
    bench.classic.remove("n100")
    bench.classic.generation = 6
    assert run_through(work) == expected


def test_a_group_of_another_protocol_type_is_refused() -> None:
    bench = Bench()
    bench.given_classic(5, {"a": b"\0"}, protocol_type="connect", metadata_=b"\0")
    assert refusal(bench) == (
        "the protocol type of the group is 'connect': assignors of the coordinator know members "
        "of type 'consumer' only"
    )
    with pytest.raises(TrialRefused, match="connect"):
        trial(bench).used(bench.state, bench.classic)


@pytest.mark.parametrize("group", [ClassicGroup.simple(GROUP), ClassicGroup(GROUP, generation=4)])
def test_a_group_without_members_is_refused(group: ClassicGroup) -> None:
    bench = Bench()
    bench.state.groups[GROUP] = group
    assert refusal(bench) == "the group has no members, so there is nothing to compare"
    with pytest.raises(TrialRefused, match="no members"):
        trial(bench).used(bench.state, bench.classic)


def test_a_group_that_is_larger_than_a_consumer_group_is_refused() -> None:
    bench = Bench(consumer_max_size=1)
    bench.given_classic(5, HALVES)
    assert refusal(bench) == (
        "the group has 2 members, and a consumer group may have no more than 1 "
        "(group.consumer.max.size)"
    )


@pytest.mark.parametrize(
    ("assigned", "metadata"), [(HALVES["a"], b"\0\1"), (b"\0\1\0", subscription("foo"))]
)
def test_members_that_cannot_be_read_are_refused(assigned: bytes, metadata: bytes) -> None:
    bench = Bench()
    bench.given_classic(5, {"a": assigned}, metadata_=metadata)
    assert refusal(bench).startswith("what a member sent to the others cannot be read: member a: ")


def test_an_assignment_with_data_of_the_members_assignor_is_compared_all_the_same() -> None:
    """Every group has some that a librdkafka member leads with cooperative-sticky."""
    bench = Bench()
    bench.given_classic(5, HALVES | {"a": assignment({"foo": [0, 1, 2]}, user_data=b"tasks")})
    found = proposal(bench)
    assert found.proposed == found.current == {"a": {FOO: (0, 1, 2)}, "b": {FOO: (3, 4, 5)}}
    assert found.compared.endswith(
        " The group's members have to be stopped first: the assignment carries data of their own "
        "assignor, which would be lost."
    )


def test_a_partition_of_two_members_is_refused() -> None:
    bench = Bench()
    bench.given_classic(5, {"a": HALVES["a"], "b": HALVES["a"]})
    assert refusal(bench) == "the assignment gives one partition to two members"


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_group_that_may_not_migrate_while_it_runs_is_tried_all_the_same(policy: str) -> None:
    """It may be stopped, and started on the other protocol."""
    bench = Bench(consumer_migration_policy=policy)
    bench.given_classic(5, HALVES)
    found = proposal(bench)
    assert found.proposed.keys() == HALVES.keys()
    assert found.compared.endswith(
        " The group's members have to be stopped first: "
        f"group.consumer.migration.policy is {policy}."
    )
