"""What a node says of partitions that another node leads, API by API.

The partitions of topic `t` fall into four cases: node 0, which is asked, leads those of `HERE`,
node 1 those of `OTHER`; those of `NOBODY` are on their way from one node to the next, and those of
`DEAD` are led by a node that has died.
"""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.waiting import Waiter, no_reply
from groupd.coordinator.topics.requests import data_routes
from groupd.coordinator.topics.topic import bucket_of
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages import cluster as c
from groupd.protocol.messages import data as d
from groupd.protocol.messages import producers as p
from groupd.protocol.messages import quorum as q
from groupd.protocol.messages import replicas as r
from groupd.protocol.messages import topics as t
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.memory import MemoryStore
from groupd.storage.units import GROUPS, Unit
from tests.support.access import ByRule, allow_all
from tests.unit.topics.conftest import answered, batch, fetch_request
from tests.unit.topics.owned import Owned

EPOCH = 5
HERE, OTHER, NOBODY, DEAD = range(4)
LEADERS = {HERE: 0, OTHER: 1, NOBODY: None, DEAD: 9}
OK = ErrorCode.NONE
WRONG = ErrorCode.NOT_LEADER_OR_FOLLOWER
LEADERLESS = ErrorCode.LEADER_NOT_AVAILABLE
FENCED, UNKNOWN_EPOCH = ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH
NODES = [
    c.Node(0, "h0", 9092, "a", (("IN", "h0", 9092), ("OUT", "o0", 19092))),
    c.Node(1, "h1", 9093, "b", (("IN", "h1", 9093), ("OUT", "o1", 19093))),
]


class Asked:
    """Node 0 of two. `numbers`: a partition of `t` for each case."""

    def __init__(self, made):
        self.node = made
        self.leaders, self.epochs = {}, {}
        self.ownership = Owned(0, self.leaders, self.epochs)

    async def start(self):
        self.node.nodes[:] = NODES
        await self.node.start(ownership=self.ownership)
        topic_id = await self.node.create("t", 8)
        self.units = [bucket_of(topic_id, number) for number in range(8)]
        self.numbers = [0, 0, 0, 0]
        for number, unit in enumerate(self.units):
            case = unit.number % 4
            self.numbers[case] = number
            self.leaders[unit], self.epochs[unit] = LEADERS[case], EPOCH
            if case == HERE:
                self.ownership.serving.add(unit)
        return self

    async def ask(self, request, version=20, listener="IN"):
        context = RequestContext(
            Waiter(request, no_reply), version, access=ByRule(allow_all), listener=listener
        )
        return await answered(data_routes(self.node.plane)[type(request)], context, request)

    async def give_up(self, case):
        unit = self.units[self.numbers[case]]
        self.ownership.serving.discard(unit)
        self.leaders[unit], self.epochs[unit] = 1, EPOCH + 1
        await self.node.plane.unit_server.give_up(unit)


@pytest.fixture
async def asked(make_cluster):
    made = await Asked(make_cluster(MemoryStore())).start()
    yield made
    await made.node.stop()


def fetch(numbers, epoch=-1, **fields):
    parts = [d.FetchPartition(number, 0, 1000, current_leader_epoch=epoch) for number in numbers]
    return fetch_request("t", *parts, **fields)


def produce(numbers, epoch=-1):
    parts = tuple(d.ProducePartition(number, batch(b"v")) for number in numbers)
    return d.ProduceRequest((d.ProduceTopic("t", NO_TOPIC_ID, parts),))


def list_offsets(numbers, epoch=-1):
    parts = tuple(d.ListOffsetsPartition(number, -1, epoch) for number in numbers)
    return d.ListOffsetsRequest((d.ListOffsetsTopic("t", parts),))


def end_of_epoch(numbers, epoch=-1):
    parts = tuple(d.LeaderEpochPartition(number, EPOCH, epoch) for number in numbers)
    return d.OffsetForLeaderEpochRequest((d.LeaderEpochTopic("t", parts),))


def delete_records(numbers):
    return d.DeleteRecordsRequest((d.DeleteRecordsTopic("t", tuple((n, 0) for n in numbers)),))


def describe_producers(numbers):
    return p.DescribeProducersRequest((p.DescribeProducersTopic("t", tuple(numbers)),))


def write_markers(numbers):
    topic = p.MarkerTopic("t", tuple(numbers))
    return p.WriteTxnMarkersRequest((p.WritableMarker(1, 0, True, (topic,), 0),))


def elect(kind):
    return lambda numbers: r.ElectLeadersRequest(kind, (("t", tuple(numbers)),))


def reassign(node):
    return lambda numbers: r.AlterPartitionReassignmentsRequest(
        (r.ReassignedTopic("t", tuple((number, (node,)) for number in numbers)),)
    )


def move_log(numbers):
    return r.AlterReplicaLogDirsRequest((("/groupd", (("t", tuple(numbers)),)),))


def of_topic(reply):
    """The error of each partition, by number."""
    return {one.partition: one.error for one in reply.topics[0].partitions}


def of_pairs(reply):
    return dict(reply.topics[0][1])


def of_markers(reply):
    return dict(reply.markers[0].topics[0].partitions)


NOT_NEEDED, MOVED = ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.INVALID_REPLICA_ASSIGNMENT
NO_PREFERRED = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
NO_ELIGIBLE = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
ELSEWHERE = ErrorCode.REPLICA_NOT_AVAILABLE

ROWS = {
    "Produce": (produce, of_topic, [OK, WRONG, WRONG, WRONG]),
    "Fetch": (fetch, of_topic, [OK, WRONG, WRONG, WRONG]),
    "ListOffsets": (list_offsets, of_topic, [OK, WRONG, WRONG, WRONG]),
    "OffsetForLeaderEpoch": (end_of_epoch, of_topic, [OK, WRONG, WRONG, WRONG]),
    "DeleteRecords": (delete_records, of_topic, [OK, WRONG, WRONG, WRONG]),
    "DescribeProducers": (describe_producers, of_topic, [OK, WRONG, WRONG, WRONG]),
    "WriteTxnMarkers": (write_markers, of_markers, [OK, WRONG, WRONG, WRONG]),
    "AlterReplicaLogDirs": (move_log, of_pairs, [OK, ELSEWHERE, ELSEWHERE, ELSEWHERE]),
    # Every node can do what a controller does.
    "ElectLeaders, preferred": (
        elect(0),
        of_topic,
        [NOT_NEEDED, NOT_NEEDED, NO_PREFERRED, NO_PREFERRED],
    ),
    "ElectLeaders, unclean": (
        elect(1),
        of_topic,
        [NOT_NEEDED, NOT_NEEDED, NO_ELIGIBLE, NO_ELIGIBLE],
    ),
    "AlterPartitionReassignments to 0": (reassign(0), of_topic, [OK, MOVED, MOVED, MOVED]),
    "AlterPartitionReassignments to 1": (reassign(1), of_topic, [MOVED, OK, MOVED, MOVED]),
    "AlterPartitionReassignments to 9": (reassign(9), of_topic, [MOVED] * 4),
}


@pytest.mark.parametrize("row", ROWS)
async def test_the_error_of_each_partition(asked, row):
    make, errors, expected = ROWS[row]
    found = errors(await asked.ask(make(asked.numbers)))
    assert [found[number] for number in asked.numbers] == expected


EPOCH_ROWS = {"Fetch": fetch, "ListOffsets": list_offsets, "OffsetForLeaderEpoch": end_of_epoch}


@pytest.mark.parametrize("row", EPOCH_ROWS)
@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (EPOCH - 1, [FENCED] * 4),
        (EPOCH, [OK, WRONG, WRONG, WRONG]),
        (EPOCH + 1, [UNKNOWN_EPOCH] * 4),
    ],
)
async def test_another_epoch_counts_before_the_leader(asked, row, epoch, expected):
    found = of_topic(await asked.ask(EPOCH_ROWS[row](asked.numbers, epoch)))
    assert [found[number] for number in asked.numbers] == expected


# The leader in the reply (KIP-951) ------------------------------------------------------------


def leaders_in(reply, numbers):
    found = {one.partition: one.current_leader for one in reply.topics[0].partitions}
    return [found[number] for number in numbers]


NAMED = [None, (1, EPOCH), (-1, EPOCH), (9, EPOCH)]


@pytest.mark.parametrize(("make", "since"), [(produce, 10), (fetch, 16)], ids=["Produce", "Fetch"])
async def test_the_reply_names_the_leader_and_its_address(asked, make, since):
    old = await asked.ask(make(asked.numbers), since - 1)
    assert leaders_in(old, asked.numbers) == [None] * 4
    assert old.node_endpoints == ()
    for listener, host, port in (("IN", "h1", 9093), ("OUT", "o1", 19093)):
        reply = await asked.ask(make(asked.numbers), since, listener)
        assert leaders_in(reply, asked.numbers) == NAMED
        assert reply.node_endpoints == (c.Node(1, host, port, "b"),)
    right = await asked.ask(make([asked.numbers[HERE]]), since)
    assert right.node_endpoints == ()


@pytest.mark.parametrize(("make", "key"), [(produce, 0), (fetch, 1)], ids=["Produce", "Fetch"])
async def test_replies_of_all_versions_can_be_written(asked, make, key):
    api = API_BY_KEY[key]
    for version in range(api.min_version, api.max_version + 1):
        reply = await asked.ask(make(asked.numbers), version)
        assert api.encode(reply, version)


async def test_who_is_fenced_is_told_the_leader(asked):
    reply = await asked.ask(fetch(asked.numbers, EPOCH - 1))
    assert leaders_in(reply, asked.numbers) == [(0, EPOCH), *NAMED[1:]]
    assert [node.node_id for node in reply.node_endpoints] == [0, 1]
    ahead = await asked.ask(fetch(asked.numbers, EPOCH + 1))
    assert leaders_in(ahead, asked.numbers) == [None] * 4


async def test_a_long_produce_names_the_leaders_of_all_its_parts(asked):
    topic_id = await asked.node.create("long", 250)
    for number in range(250):
        asked.leaders[bucket_of(topic_id, number)] = 1
    asked.ownership.serving.clear()
    parts = tuple(d.ProducePartition(number, batch(b"v")) for number in range(250))
    reply = await asked.ask(d.ProduceRequest((d.ProduceTopic("long", NO_TOPIC_ID, parts),)))
    named = {one.current_leader[0] for one in reply.topics[0].partitions}
    assert named == {1}
    assert [node.node_id for node in reply.node_endpoints] == [1]


async def test_a_session_tells_the_leader_each_time_until_the_client_forgets_the_partition(asked):
    here, other = asked.numbers[HERE], asked.numbers[OTHER]
    first = await asked.ask(fetch([here, other], session_epoch=0))
    assert leaders_in(first, [here, other]) == [None, (1, EPOCH)]
    for epoch in (1, 2):
        again = d.FetchRequest((), 0, session_id=first.session_id, session_epoch=epoch)
        reply = await asked.ask(again)
        assert of_topic(reply) == {other: WRONG}
        assert leaders_in(reply, [other]) == [(1, EPOCH)]
        assert [node.node_id for node in reply.node_endpoints] == [1]
    forgotten = d.ForgottenTopic("t", NO_TOPIC_ID, (other,))
    last = d.FetchRequest(
        (), 0, session_id=first.session_id, session_epoch=3, forgotten=(forgotten,)
    )
    assert (await asked.ask(last)).topics == ()


@pytest.mark.parametrize("session_epoch", [-1, 0, 1], ids=["no session", "new", "incremental"])
async def test_a_long_poll_ends_when_the_partition_is_given_up(asked, session_epoch):
    here, session_id = asked.numbers[HERE], 0
    if session_epoch == 1:
        session_id = (await asked.ask(fetch([here], session_epoch=0))).session_id
    request = fetch(
        [here] if session_epoch < 1 else [],
        max_wait_ms=30_000,
        session_epoch=session_epoch,
        session_id=session_id,
    )
    reading = asyncio.ensure_future(asked.ask(request))
    await asked.node.settle()
    assert not reading.done()
    await asked.give_up(HERE)
    reply = await reading
    assert of_topic(reply) == {here: WRONG}
    assert leaders_in(reply, [here]) == [(1, EPOCH + 1)]
    assert [node.node_id for node in reply.node_endpoints] == [1]


async def test_who_waits_for_a_coordinators_log_is_told_when_it_goes(asked):
    unit = Unit(GROUPS, 0)
    asked.leaders[unit] = 1
    asked.node.shards.set(0, 0, 0)
    request = fetch_request(OFFSETS_TOPIC, (0, 0), max_wait_ms=30_000)
    reading = asyncio.ensure_future(asked.ask(request))
    await asked.node.settle()
    assert not reading.done()
    del asked.node.shards.states[0]
    for _, event in asked.node.shards.waiters:
        event.set()
    reply = await reading
    assert of_topic(reply) == {0: WRONG}
    assert leaders_in(reply, [0]) == [(1, 0)]


# What is shown of the cluster ----------------------------------------------------------------


def shown(info, numbers):
    """(error, leader, leader epoch, replicas, isr, offline) of partitions."""
    found = {}
    for run in info.partitions:
        for number in range(run.first, run.end):
            found[number] = run.error, run.leader, run.replicas, run.isr, run.offline
            assert run.leader_epoch == EPOCH
    return [found[number] for number in numbers]


async def test_metadata_says_which_partitions_have_no_leader(asked):
    reply = await asked.ask(c.MetadataRequest((("t", NO_TOPIC_ID),)))
    assert shown(reply.topics[0], asked.numbers) == [
        (OK, 0, (0,), (0,), ()),
        (OK, 1, (1,), (1,), ()),
        (LEADERLESS, -1, (), (), ()),
        (LEADERLESS, -1, (9,), (9,), (9,)),
    ]
    assert reply.topics[0].error is OK
    assert reply.controller_id == 0
    described = await asked.ask(c.DescribeTopicPartitionsRequest(("t",)))
    assert shown(described.topics[0], asked.numbers) == [
        (OK, 0, (0,), (0,), ()),
        (OK, 1, (1,), (1,), ()),
        (OK, -1, (), (), ()),
        (OK, -1, (9,), (9,), (9,)),
    ]


@pytest.mark.parametrize("request_", [c.MetadataRequest(()), c.DescribeClusterRequest()])
async def test_nodes_are_shown_with_rack_and_the_address_of_the_listener(asked, request_):
    reply = await asked.ask(request_, listener="OUT")
    assert reply.nodes == (c.Node(0, "o0", 19092, "a"), c.Node(1, "o1", 19093, "b"))
    assert reply.controller_id == 0


async def test_all_nodes_are_voters_and_every_node_names_the_same_leader(asked):
    asked.node.nodes[:] = [NODES[1], NODES[0]]
    reply = await asked.ask(q.DescribeQuorumRequest((("__cluster_metadata", (0,)),)))
    ((_, (partition,)),) = reply.topics
    assert partition.leader_id == 0
    assert sorted(voter.replica_id for voter in partition.voters) == [0, 1]
    assert sorted(node.node_id for node in reply.nodes) == [0, 1]


@pytest.mark.parametrize("topics", [None, (("t", tuple(range(8))),)])
async def test_log_dirs_have_what_this_node_leads(asked, topics):
    reply = await asked.ask(r.DescribeLogDirsRequest(topics))
    found = {name: [number for number, _ in sizes] for name, sizes in reply.log_dirs[0].topics}
    led = [number for number, unit in enumerate(asked.units) if unit.number % 4 == HERE]
    assert found["t"] == led


@pytest.mark.parametrize(("node", "code"), [(0, OK), (1, OK), (9, MOVED)])
async def test_partitions_may_be_assigned_to_nodes_that_exist(asked, node, code):
    new = t.NewTopic("new", assignments=((0, (node,)), (1, (0,))))
    created = await asked.ask(t.CreateTopicsRequest((new,)))
    assert created.topics[0].error is code
    grown = await asked.ask(t.CreatePartitionsRequest((t.GrownTopic("t", 9, ((node,),)),)))
    assert grown.results[0].error is code
