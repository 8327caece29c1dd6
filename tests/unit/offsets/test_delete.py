"""OffsetDelete, DeleteGroups and ListGroups: what the scenarios of `offsets` do not show."""

from __future__ import annotations

from groupd.coordinator.core.admin import delete_group, list_groups
from groupd.coordinator.core.shard_requests import DeleteGroup, ListSomeGroups
from groupd.coordinator.core.types import EventKind, Operation, Resource
from groupd.protocol.messages.offsets import FetchTopic
from groupd.protocol.records.schema import GroupMetadataKey, Record
from tests.unit.offsets.harness import Shard, codes, places, topic


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


def test_a_group_is_deleted_with_what_is_pending(shard: Shard) -> None:
    shard.commit(topic(p1=1, p0=1), topic("t2", p0=1))
    shard.txn_commit(topic(p0=9, p7=9))
    shard.apply(delete_group(shard.state, shard.offsets.store, shard.context(2), DeleteGroup("g")))
    assert places(shard.outcome) == [("t1", 0), ("t1", 1), ("t2", 0), ("t1", 7)]
    assert shard.outcome.records[-1] == Record(GroupMetadataKey("g"))
    assert len(shard.outcome.records) == 5
    assert shard.state.groups == {}
    assert shard.offsets.store.count == 0
    (event,) = shard.outcome.events
    assert (event.kind, event.details) == (EventKind.GROUP_DELETED, {"offsets": 4})
    assert shard.outcome.gate == "g"


def test_list_shows_only_what_may_be_described(shard: Shard) -> None:
    shard.group("a")
    shard.group("b")
    shard.allows = lambda operation, resource, name: (resource, name) == (Resource.GROUP, "b")
    request = ListSomeGroups(tuple(shard.state.groups))
    reply = list_groups(shard.state, shard.context(5), request, shard.now).replies[0][1]
    assert (reply.error, [group.group_id for group in reply.groups]) == (0, ["b"])
