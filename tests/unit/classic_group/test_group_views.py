"""What offsets and administration see of a classic group (CL-67 to CL-70, CL-75;
docs/spec/offsets-and-log.md#3)."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.admin import list_groups
from groupd.coordinator.core.classic_group.describe import describe
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.queries import ListSomeGroups
from groupd.coordinator.core.types import Operation
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.groups import (
    OPERATIONS_NOT_ASKED,
    DescribedGroup,
    ListedGroup,
)
from tests.support.replaying import apply
from tests.unit.classic_group.harness import WALL_MS, Bench, subscription

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


def test_cl_67_describe_a_stable_group():
    bench = Bench()
    a, b = bench.stable(2)
    group = bench.describe()
    assert (group.error, group.state) == (0, "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    assert [
        (m.member_id, m.client_id, m.client_host, m.metadata, m.assignment) for m in group.members
    ] == [
        (a, "a", "/10.0.0.1", b"r", a.encode()),
        (b, "b", "/10.0.0.1", b"r", b.encode()),
    ]


def test_cl_67_describe_during_a_rebalance():
    bench = Bench()
    (a,) = bench.completing(1)
    group = bench.describe()
    assert (group.state, group.protocol_data, group.members[0].metadata) == (
        "CompletingRebalance",
        "",
        b"",
    )
    bench.sync_all([a])
    bench.enter("B")
    group = bench.describe()
    assert group.state == "PreparingRebalance"
    assert {m.assignment for m in group.members} == {a.encode(), b""}


@pytest.mark.parametrize("group_id", ["nowhere", ""])
def test_cl_67_describe_an_unknown_group(group_id):
    bench = Bench()
    assert bench.describe(group_id, 5) == DescribedGroup(group_id, state="Dead")
    assert bench.describe(group_id, 6) == DescribedGroup(
        group_id, NOT_FOUND, f"Group {group_id} not found.", "Dead"
    )


@pytest.mark.parametrize(
    ("version", "asked", "expected"),
    [(3, True, 3400), (3, False, OPERATIONS_NOT_ASKED), (2, True, OPERATIONS_NOT_ASKED)],
)
def test_cl_68_authorized_operations(version, asked, expected):
    bench = Bench()
    bench.stable(1)
    assert bench.describe("g", version, asked).authorized_operations == expected


def test_cl_68_only_what_the_principal_may_do():
    bench = Bench()
    bench.stable(1)
    allowed = {Operation.DESCRIBE, Operation.READ}
    context = bench.context(5, allows=lambda operation, *_: operation in allowed)
    group = describe(bench.state, context, "g", True)
    assert group.authorized_operations == (1 << 3) | (1 << 8)


def test_cl_69_as_listed():
    bench = Bench()
    bench.stable(1)
    bench.state.groups["s"] = ClassicGroup.simple("s")
    outcome = list_groups(
        bench.state, bench.context(5), ListSomeGroups(tuple(bench.state.groups)), bench.now
    )
    assert outcome.replies[0][1].groups == (
        ListedGroup("g", "consumer", "Stable", "classic"),
        ListedGroup("s", "", "Empty", "classic"),
    )


def test_cl_70_only_an_empty_group_may_be_deleted():
    bench = Bench()
    (a,) = bench.stable(1)
    with pytest.raises(ApiError) as refused:
        bench.group.check_delete()
    assert refused.value.code is ErrorCode.NON_EMPTY_GROUP
    bench.leave(a)
    bench.pending_id()
    bench.group.check_delete()
    apply(bench.state, bench.group.tombstones()[0])
    assert bench.describe("g", 6).error is NOT_FOUND


def commit_code(
    group: Group,
    generation: int,
    member: str = "",
    instance: str | None = None,
    transactional: bool = False,
) -> ErrorCode:
    try:
        group.check_offset_commit(
            member,
            instance,
            generation,
            (),
            api_version=9,
            transactional=transactional,
            skip_partition=lambda *_: False,
        )
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_cl_75_commits_in_a_live_group():
    bench = Bench()
    (a,) = bench.completing(1)
    assert commit_code(bench.group, 1, a) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit_code(bench.group, 1, a, transactional=True) is ErrorCode.NONE
    bench.sync_all([a])
    assert commit_code(bench.group, 1, a) is ErrorCode.NONE
    assert commit_code(bench.group, 2, a) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(bench.group, -1, a) is ErrorCode.ILLEGAL_GENERATION
    assert commit_code(bench.group, 1, "x") is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(bench.group, -1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit_code(bench.group, -1, transactional=True) is ErrorCode.NONE
    bench.enter("B")
    assert commit_code(bench.group, 1, a) is ErrorCode.NONE


def test_cl_75_a_commit_extends_the_session():
    bench = Bench()
    (a,) = bench.completing(1)
    bench.advance(2000)
    bench.group.on_offset_commit(a, None, bench.now, bench.state.deadlines)
    assert bench.session_due_in(a) == 8000
    bench.sync_all([a])
    bench.advance(2000)
    bench.group.on_offset_commit(a, None, bench.now, bench.state.deadlines)
    assert (bench.session_due_in(a), bench.state_name) == (10_000, "Stable")
    bench.enter("B")
    bench.advance(2000)
    bench.group.on_offset_commit(a, None, bench.now, bench.state.deadlines)
    assert (bench.session_due_in(a), bench.state_name) == (10_000, "PreparingRebalance")


def test_of_08_static_members_commit():
    bench = Bench()
    i1, i2 = bench.static_stable(2)
    assert commit_code(bench.group, 1, i1, "i1") is ErrorCode.NONE
    assert commit_code(bench.group, 1, i1, "i2") is ErrorCode.FENCED_INSTANCE_ID
    assert commit_code(bench.group, 1, i2, "i9") is ErrorCode.UNKNOWN_MEMBER_ID


def test_of_11_an_empty_group():
    group = ClassicGroup.simple("s")
    assert commit_code(group, -1, "x") is ErrorCode.NONE
    assert commit_code(group, 3) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_dead_group_refuses_commits():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.unload()
    assert commit_code(bench.group, 1, a) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for check in (bench.group.check_delete, bench.group.check_offset_delete):
        with pytest.raises(ApiError) as refused:
            check()
        assert refused.value.code is NOT_FOUND


def delete_code(group: ClassicGroup) -> ErrorCode:
    try:
        group.check_offset_delete()
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_of_41_offset_delete_needs_the_consumer_type():
    connect, consumer = Bench(), Bench()
    connect.stable(1, protocol_type="connect")
    consumer.stable(1)
    assert delete_code(connect.group) is ErrorCode.NON_EMPTY_GROUP
    assert delete_code(consumer.group) is ErrorCode.NONE
    assert delete_code(ClassicGroup.simple("s")) is ErrorCode.NONE


def subscribed(bench: Bench) -> dict[str, bool]:
    return {topic: bench.group.is_subscribed_to(topic) for topic in ("t1", "t2")}


def test_subscribed_topics_are_those_of_the_last_generation():
    bench = Bench()
    a, token = bench.enter("A", protocols=(("range", subscription("t1")),))
    assert subscribed(bench) == {"t1": True, "t2": True}, "unknown: everything"
    bench.advance(3000)
    assert subscribed(bench) == {"t1": True, "t2": False}
    bench.enter("B", protocols=(("range", subscription("t2", version=9, tail=b"?")),))
    assert subscribed(bench) == {"t1": True, "t2": False}
    bench.join(a, protocols=(("range", subscription("t1")),))
    assert subscribed(bench) == {"t1": True, "t2": True}
    bench.leave(*bench.group.members)
    assert subscribed(bench) == {"t1": False, "t2": False}
    assert bench.replies[token].error is ErrorCode.NONE


def test_subscribed_topics_after_a_load():
    bench = Bench()
    bench.stable(1, protocols=(("range", subscription("t1")),))
    assert subscribed(bench.reload()) == {"t1": True, "t2": False}


@pytest.mark.parametrize(("protocol_type", "expected"), [("consumer", True), ("connect", False)])
def test_of_43_an_unreadable_subscription(protocol_type, expected):
    bench = Bench()
    bench.stable(1, protocol_type=protocol_type)
    assert subscribed(bench) == {"t1": expected, "t2": expected}


def test_offset_expiration_base_by_state():
    committed = 77
    simple = ClassicGroup.simple("s")
    assert simple.offset_expiration_base()(committed) == committed
    bench = Bench()
    (a,) = bench.completing(1, protocols=(("range", subscription("t1")),))
    assert bench.group.offset_expiration_base()(committed) is None
    bench.sync_all([a])
    assert bench.group.offset_expiration_base()(committed) == committed
    emptied_ms = WALL_MS + bench.now_ms
    bench.leave(a)
    bench.advance(5000)
    assert bench.group.offset_expiration_base()(committed) == emptied_ms
    bench.group.state_timestamp_ms = -1
    assert bench.group.offset_expiration_base()(committed) == committed


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_of_57_stable_but_subscription_unknown(protocol_type):
    bench = Bench()
    bench.stable(1, protocol_type=protocol_type)
    assert bench.group.offset_expiration_base()(77) is None
