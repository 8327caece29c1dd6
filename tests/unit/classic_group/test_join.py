"""JoinGroup: what the scenarios of `classic_join` and `classic_load` do not show."""

from __future__ import annotations

from groupd.coordinator.core.classic_group import timers
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.classic_group.rebalance import LINGER_ROUNDS
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupReply
from groupd.protocol.records.schema import GroupMetadataKey, GroupMetadataValue, Record
from tests.unit.classic_group.harness import RANGE, WALL_MS, Bench


def created(bench: Bench) -> Record:
    """The record of a group created at the bench's first moment."""
    value = GroupMetadataValue("", 0, None, None, WALL_MS + bench.now_ms)
    return Record(GroupMetadataKey("g"), value)


def test_the_answer_with_an_id_does_not_wait_for_the_groups_record():
    bench = Bench()
    bench.hold = True
    assert bench.pending_id()
    assert len(bench.appending) == 1


def test_a_tie_of_votes_goes_to_the_smallest_name():
    bench = Bench()
    tokens = [
        bench.enter(names, protocols=tuple((name, b"") for name in names))[1]
        for names in ("zb", "bz")
    ]
    bench.end_initial_rebalance()
    assert {bench.replies[token].protocol_name for token in tokens} == {"b"}


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


def test_a_static_leader_can_force_a_rebalance_too():
    bench = Bench()
    (a,) = bench.static_stable(1)
    token = bench.join(a, instance="i1")
    assert bench.replies[token].generation_id == 2


def test_an_id_that_finds_the_group_full_is_forgotten():
    bench = Bench(group_max_size=2)
    ids = [bench.pending_id(client) for client in "abc"]
    tokens = [bench.join(member_id) for member_id in ids]
    assert bench.replies[tokens[2]] == JoinGroupReply(ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert not bench.group.pending_members
    assert bench.session_due_in(ids[2]) is None


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
