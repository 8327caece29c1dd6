"""What offsets and administration see of a classic group (docs/spec/offsets-and-log.md#3), beside
the scenarios of `classic_admin` and `offsets`."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.classic_group.describe import describe
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.types import Operation
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.groups import (
    DescribedGroup,
)
from tests.unit.classic_group.harness import WALL_MS, Bench, subscription

NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND


def test_a_description_says_who_the_members_are():
    bench = Bench()
    a, b = bench.stable(2)
    members = bench.describe().members
    assert [(m.member_id, m.client_id, m.client_host) for m in members] == [
        (a, "a", "/10.0.0.1"),
        (b, "b", "/10.0.0.1"),
    ]


@pytest.mark.parametrize("group_id", ["nowhere", ""])
def test_an_unknown_group_is_dead(group_id):
    bench = Bench()
    assert bench.describe(group_id, 5) == DescribedGroup(group_id, state="Dead")
    assert bench.describe(group_id, 6) == DescribedGroup(
        group_id, NOT_FOUND, f"Group {group_id} not found.", "Dead"
    )


def test_operations_are_those_that_the_principal_may_do():
    bench = Bench()
    bench.stable(1)
    allowed = {Operation.DESCRIBE, Operation.READ}
    context = bench.context(5, allows=lambda operation, *_: operation in allowed)
    group = describe(bench.state, context, "g", True)
    assert group.authorized_operations == (1 << 3) | (1 << 8)


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
            too_long=frozenset(),
        )
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_a_commit_extends_the_session():
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


def test_a_dead_group_refuses_commits():
    bench = Bench()
    (a,) = bench.stable(1)
    bench.unload()
    assert commit_code(bench.group, 1, a) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for check in (bench.group.check_delete, bench.group.check_offset_delete):
        with pytest.raises(ApiError) as refused:
            check()
        assert refused.value.code is NOT_FOUND


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
def test_an_unreadable_subscription(protocol_type, expected):
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
