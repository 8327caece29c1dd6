"""JoinGroup: ids, checks, initial delay, capacity, rejoining (CL-01 to CL-24, CL-46 to CL-48)."""

from __future__ import annotations

import re

import pytest

from groupd.coordinator.core.classic_group import timers
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.classic_group.rebalance import LINGER_ROUNDS
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.types import EventKind
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply
from groupd.protocol.records.schema import GroupMetadataKey, GroupMetadataValue, Record
from tests.unit.classic_group.harness import RANGE, WALL_MS, Bench


def created(bench: Bench) -> Record:
    """The record of a group created at the bench's first moment."""
    value = GroupMetadataValue("", 0, None, None, WALL_MS + bench.now_ms)
    return Record(GroupMetadataKey("g"), value)


def test_cl_01_a_new_member_is_told_its_id_first():
    bench = Bench()
    expected = created(bench)
    reply = bench.replies[bench.join(client="app")]
    assert reply.error is ErrorCode.MEMBER_ID_REQUIRED
    assert re.fullmatch(r"app-[0-9a-f-]{36}", reply.member_id)
    assert reply.generation_id == -1
    assert bench.state_name == "Empty"
    assert bench.log == [expected]


def test_cl_01_the_answer_does_not_wait_for_the_groups_record():
    bench = Bench()
    bench.hold = True
    assert bench.pending_id()
    assert len(bench.appending) == 1


def test_cl_02_a_pending_id_joins_and_leads():
    bench = Bench()
    member_id, token = bench.enter("a")
    bench.advance(2999)
    assert bench.parked(token)
    bench.advance(1)
    reply = bench.replies[token]
    assert (reply.error, reply.generation_id, reply.leader) == (0, 1, member_id)
    assert (reply.member_id, reply.protocol_name, reply.protocol_type) == (
        member_id,
        "range",
        "consumer",
    )
    assert [(m.member_id, m.metadata) for m in reply.members] == [(member_id, b"r")]
    assert bench.state_name == "CompletingRebalance"


def test_cl_03_before_v4_there_is_no_round_trip():
    bench = Bench()
    token = bench.join(version=3)
    assert bench.parked(token)
    bench.advance(3000)
    assert (bench.replies[token].error, bench.replies[token].generation_id) == (0, 1)


def test_cl_04_an_unknown_id_makes_no_group():
    bench = Bench()
    reply = bench.replies[bench.join("x")]
    assert reply == JoinGroupReply(ErrorCode.UNKNOWN_MEMBER_ID, member_id="x")
    assert bench.state.groups == {}
    assert bench.log == []


def test_cl_04_an_unknown_id_in_a_stable_group():
    bench = Bench()
    bench.stable(1)
    assert bench.replies[bench.join("x")].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert (bench.state_name, bench.group.generation) == ("Stable", 1)


@pytest.mark.parametrize("bad", [{"protocol_type": ""}, {"protocols": ()}], ids=["type", "list"])
def test_cl_06_nothing_offered_still_writes_the_group(bad):
    bench = Bench()
    expected = created(bench)
    reply = bench.replies[bench.join(**bad)]
    assert reply.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.log == [expected]


@pytest.mark.parametrize(
    "other", [{"protocols": (("roundrobin", b""),)}, {"protocol_type": "connect"}]
)
def test_cl_07_no_common_protocol(other):
    bench = Bench()
    bench.stable(1)
    assert bench.replies[bench.join(**other)].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.state_name == "Stable"


def test_cl_08_a_sole_member_cannot_swap_its_whole_list():
    bench = Bench()
    (a,) = bench.stable(1)
    reply = bench.replies[bench.join(a, protocols=(("roundrobin", b""),))]
    assert reply == JoinGroupReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id=a)
    assert (bench.state_name, bench.group.members[a].metadata("range")) == ("Stable", b"r")


def test_cl_09_the_vote():
    bench = Bench()
    tokens = [
        bench.enter(client, protocols=tuple((name, b"") for name in names))[1]
        for client, names in (("A", "ab"), ("B", "ba"), ("C", "ba"))
    ]
    bench.end_initial_rebalance()
    assert {bench.replies[token].protocol_name for token in tokens} == {"b"}


def test_cl_09_a_tie_goes_to_the_smallest_name():
    bench = Bench()
    tokens = [
        bench.enter(names, protocols=tuple((name, b"") for name in names))[1]
        for names in ("zb", "bz")
    ]
    bench.end_initial_rebalance()
    assert {bench.replies[token].protocol_name for token in tokens} == {"b"}


def test_cl_10_arrivals_extend_the_initial_delay_up_to_the_rebalance_timeout():
    bench = Bench()
    start = bench.now_ms
    tokens = [bench.enter("m0", rebalance=10_000)[1]]
    for second in range(1, 10):
        bench.advance(1000)
        tokens.append(bench.enter(f"m{second}", rebalance=10_000)[1])
    bench.advance(start + 9999 - bench.now_ms)
    assert bench.parked(*tokens)
    bench.advance(1)
    assert {bench.replies[token].generation_id for token in tokens} == {1}


def test_cl_11_a_quiet_round_ends_the_initial_delay():
    bench = Bench()
    a = bench.enter("A", rebalance=9000)[1]
    bench.advance(2999)
    b = bench.enter("B", rebalance=9000)[1]
    bench.advance(3000)
    assert bench.parked(a, b)
    bench.advance(1)
    assert (bench.replies[a].generation_id, bench.replies[b].generation_id) == (1, 1)


def test_cl_12_a_pending_id_does_not_hold_the_initial_rebalance():
    bench = Bench()
    a, token = bench.enter("A")
    p = bench.pending_id("P")
    bench.advance(3000)
    assert [m.member_id for m in bench.replies[token].members] == [a]
    late = bench.join(p)
    assert bench.parked(late)
    assert bench.state_name == "PreparingRebalance"


def test_no_initial_delay_still_goes_through_the_timer():
    bench = Bench(group_initial_rebalance_delay_ms=0)
    token = bench.enter()[1]
    assert bench.parked(token)
    bench.advance(1)
    assert bench.replies[token].generation_id == 1


def rounds(bench: Bench, count: int) -> None:
    """Fires what is due, for so many rounds of the event loop at the same moment."""
    for _ in range(count):
        for key in bench.state.deadlines.pop_due(bench.now_ms):
            bench.settle(timers.expire(bench.state, key, bench.now))


def test_without_a_delay_those_who_have_an_id_are_waited_for():
    bench = Bench(group_initial_rebalance_delay_ms=0)
    p = bench.pending_id("P")
    a, token = bench.enter("A")
    rounds(bench, LINGER_ROUNDS)
    assert bench.parked(token)
    late = bench.join(p)
    rounds(bench, 2)
    leader = bench.replies[token]
    assert {member.member_id for member in leader.members} == {a, p}
    assert leader.generation_id == bench.replies[late].generation_id == 1


def test_without_a_delay_the_wait_for_an_id_has_an_end():
    bench = Bench(group_initial_rebalance_delay_ms=0)
    bench.pending_id("P")
    a, token = bench.enter("A")
    rounds(bench, LINGER_ROUNDS)
    assert bench.parked(token)
    rounds(bench, 1)
    assert [member.member_id for member in bench.replies[token].members] == [a]


def test_cl_13_a_newcomer_makes_everybody_rejoin():
    bench = Bench()
    (a,) = bench.stable(1)
    _, joined_b = bench.enter("B")
    assert bench.parked(joined_b)
    assert bench.state_name == "PreparingRebalance"
    assert bench.beat(a) is ErrorCode.REBALANCE_IN_PROGRESS
    joined_a = bench.join(a)
    leader, follower = bench.replies[joined_a], bench.replies[joined_b]
    assert (leader.generation_id, follower.generation_id) == (2, 2)
    assert (leader.leader, follower.leader, follower.members) == (a, a, ())
    assert len(leader.members) == 2
    started = [e for e in bench.events if e.kind is EventKind.REBALANCE_STARTED]
    assert "joined" in started[-1].cause


def test_cl_14_who_does_not_rejoin_is_out():
    bench = Bench()
    (a,) = bench.stable(1)
    b, joined_b = bench.enter("B")
    bench.advance(30_000, beating=[a])
    reply = bench.replies[joined_b]
    assert (reply.generation_id, reply.leader) == (2, b)
    assert bench.beat(a) is ErrorCode.UNKNOWN_MEMBER_ID


def test_cl_15_a_silent_member_ends_the_wait_at_its_session_timeout():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.beat(a)
    bench.advance(1000)
    _, joined_b = bench.enter("B")
    bench.advance(8999)
    assert bench.parked(joined_b)
    bench.advance(1)
    assert bench.replies[joined_b].generation_id == 2
    assert a not in bench.group.members


def _pending_while_all_rejoin() -> tuple[Bench, str, list[int]]:
    bench = Bench()
    a, b = bench.stable(2)
    p = bench.pending_id("P")
    tokens = [bench.join(a), bench.join(b)]
    assert bench.parked(*tokens)
    return bench, p, tokens


def test_cl_16_the_join_phase_waits_for_a_pending_id():
    bench, p, tokens = _pending_while_all_rejoin()
    tokens.append(bench.join(p))
    assert [bench.replies[token].generation_id for token in tokens] == [2, 2, 2]


def test_cl_17_until_the_pending_ids_session_passes():
    bench, _, tokens = _pending_while_all_rejoin()
    bench.advance(9999)
    assert bench.parked(*tokens)
    bench.advance(1)
    assert [bench.replies[token].generation_id for token in tokens] == [2, 2]


@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_cl_18_the_leader_of_a_stable_group_can_force_a_rebalance(static):
    bench = Bench()
    (a,) = bench.static_stable(1) if static else bench.stable(1)
    token = bench.join(a, instance="i1" if static else None)
    assert bench.replies[token].generation_id == 2


def test_cl_19_an_unchanged_follower_gets_the_current_generation():
    bench = Bench()
    a, b = bench.stable(2)
    reply = bench.replies[bench.join(b)]
    assert (reply.error, reply.generation_id, reply.leader) == (0, 1, a)
    assert (reply.members, reply.skip_assignment, reply.member_id) == ((), False, b)
    assert bench.state_name == "Stable"


@pytest.mark.parametrize(
    "protocols",
    [(("range", b"new"), ("sticky", b"s")), (("sticky", b"s"), ("range", b"r"))],
    ids=["bytes", "order"],
)
def test_cl_20_a_changed_follower_starts_a_rebalance(protocols):
    bench = Bench()
    both = (("range", b"r"), ("sticky", b"s"))
    a, b = bench.stable(2, protocols=both)
    token = bench.join(b, protocols=protocols)
    assert bench.parked(token)
    assert bench.state_name == "PreparingRebalance"
    bench.join(a, protocols=both)
    assert bench.replies[token].generation_id == 2


def test_cl_21_a_leader_that_lost_its_answer_asks_again():
    bench = Bench()
    a, _ = bench.completing(2)
    reply = bench.replies[bench.join(a)]
    assert (reply.generation_id, len(reply.members)) == (1, 2)
    assert bench.state_name == "CompletingRebalance"


def test_cl_22_a_changed_join_voids_the_generation():
    bench = Bench()
    a, b = bench.completing(2)
    synced = bench.sync(b, 1)
    bench.join(a, protocols=(("range", b"new"),))
    assert bench.replies[synced].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.state_name == "PreparingRebalance"


def test_cl_23_a_first_join_waits_five_minutes_at_most():
    bench = Bench()
    (a,) = bench.stable(1, rebalance=600_000)
    _, token = bench.enter("B", rebalance=600_000)
    bench.advance(299_000, beating=[a])
    assert bench.parked(token)
    bench.advance(1000, beating=[a])
    assert bench.replies[token] == JoinGroupReply(ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.state_name == "PreparingRebalance"


def test_cl_24_a_retried_join_takes_the_slot():
    bench = Bench()
    a, first = bench.enter("A")
    second = bench.join(a)
    bench.advance(3000)
    assert bench.parked(first)
    assert len(bench.replies[second].members) == 1


@pytest.mark.parametrize("instance", [None, "i2"], ids=["new member", "restarted static"])
def test_cl_46_a_full_group(instance):
    bench = Bench(group_max_size=2)
    bench.static_stable(2)
    reply = bench.replies[bench.join(instance=instance)]
    assert reply == JoinGroupReply(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert bench.state_name == "Stable"
    assert len(bench.group.members) == 2


def test_cl_47_pending_ids_do_not_count_but_parked_joins_do():
    bench = Bench(group_max_size=2)
    ids = [bench.pending_id(client) for client in "abc"]
    tokens = [bench.join(member_id) for member_id in ids]
    assert bench.replies[tokens[2]] == JoinGroupReply(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert not bench.group.pending_members
    assert bench.session_due_in(ids[2]) is None
    bench.end_initial_rebalance()
    assert [bench.replies[token].generation_id for token in tokens[:2]] == [1, 1]


def test_cl_48_a_group_that_became_too_large():
    bench = Bench()
    a, b, c = bench.stable(3)
    bench.set_config(group_max_size=2)
    tokens = [bench.join(a), bench.join(b)]
    last = bench.join(c)
    assert bench.replies[last].error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert set(bench.group.members) == {a, b}
    assert bench.parked(*tokens)
    bench.advance(30_000)
    assert [bench.replies[token].generation_id for token in tokens] == [2, 2]


def test_an_instance_id_with_a_pending_id_is_refused():
    bench = Bench()
    p = bench.pending_id()
    assert bench.replies[bench.join(p, instance="i1")] == JoinGroupReply(
        ErrorCode.UNKNOWN_SERVER_ERROR
    )


def test_an_opaque_group_of_another_protocol_type():
    bench = Bench()
    options = {"protocol_type": "connect", "protocols": (("sessioned", b"\x00opaque"),)}
    _, b = bench.stable(2, **options)
    assert bench.group.protocol_type == "connect"
    assert bench.group.subscribed_topics is None
    assert bench.replies[bench.sync(b, 1, protocol_type="connect")].assignment == b.encode()


def _consumer_group(*member_ids: str) -> ConsumerGroup:
    group = ConsumerGroup("g")
    for member_id in member_ids:
        group.put_member(ConsumerGroupMember(member_id))
    return group


def test_j6_a_consumer_group_with_members_refuses_the_classic_protocol():
    # The shard asks `core.interop` before; this is what is left without it.
    bench = Bench()
    bench.state.groups["g"] = other = _consumer_group("m")
    assert bench.replies[bench.join("m")] == JoinGroupReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    assert bench.replies[bench.sync("m", 1)].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.beat("m") is ErrorCode.UNKNOWN_MEMBER_ID
    left = bench.replies[bench.leave("m")]
    assert (left.error, left.members[0].error) == (0, ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.state.groups["g"] is other


def test_j6_an_empty_consumer_group_becomes_classic():
    bench = Bench()
    bench.state.groups["g"] = other = _consumer_group()
    bench.state.deadlines.set(("consumer-session", "g", "m"), bench.now_ms + 5)
    assert bench.replies[bench.join("m")].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert bench.state.groups["g"] is other
    expected = created(bench)
    bench.pending_id()
    assert bench.state_name == "Empty"
    assert bench.log == [*other.tombstones(), expected]
    assert ("consumer-session", "g", "m") not in bench.state.deadlines


def test_j6_a_failed_conversion_brings_the_consumer_group_back():
    bench = Bench()
    bench.state.groups["g"] = other = _consumer_group()
    bench.append_error = ErrorCode.NOT_COORDINATOR
    bench.pending_id()
    assert bench.state.groups["g"] is other


def test_a_group_whose_record_fails_never_was():
    bench = Bench()
    bench.hold = True
    first = bench.join(version=3)
    second = bench.join(version=3, client="d")
    answered = bench.pending_id("p")
    bench.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    expected = JoinGroupReply(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (bench.replies[first], bench.replies[second]) == (expected, expected)
    assert bench.state.groups == {}
    assert len(bench.state.deadlines) == 0
    assert bench.replies[bench.join(answered)].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_simple_group_can_be_joined():
    bench = Bench()
    bench.state.groups["g"] = ClassicGroup.simple("g")
    member_id, token = bench.enter()
    bench.advance(3000)
    assert bench.replies[token].leader == member_id
    assert bench.group.protocol_type == "consumer"
    assert RANGE[0][0] == bench.group.protocol_name
