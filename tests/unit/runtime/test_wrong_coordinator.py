"""What a node says of groups that another node coordinates, API by API: NOT_COORDINATOR, at the
place where clients look for it, and nothing that would make them give up. Of two groups the node
serves the shard of one; requests about many groups are answered group by group."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.ownership import SingleNodeOwnership
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.runtime.transactions import OffsetsMarkers
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import classic_group as k
from groupd.protocol.messages import consumer_group as n
from groupd.protocol.messages import groups as g
from groupd.protocol.messages import offsets as o
from groupd.protocol.messages import share_group as s
from groupd.protocol.messages.cluster import Node
from groupd.storage.memory import MemoryStore
from groupd.storage.units import GROUPS, Unit
from tests.unit.runtime.harness import (
    APIS,
    TOPIC_ID,
    Bench,
    beat,
    commit,
    consumer_beat,
    join,
    settle,
    sync,
)

WRONG = ErrorCode.NOT_COORDINATOR
SHARDS = 2


def group_in(shard: int) -> str:
    return next(name for name in "abcdefgh" if partition_for(name, SHARDS) == shard)


HERE, AWAY = group_in(0), group_in(1)
TOPICS = (o.FetchTopic("t", (0,), TOPIC_ID),)
OFFSETS = (o.commit_topic("t", (o.CommitPartition(0, 1),), TOPIC_ID),)
LEAVING = (k.LeavingMember("m"),)


class Half(SingleNodeOwnership):
    """Node 0 leads the shard of `HERE`, node 1 that of `AWAY`."""

    def serves(self, unit: Unit) -> bool:
        return unit.number == 0

    def leader(self, unit: Unit) -> int | None:
        return unit.number

    def only_leader(self) -> tuple[int, int] | None:
        return None


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = await Bench(MemoryStore(), shards=SHARDS, ownership=Half(0)).start()
    await made.broker.served.serve(Unit(GROUPS, 0), 1)
    nodes = Node(0, "h0", 9092), Node(1, "h1", 9093)
    made.broker.find_node = lambda unit: nodes[unit.number]
    yield made
    await made.broker.close()


def of_reply(reply: Any) -> Any:
    return reply.error


def of_partitions(reply: Any) -> Any:
    return reply.topics[0].partitions[0].error


def of_group(reply: Any) -> Any:
    return reply.groups[0].error


def of_result(reply: Any) -> Any:
    return reply.results[0].error


Row = tuple[Callable[[str], Any], Callable[[Any], Any]]

ROWS: dict[type, Row] = {
    n.ConsumerGroupHeartbeatRequest: (lambda group: consumer_beat(group, "m", 1), of_reply),
    n.ConsumerGroupDescribeRequest: (
        lambda group: n.ConsumerGroupDescribeRequest((group,)),
        of_group,
    ),
    k.JoinGroupRequest: (lambda group: join(group, "m"), of_reply),
    k.SyncGroupRequest: (lambda group: sync(group, 1, "m"), of_reply),
    k.HeartbeatRequest: (lambda group: beat(group, 1, "m"), of_reply),
    k.LeaveGroupRequest: (lambda group: k.LeaveGroupRequest(group, LEAVING), of_reply),
    o.OffsetCommitRequest: (lambda group: commit(group, 1), of_partitions),
    o.OffsetDeleteRequest: (lambda group: o.OffsetDeleteRequest(group, TOPICS), of_reply),
    o.OffsetFetchRequest: (
        lambda group: o.OffsetFetchRequest((o.OffsetFetchGroup(group, TOPICS),)),
        of_group,
    ),
    o.TxnOffsetCommitRequest: (
        lambda group: o.TxnOffsetCommitRequest("tx", group, 1, 0, OFFSETS),
        of_partitions,
    ),
    s.ShareGroupHeartbeatRequest: (
        lambda group: s.ShareGroupHeartbeatRequest(group, "m", 1),
        of_reply,
    ),
    s.ShareGroupDescribeRequest: (lambda group: s.ShareGroupDescribeRequest((group,)), of_group),
    s.AlterShareGroupOffsetsRequest: (
        lambda group: s.AlterShareGroupOffsetsRequest(group, ()),
        of_reply,
    ),
    s.DeleteShareGroupOffsetsRequest: (
        lambda group: s.DeleteShareGroupOffsetsRequest(group, ()),
        of_reply,
    ),
    g.DescribeGroupsRequest: (lambda group: g.DescribeGroupsRequest((group,)), of_group),
    g.DeleteGroupsRequest: (lambda group: g.DeleteGroupsRequest((group,)), of_result),
}
ANY_NODE = {g.FindCoordinatorRequest, g.ListGroupsRequest}
"""What every node answers, each for itself or for all."""


def test_every_request_of_groups_has_a_row() -> None:
    assert ROWS.keys() | ANY_NODE == ROUTES.keys()


@pytest.mark.parametrize("request_type", ROWS)
async def test_the_wrong_node_says_so_in_every_version(bench: Bench, request_type: type) -> None:
    make, error = ROWS[request_type]
    api = APIS[request_type]
    for version in range(api.min_version, api.max_version + 1):
        reply = await bench.answer(make(AWAY), version)
        assert api.encode(reply, version)
        if request_type is o.OffsetFetchRequest and version < 2:
            # There is no error of the whole reply yet.
            assert reply.groups[0].topics[0].partitions[0].error is WRONG
        else:
            assert error(reply) is WRONG
        assert error(await bench.answer(make(HERE), version)) is not WRONG


async def test_many_groups_are_answered_each_for_itself(bench: Bench) -> None:
    both = (HERE, AWAY)
    described = await bench.answer(g.DescribeGroupsRequest(both))
    assert {one.group_id: one.error is WRONG for one in described.groups} == {
        HERE: False,
        AWAY: True,
    }
    consumers = await bench.answer(n.ConsumerGroupDescribeRequest(both))
    assert [one.error is WRONG for one in consumers.groups] == [False, True]
    fetched = await bench.answer(
        o.OffsetFetchRequest(tuple(o.OffsetFetchGroup(group, TOPICS) for group in both))
    )
    assert [one.error for one in fetched.groups] == [ErrorCode.NONE, WRONG]
    everything = await bench.answer(
        o.OffsetFetchRequest(tuple(o.OffsetFetchGroup(group, None) for group in both))
    )
    assert [one.error for one in everything.groups] == [ErrorCode.NONE, WRONG]
    deleted = await bench.answer(g.DeleteGroupsRequest(both))
    assert [one.error for one in deleted.results] == [ErrorCode.GROUP_ID_NOT_FOUND, WRONG]


async def test_long_requests_are_refused_as_short_ones(bench: Bench) -> None:
    topics = tuple(o.FetchTopic(f"t{number}", (0,)) for number in range(2000))
    fetched = await long_answer(bench, o.OffsetFetchRequest((o.OffsetFetchGroup(AWAY, topics),)))
    assert fetched.groups[0].error is WRONG
    offsets = tuple(o.CommitPartition(number, 1) for number in range(2000))
    committed = await long_answer(
        bench, o.OffsetCommitRequest(AWAY, (o.commit_topic("t", offsets, TOPIC_ID),))
    )
    errors = {one.partition: one.error for one in committed.topics[0].partitions}
    assert [errors[number] for number in range(3)] == [WRONG] * 3  # the others do not exist
    members = tuple(k.LeavingMember(f"m{number}") for number in range(200))
    left = await long_answer(bench, k.LeaveGroupRequest(AWAY, members))
    assert left.error is WRONG


async def long_answer(bench: Bench, request: Any) -> Any:
    replies = bench.ask(request)
    for _ in range(50):
        await settle()
        bench.clock.advance(0)
    (reply,) = replies
    return reply


async def test_every_node_finds_the_coordinator_of_every_group(bench: Bench) -> None:
    reply = await bench.answer(g.FindCoordinatorRequest((HERE, AWAY)))
    assert [(one.node_id, one.port) for one in reply.coordinators] == [(0, 9092), (1, 9093)]


async def test_a_node_lists_the_groups_that_it_coordinates(bench: Bench) -> None:
    await bench.answer(commit(HERE, 1))
    reply = await bench.answer(g.ListGroupsRequest())
    assert [one.group_id for one in reply.groups] == [HERE]


async def test_markers_for_offsets_of_another_node_are_refused(bench: Bench) -> None:
    markers = OffsetsMarkers(bench.broker)
    places = [("__consumer_offsets", 0), ("__consumer_offsets", 1)]
    codes = await markers.write_marker(Marker(1, 0, True, 0, 1), places)
    assert codes[places[1]] is WRONG
