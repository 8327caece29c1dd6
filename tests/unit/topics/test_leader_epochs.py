"""Leader epochs, and partitions that go from one node to another: two data planes on one store."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from groupd.coordinator.core.partitioning import COMPACTED_TOPIC, OFFSETS_TOPIC
from groupd.coordinator.runtime.coordinator_types import TRANSACTIONS_TOPIC
from groupd.coordinator.topics import partitions
from groupd.coordinator.topics.partition import open_partition
from groupd.coordinator.topics.stored_batches import EPOCHS_MAX, LeaderEpochs
from groupd.coordinator.topics.topic import PARTITION_UNITS, Topic, bucket_of
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.cluster import MetadataRequest, Node
from groupd.protocol.messages.data import (
    FetchPartition,
    LeaderEpochPartition,
    LeaderEpochTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
)
from groupd.protocol.records.batch import iter_batches
from groupd.storage.memory import MemoryStore
from groupd.storage.units import GROUPS, TRANSACTIONS, Unit
from tests.unit.topics.owned import Owned

ELSEWHERE = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Move:
    """Two nodes with the topic `t` of one partition, and who leads it."""

    def __init__(self, make_cluster, store=None):
        self.store = store or MemoryStore()
        leaders, self.epochs = {}, {}
        self.ownerships = [Owned(node, leaders, self.epochs) for node in (0, 1)]
        self.leaders = leaders
        self.nodes = [make_cluster(self.store, node_id=node) for node in (0, 1)]
        for one in self.nodes:
            one.nodes.append(Node(1, "127.0.0.1", 9093))

    async def start(self):
        for node, ownership in zip(self.nodes, self.ownerships, strict=True):
            await node.start(ownership=ownership)
        topic_id = await self.nodes[0].create("t")
        await self.nodes[1].plane.catalogue.load()  # as if it had followed
        self.unit = bucket_of(topic_id, 0)
        return self

    async def lead(self, index, epoch):
        for ownership in self.ownerships:
            if self.unit in ownership.serving:
                ownership.serving.discard(self.unit)
                await self.nodes[ownership.leader(self.unit)].plane.unit_server.give_up(self.unit)
        self.leaders[self.unit], self.epochs[self.unit] = index, epoch
        self.ownerships[index].serving.add(self.unit)
        await self.nodes[index].plane.unit_server.serve(self.unit, epoch)


@pytest.fixture
async def move(make_cluster):
    made = await Move(make_cluster).start()
    yield made
    made.store.release_appends()
    for node in made.nodes:
        await node.plane.close()


def starts(*began):
    epochs = LeaderEpochs()
    for epoch, offset in began:
        epochs.began(epoch, offset)
    return epochs


def test_the_epoch_of_an_offset_and_the_end_of_an_epoch():
    epochs = starts((2, 0), (5, 10), (5, 12), (3, 14), (6, 20))
    assert [epochs.at(offset) for offset in (0, 9, 10, 19, 20, 99)] == [2, 2, 5, 5, 6, 6]
    ends = {epoch: epochs.end_of(epoch, 25) for epoch in range(-1, 8)}
    assert ends == {
        -1: (-1, -1),
        0: (0, 0),
        1: (1, 0),
        2: (2, 10),
        3: (2, 10),
        4: (2, 10),
        5: (5, 20),
        6: (6, 25),
        7: (-1, -1),
    }
    assert starts().latest == -1


def test_old_epochs_are_forgotten():
    epochs = starts(*((epoch, epoch) for epoch in range(EPOCHS_MAX + 5)))
    assert epochs.at(0) == 5
    assert epochs.end_of(2, 9999) == (2, 5)


def test_partitions_of_a_topic_are_in_units_that_follow_each_other():
    numbers = [bucket_of(b"x" * 16, partition).number for partition in range(70)]
    assert [(one - numbers[0]) % PARTITION_UNITS for one in numbers] == [
        partition % PARTITION_UNITS for partition in range(70)
    ]


async def test_the_partitions_of_coordinators_are_their_units(cluster):
    topic = cluster.plane.catalogue.topic
    assert topic(OFFSETS_TOPIC).unit(7) == topic(COMPACTED_TOPIC).unit(7) == Unit(GROUPS, 7)
    assert topic(TRANSACTIONS_TOPIC).unit(3) == Unit(TRANSACTIONS, 3)


class EpochStore(MemoryStore):
    """Its units are led at epoch 7 when partitions are made, as in a cluster."""

    async def put_topic(self, topic, made=None):
        if made is not None:
            began = (made.first, tuple(7 for _ in made.units))
            topic = replace(topic, first_epochs=(*topic.first_epochs, began))
        return await super().put_topic(topic, made)


@pytest.fixture
async def counted(make_cluster):
    """The same as `move`, in a store whose topics begin at epoch 7 of their units."""
    made = await Move(make_cluster, EpochStore()).start()
    yield made
    for node in made.nodes:
        await node.plane.close()


async def test_a_topic_counts_leader_epochs_from_its_beginning(counted):
    a, b = counted.nodes
    await counted.lead(0, 7)
    assert (await a.produce("t", a.batch(b"1"))).error is ErrorCode.NONE
    await counted.lead(1, 9)
    assert (await b.produce("t", b.batch(b"2"))).error is ErrorCode.NONE
    headers = [one.header for one in iter_batches(bytes((await b.fetch("t")).records))]
    assert [one.leader_epoch for one in headers] == [0, 2]
    assert await fetched_at(b, 2) is ErrorCode.NONE
    assert await fetched_at(b, 1) is ErrorCode.FENCED_LEADER_EPOCH
    assert await leader_of(b) == (ErrorCode.NONE, 1, 2)


async def test_a_node_that_has_not_heard_of_the_leader_yet_names_none(counted):
    """The unit was led at epoch 6 when this node looked last, which was before there was a topic.
    Whom it knows is not named at the epoch at which the next leader begins."""
    a, _ = counted.nodes
    await counted.lead(1, 6)
    assert await leader_of(a) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, -1)
    assert await fetched_at(a, 0) is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_where_partitions_began():
    units = tuple(range(100, 100 + PARTITION_UNITS))
    topic = Topic(b"x" * 16, "t", 200, first_epochs=((2, (4, 5)), (10, units)))
    assert [topic.first_epoch(partition) for partition in (0, 1, 2, 3)] == [0, 0, 4, 5]
    assert topic.first_epoch(4) == 0, "added by a node that was alone"
    assert topic.first_epoch(10) == topic.first_epoch(10 + PARTITION_UNITS) == 100
    assert topic.first_epoch(10 + PARTITION_UNITS - 1) == 100 + PARTITION_UNITS - 1
    assert Topic(b"x" * 16, "t", 5).first_epoch(3) == 0


async def test_added_partitions_have_a_beginning_of_their_own(make_cluster):
    cluster = await make_cluster(EpochStore()).start()
    await cluster.create("t", 1)
    topic = await cluster.plane.catalogue.grow(cluster.plane.catalogue.topic("t").topic_id, 70)
    rest = (7,) * PARTITION_UNITS
    assert topic.first_epochs == ((0, (7,)), (1, rest))
    topic = await cluster.plane.catalogue.change_configs(topic.topic_id, lambda _: {"a": "b"})
    assert topic.first_epochs == ((0, (7,)), (1, rest))
    await cluster.plane.catalogue.load()
    assert cluster.plane.catalogue.topic("t") == topic
    await cluster.stop()


async def test_only_the_leader_takes_and_gives_records(move):
    a, b = move.nodes
    await move.lead(0, 1)
    assert (await a.produce("t", a.batch(b"1"))).error is ErrorCode.NONE
    assert (await b.produce("t", b.batch(b"2"))).error is ELSEWHERE
    assert (await b.fetch("t")).error is ELSEWHERE
    await move.lead(1, 2)
    assert (await a.produce("t", a.batch(b"3"))).error is ELSEWHERE
    assert (await a.fetch("t")).error is ELSEWHERE
    assert (await b.produce("t", b.batch(b"4"))).base_offset == 1
    fetched = await b.fetch("t")
    headers = [batch.header for batch in iter_batches(bytes(fetched.records))]
    assert [(one.base_offset, one.leader_epoch) for one in headers] == [(0, 1), (1, 2)]


async def fetched_at(node, epoch):
    asked = FetchPartition(0, 0, 1000, current_leader_epoch=epoch)
    return (await node.ask(node.fetch_request("t", asked))).topics[0].partitions[0].error


async def test_clients_that_name_another_epoch_are_refused(move):
    a, b = move.nodes
    await move.lead(0, 3)
    assert await fetched_at(a, 3) is ErrorCode.NONE
    assert await fetched_at(a, 2) is ErrorCode.FENCED_LEADER_EPOCH
    assert await fetched_at(a, 4) is ErrorCode.UNKNOWN_LEADER_EPOCH
    await move.lead(1, 4)
    assert await fetched_at(b, 4) is ErrorCode.NONE


async def test_the_history_of_epochs_comes_from_the_log(move):
    a, b = move.nodes
    await move.lead(0, 1)
    await a.produce("t", a.batch(b"1", b"2"))
    await move.lead(1, 4)
    await b.produce("t", b.batch(b"3"))
    await move.lead(0, 6)

    async def end_of(epoch):
        asked = LeaderEpochPartition(0, epoch, 6)
        request = OffsetForLeaderEpochRequest((LeaderEpochTopic("t", (asked,)),))
        end = (await a.ask(request)).topics[0].partitions[0]
        return end.leader_epoch, end.end_offset

    assert [await end_of(epoch) for epoch in (1, 2, 4, 6, 7)] == [
        (1, 2),
        (1, 2),
        (4, 3),
        (6, 3),
        (-1, -1),
    ]

    async def listed(timestamp_ms):
        asked = ListOffsetsPartition(0, timestamp_ms)
        reply = await a.ask(ListOffsetsRequest((ListOffsetsTopic("t", (asked,)),)))
        (found,) = reply.topics[0].partitions
        return found.offset, found.leader_epoch

    assert await listed(-2) == (0, 1)
    assert await listed(-1) == (3, 6)


async def leader_of(node):
    reply = await node.ask(MetadataRequest((("t", NO_TOPIC_ID),)))
    (run,) = reply.topics[0].partitions
    return run.error, run.leader, run.leader_epoch


async def test_metadata_names_the_leader_and_its_epoch(move):
    (a, _) = move.nodes
    await move.lead(1, 5)
    assert await leader_of(a) == (ErrorCode.NONE, 1, 5)


async def test_records_under_way_are_answered_before_the_partition_is_given_up(move):
    a, b = move.nodes
    await move.lead(0, 1)
    await a.produce("t", a.batch(b"0"))
    move.store.hold_appends()
    sending = asyncio.ensure_future(a.produce("t", a.batch(b"1")))
    await a.settle()
    moving = asyncio.ensure_future(move.lead(1, 2))
    await a.settle()
    assert not moving.done()
    move.store.release_appends()
    await moving
    assert (await sending).error is ErrorCode.NONE
    assert (await b.fetch("t")).high_watermark == 2


async def test_a_reader_that_waits_is_told_to_look_for_the_leader(move):
    a, _ = move.nodes
    await move.lead(0, 1)
    await a.produce("t", a.batch(b"0"))
    reading = asyncio.ensure_future(a.fetch("t", 1, max_wait_ms=30_000, min_bytes=1))
    await a.settle()
    assert not reading.done()
    await move.lead(1, 2)
    assert (await reading).error is ELSEWHERE


async def test_a_partition_that_is_dropped_is_opened_anew_by_the_next_leader(move):
    a, b = move.nodes
    await move.lead(0, 1)
    await a.produce("t", a.batch(b"0"))
    log = a.plane.partitions.is_open(a.plane.catalogue.topic("t"), 0)
    move.ownerships[0].serving.clear()
    a.plane.unit_server.drop(move.unit)
    assert log.closed
    assert a.plane.partitions.is_open(a.plane.catalogue.topic("t"), 0) is None
    await move.lead(1, 2)
    assert (await b.produce("t", b.batch(b"1"))).base_offset == 1


async def test_a_partition_that_was_being_opened_when_its_leader_lost_it(move, monkeypatch):
    """What it has read is old by the time that this node leads it again."""
    opened, go_on = asyncio.Event(), asyncio.Event()

    async def slow(*arguments):
        log = await open_partition(*arguments)
        opened.set()
        await go_on.wait()
        return log

    a, b = move.nodes
    await move.lead(0, 1)
    monkeypatch.setattr(partitions, "open_partition", slow)
    early = asyncio.create_task(a.produce("t", a.batch(b"0", producer=4, epoch=0)))
    await opened.wait()
    # The lease is lost, and this node has not seen yet that the unit has another epoch.
    move.ownerships[0].serving.discard(move.unit)
    a.plane.unit_server.drop(move.unit)
    go_on.set()
    assert (await early).error is ELSEWHERE
    await move.lead(1, 2)
    assert (await b.produce("t", b.batch(b"0", producer=4, epoch=0))).base_offset == 0
    await move.lead(0, 3)
    again = await a.produce("t", a.batch(b"1", producer=4, epoch=0, sequence=1))
    assert (again.error, again.base_offset) == (ErrorCode.NONE, 1)
