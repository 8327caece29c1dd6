"""OffsetDelete and DeleteGroups: scenarios OF-40..OF-45 and OF-63; ListGroups (CG-88, CL-69)."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.admin import delete_group, list_groups
from groupd.coordinator.core.queries import DeleteGroup, ListSomeGroups
from groupd.coordinator.core.types import EventKind, Operation, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.groups import ListedGroup, ListGroupsReply
from groupd.protocol.messages.offsets import FetchTopic
from groupd.protocol.records.schema import GroupMetadataKey, Record
from tests.unit.offsets.harness import Shard, codes, places, topic


def listed(
    shard: Shard, states: tuple[str, ...] = (), types: tuple[str, ...] = ()
) -> ListGroupsReply:
    request = ListSomeGroups(tuple(shard.state.groups), frozenset(states), frozenset(types))
    outcome = list_groups(shard.state, shard.context(5), request, shard.now)
    reply: ListGroupsReply = outcome.replies[0][1]
    return reply


def test_of_40_subscribed_topic_is_kept(shard: Shard) -> None:
    shard.commit(topic(p0=1), topic("t2", p0=2, p1=3))
    shard.group(protocol_type="consumer", state="Stable", subscribed=frozenset({"t1"}))
    reply = shard.delete(FetchTopic("t1", (0,)), FetchTopic("t2", (1, 0, 1)))
    assert codes(reply) == {("t1", 0): 86, ("t2", 0): 0, ("t2", 1): 0}
    assert places(shard.outcome) == [("t2", 1), ("t2", 0)]
    assert [shard.offset(), shard.offset(0, "t2")] == [1, None]
    (event,) = shard.outcome.events
    assert (event.kind, event.details) == (EventKind.OFFSETS_DELETED, {"count": 2})


def test_of_41_group_refuses(shard: Shard) -> None:
    shard.group(protocol_type="connect", state="Stable", delete_error=ErrorCode.NON_EMPTY_GROUP)
    reply = shard.delete(FetchTopic("t1", (0,)), FetchTopic("nope", (0,)))
    assert (reply.error, reply.topics) == (68, ())


@pytest.mark.parametrize(("group_id", "code"), [("none", 69), ("", 24), ("share", 69)])
def test_of_42_no_such_group(shard: Shard, group_id: str, code: int) -> None:
    shard.group("share", type_name="share")
    reply = shard.delete(FetchTopic("t1", (0,)), group=group_id)
    assert (reply.error, reply.topics) == (code, ())


def test_of_43_unknown_subscription_counts_as_all(shard: Shard) -> None:
    shard.commit(topic(p0=1))
    shard.group(protocol_type="consumer", state="Stable", subscribed_to_all=True)
    assert codes(shard.delete(FetchTopic("t1", (0,)))) == {("t1", 0): 86}
    assert shard.outcome.records == []


def test_of_45_nothing_to_delete(shard: Shard) -> None:
    shard.group()
    assert codes(shard.delete(FetchTopic("t1", (0,)))) == {("t1", 0): 0}
    assert shard.outcome.records == shard.outcome.events == []


def test_delete_front_end_checks(shard: Shard) -> None:
    shard.group()
    shard.allows = lambda operation, resource, name: name != "t2"
    reply = shard.delete(
        FetchTopic("t1", (0, 10)), FetchTopic("t2", (0,)), FetchTopic("nope", (0,))
    )
    assert codes(reply) == {("t1", 10): 3, ("t2", 0): 29, ("nope", 0): 3, ("t1", 0): 0}
    assert [entry.name for entry in reply.topics] == ["t1", "t2", "nope"]
    assert codes(shard.delete(FetchTopic("nope", (0,)))) == {("nope", 0): 3}
    assert shard.outcome is not None
    shard.allows = lambda operation, resource, name: operation is not Operation.DELETE
    assert shard.delete(FetchTopic("t1", (0,))).error == 30


def run_delete(shard: Shard, group_id: str) -> ErrorCode:
    try:
        outcome = delete_group(shard.state, shard.offsets, shard.context(2), DeleteGroup(group_id))
    except ApiError as error:
        return error.code
    shard.apply(outcome)
    ((_, reply),) = outcome.replies
    assert reply.group_id == group_id
    code: ErrorCode = reply.error
    return code


def test_of_63_delete_groups(shard: Shard) -> None:
    shard.commit(topic(p1=1, p0=1), topic("t2", p0=1))
    shard.txn_commit(topic(p0=9, p7=9))
    shard.group("busy", state="Stable")
    assert run_delete(shard, "busy") is ErrorCode.NON_EMPTY_GROUP
    assert run_delete(shard, "unknown") is ErrorCode.GROUP_ID_NOT_FOUND
    assert run_delete(shard, "g") is ErrorCode.NONE
    assert places(shard.outcome) == [("t1", 0), ("t1", 1), ("t2", 0), ("t1", 7)]
    assert shard.outcome.records[-1] == Record(GroupMetadataKey("g"))
    assert len(shard.outcome.records) == 5
    assert sorted(shard.state.groups) == ["busy"]
    assert shard.offsets.store.count == 0
    (event,) = shard.outcome.events
    assert (event.kind, event.details) == (EventKind.GROUP_DELETED, {"offsets": 4})
    assert shard.outcome.gate == "g"


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ((), (), ["a", "b", "c"]),
        (("stable",), (), ["b", "c"]),
        (("stable",), ("consumer",), ["c"]),
        (("empty", "stable"), ("classic",), ["a", "b"]),
        (("nope",), (), []),
        ((), ("x",), []),
    ],
)
def test_cg_88_cl_69_list_filters(
    shard: Shard, states: tuple[str, ...], types: tuple[str, ...], expected: list[str]
) -> None:
    shard.group("c", state="Stable", type_name="consumer", protocol_type="consumer")
    shard.group("a")
    shard.group("b", state="Stable")
    reply = listed(shard, states, types)
    assert [group.group_id for group in reply.groups] == expected
    if expected == ["c"]:
        assert reply.groups[0] == ListedGroup("c", "consumer", "Stable", "consumer")


def test_list_shows_only_what_may_be_described(shard: Shard) -> None:
    shard.group("a")
    shard.group("b")
    shard.allows = lambda operation, resource, name: (resource, name) == (Resource.GROUP, "b")
    reply = listed(shard)
    assert (reply.error, [group.group_id for group in reply.groups]) == (0, ["b"])
