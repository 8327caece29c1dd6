"""Share sessions at their node (docs/spec/share-group.md#SG-67 to SG-83), and the checks of
SG-01 to SG-08 that ShareFetch and ShareAcknowledge make."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.types import Resource
from groupd.coordinator.share_partitions import reading
from groupd.coordinator.share_partitions.reading import read_batches
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.share_fetch import (
    AcknowledgedPartition,
    AcknowledgedTopic,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from groupd.protocol.messages.share_state import ReadShareGroupStateRequest
from tests.support.access import allow_all
from tests.unit.share_partitions.share_world import (
    GROUP,
    LOCK_MS,
    OK,
    ShareWorld,
    acked,
    acquired,
    partitions_of,
)


async def test_the_first_reply_names_all_partitions_and_later_ones_only_news(world, foo):
    """SG-67"""
    member = world.connect()
    reply = await member.late(0, (foo, 0), (foo, 1), (foo, 2))
    assert sorted(partitions_of(reply)) == [0, 1, 2]
    assert all(one.error is OK for one in partitions_of(reply).values())
    assert reply.lock_timeout_ms == LOCK_MS
    assert partitions_of(await member.late(1)) == {}


async def test_without_a_session(world, foo):
    """SG-68"""
    member = world.connect()
    for epoch in (3, -1):
        assert (await member.fetch(epoch)).error is ErrorCode.SHARE_SESSION_NOT_FOUND
        assert (await member.acknowledge(epoch)).error is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await member.acknowledge(0)).error is ErrorCode.INVALID_SHARE_SESSION_EPOCH


async def test_fetch_and_acknowledge_share_their_epochs(world, foo):
    """SG-69"""
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=0)
    await member.fetch(1, max_records=0)
    for epoch in (1, 3, -7):
        reply = await member.fetch(epoch, max_records=0)
        assert reply.error is ErrorCode.INVALID_SHARE_SESSION_EPOCH
        assert reply.lock_timeout_ms == 0
    assert (await member.fetch(2, max_records=0)).error is OK
    assert (await member.acknowledge(3)).error is OK
    assert (await member.fetch(4, max_records=0)).error is OK


async def test_a_session_does_not_begin_with_acknowledgements(world, foo):
    """SG-70"""
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=0)
    reply = await member.fetch(0, acks={(foo, 0): [acked(0, 1)]})
    assert reply.error is ErrorCode.INVALID_REQUEST
    assert (await member.fetch(1, max_records=0)).error is OK


async def test_records_outlive_a_session_that_a_new_one_replaces(world, foo):
    """SG-71"""
    await world.produce_records(10)
    member, other = world.connect(), world.connect("m2")
    assert acquired(await member.fetch(0, (foo, 0))) == [(0, 9, 1)]
    assert acquired(await member.late(0, (foo, 0))) == []
    assert acquired(await other.late(0, (foo, 0))) == []
    reply = await member.acknowledge(1, {(foo, 0): [acked(0, 9)]})
    assert partitions_of(reply)[0].error is OK


async def test_a_last_fetch_acknowledges_and_releases_the_rest(world, foo):
    """SG-72"""
    await world.produce_records(10)
    member, other = world.connect(), world.connect("m2")
    await member.fetch(0, (foo, 0), (foo, 1))
    reply = await member.fetch(-1, acks={(foo, 0): [acked(0, 4)]})
    (entry,) = partitions_of(reply).values()
    assert (entry.partition, entry.error, entry.acknowledge_error) == (0, OK, OK)
    assert acquired(await other.fetch(0, (foo, 0))) == [(5, 9, 2)]
    assert (await member.fetch(-1)).error is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_a_last_acknowledge_releases_everything(world, foo):
    """SG-73"""
    await world.produce_records(10)
    member, other = world.connect(), world.connect("m2")
    await member.fetch(0, (foo, 0))
    assert partitions_of(await member.acknowledge(-1)) == {}
    assert acquired(await other.fetch(0, (foo, 0))) == [(0, 9, 2)]


async def test_the_end_of_the_connection_releases_everything(world, foo):
    """SG-74"""
    await world.produce_records(10)
    member, other = world.connect(), world.connect("m2")
    await member.fetch(0, (foo, 0))
    waiting = other.ask_fetch(0, (foo, 0))
    await world.settle()
    member.leave()
    await world.settle()
    assert acquired(waiting.reply) == [(0, 9, 2)]
    assert world.shares.counts.sessions_evicted == 1
    member.connect()
    assert (await member.fetch(1)).error is ErrorCode.SHARE_SESSION_NOT_FOUND


async def test_the_session_of_another_connection_stays(world, foo):
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=0)
    old = member.session
    member.connect()
    await member.fetch(0, (foo, 0), max_records=0)
    old.end()
    assert (await member.fetch(1, max_records=0)).error is OK


async def test_sessions_are_limited():
    """SG-75"""
    world = await ShareWorld(share_max_share_sessions=2).start()
    foo = await world.create()
    members = [world.connect(f"m{number}") for number in range(3)]
    for member in members[:2]:
        await member.fetch(0, (foo, 0), max_records=0)
    reply = await members[2].late(0, (foo, 0), max_records=0)
    assert reply.error is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert (await members[0].fetch(0, (foo, 0), max_records=0)).error is OK
    members[1].leave()
    assert (await members[2].fetch(0, (foo, 0), max_records=0)).error is OK
    await world.stop()


async def test_a_forgotten_partition_is_not_read_but_can_be_acknowledged(world, foo):
    """SG-76"""
    await world.produce_records(10)
    await world.produce_records(10, partition=1)
    member, other = world.connect(), world.connect("m2")
    reply = await member.fetch(0, (foo, 0), (foo, 1))
    assert acquired(reply, 0) == acquired(reply, 1) == [(0, 9, 1)]
    await world.produce_records(1)
    assert partitions_of(await member.late(1, forget=[(foo, 0)])) == {}
    reply = await member.acknowledge(2, {(foo, 0): [acked(0, 4)]})
    assert partitions_of(reply)[0].error is OK
    assert (await member.fetch(-1)).error is OK
    assert acquired(await other.fetch(0, (foo, 1)), 1) == [(0, 9, 2)]
    assert acquired(await other.fetch(0, (foo, 0))) == [(10, 10, 1)]
    world.advance(LOCK_MS - 500)
    await world.settle()
    assert acquired(await other.fetch(0, (foo, 0))) == [(5, 9, 2)]


async def test_a_partition_may_be_acknowledged_and_forgotten_at_once(world, foo):
    """SG-77"""
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    reply = await member.fetch(1, acks={(foo, 0): [acked(0, 9)]}, forget=[(foo, 0)])
    assert partitions_of(reply)[0].acknowledge_error is OK
    await world.produce_records(10)
    assert partitions_of(await member.fetch(2)) == {}


async def test_a_topic_may_come_twice(world, foo):
    """SG-77"""
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    topics = tuple(
        AcknowledgedTopic(foo, (AcknowledgedPartition(0, (batch,)),))
        for batch in (acked(0, 4), acked(5, 9))
    )
    waiter = member.send(ShareAcknowledgeRequest(GROUP, "m1", 1, topics=topics))
    await world.settle()
    assert partitions_of(waiter.reply)[0].error is OK
    (share,) = world.shares.leaders.of_group(GROUP)
    assert share.records.start_offset == 10


async def test_a_new_partition_is_named_once(world, foo):
    """SG-78"""
    member = world.connect()
    await member.fetch(0, max_records=0)
    assert sorted(partitions_of(await member.late(1, (foo, 0)))) == [0]
    assert partitions_of(await member.late(2)) == {}


async def test_a_partition_that_has_failed_is_named_again(world, foo):
    """SG-78"""
    member = world.connect()
    world.persister.refused = (ReadShareGroupStateRequest,)
    world.persister.refusals = [ErrorCode.INVALID_REQUEST]
    reply = await member.late(0, (foo, 0))
    assert partitions_of(reply)[0].error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert sorted(partitions_of(await member.late(1))) == [0]
    assert partitions_of(await member.late(2)) == {}


async def test_topics_that_cannot_be_read(world, foo):
    """SG-79"""

    def allows(operation, resource, name):
        return resource != Resource.TOPIC or name == "foo"

    bar = await world.create("bar", 1)
    member = world.connect()
    asked = (b"?" * 16, 0), (foo, 7), (bar, 0)
    reply = await member.fetch(0, *asked, allows=allows)
    wanted = {
        asked[0]: ErrorCode.UNKNOWN_TOPIC_ID,
        asked[1]: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        asked[2]: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    assert {
        (topic.topic_id, one.partition): one.error
        for topic in reply.topics
        for one in topic.partitions
    } == wanted
    acks = {key: [acked(0, 1)] for key in asked}
    reply = await member.fetch(1, acks=acks, allows=allows)
    assert {
        (topic.topic_id, one.partition): (one.error, one.acknowledge_error)
        for topic in reply.topics
        for one in topic.partitions
    } == {key: (code, code) for key, code in wanted.items()}


async def test_a_share_partition_that_is_not_initialised(world):
    """SG-81"""
    await world.set_configs(share_auto_offset_reset="earliest")
    foo = await world.cluster.create("foo", 1)
    await world.produce_records(10)
    member = world.connect()
    reply = await member.late(0, (foo, 0))
    assert partitions_of(reply)[0].error is ErrorCode.UNKNOWN_SERVER_ERROR
    await world.initialize(foo, [0])
    assert acquired(await member.fetch(1)) == [(0, 9, 1)]


async def test_a_fetch_that_another_one_has_overtaken(world, foo):
    """SG-82. As a difference to Kafka it acquires nothing."""
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=0)
    first = member.ask_fetch(1)
    second = member.ask_fetch(2)
    await world.settle()
    await world.produce_records(10)
    await world.settle()
    assert first.reply.error is ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert acquired(second.reply) == [(0, 9, 1)]


async def test_requests_that_make_no_sense(world, foo):
    """SG-83"""
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=0)
    reply = await member.fetch(
        1, is_renew_ack=True, max_wait_ms=0, min_bytes=0, max_records=0, max_bytes=1
    )
    assert reply.error is ErrorCode.INVALID_REQUEST
    reply = await member.fetch(1, acquire_mode=2)
    assert reply.error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await member.fetch(1, max_records=0)).error is OK


@pytest.mark.parametrize("kind", [ShareFetchRequest, ShareAcknowledgeRequest])
async def test_checks_of_the_member(world, foo, kind):
    """SG-03, SG-05, SG-08"""
    member = world.connect()

    async def code(group, name, allows=allow_all):
        waiter = member.send(kind(group, name, 0), allows=allows)
        await world.settle()
        return waiter.reply.error

    def no_groups(operation, resource, name):
        return resource != Resource.GROUP

    assert await code(None, "m", no_groups) is ErrorCode.INVALID_REQUEST
    assert await code(GROUP, "", no_groups) is ErrorCode.GROUP_AUTHORIZATION_FAILED
    for name in (None, "", "m" * 37):
        assert await code(GROUP, name) is ErrorCode.INVALID_REQUEST
    assert await code(GROUP, "m" * 36) is not ErrorCode.INVALID_REQUEST
    assert await code("", "m") is not ErrorCode.INVALID_REQUEST


async def test_share_groups_are_off():
    """SG-01"""
    world = await ShareWorld(share_version=0).start()
    member = world.connect()
    for reply in (await member.fetch(0), await member.acknowledge(1)):
        assert reply.error is ErrorCode.UNSUPPORTED_VERSION
        assert reply.lock_timeout_ms == 0
    await world.stop()


async def test_share_partitions_are_dropped_with_the_last_session_of_the_group(world, foo):
    await world.produce_records(10)
    members = [world.connect(), world.connect("m2")]
    await members[0].fetch(0, (foo, 0))
    await members[1].fetch(0, (foo, 1), max_wait_ms=0)
    assert len(world.shares.leaders) == 2
    members[1].leave()
    await world.settle()
    assert len(world.shares.leaders) == 2
    members[0].leave()
    await world.settle()
    assert len(world.shares.leaders) == 0
    assert world.plane.long_polls._waited_for == 0


async def test_the_limit_on_partitions(world, foo, monkeypatch):
    monkeypatch.setattr(world.shares.sessions, "_partitions_max", 2)
    member = world.connect()
    reply = await member.late(0, *[(foo, number) for number in range(3)])
    assert reply.error is ErrorCode.SHARE_SESSION_LIMIT_REACHED
    await member.fetch(0, (foo, 0), (foo, 1), max_records=0)
    reply = await member.fetch(1, (foo, 2), max_records=0)
    assert reply.error is ErrorCode.SHARE_SESSION_NOT_FOUND
    assert len(world.shares.sessions) == 0


async def test_a_client_that_is_gone_acquires_nothing(world, foo):
    member, other = world.connect(), world.connect("m2")
    waiter = member.ask_fetch(0, (foo, 0))
    await world.settle()
    member.leave()
    await world.produce_records(10)
    await world.settle()
    assert waiter.reply is None
    assert acquired(await other.fetch(0, (foo, 0))) == [(0, 9, 1)]


async def test_another_node_leads(world, foo):
    """SG-80"""
    world.cluster.nodes.append(Node(1, "host", 9093))
    ownership = world.plane.layout._ownership
    ownership.serves = lambda unit: False
    ownership.leader = lambda unit: 1
    member = world.connect()
    reply = await member.fetch(0, (foo, 0))
    entry = partitions_of(reply)[0]
    assert entry.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert entry.current_leader[0] == 1
    assert [node.node_id for node in reply.node_endpoints] == [1]
    assert reply.lock_timeout_ms == LOCK_MS


async def test_a_lease_that_ends_while_records_are_read(world, foo, monkeypatch):
    """The next leader may have given the same records to somebody else by now."""
    ownership = world.plane.layout._ownership
    serves = ownership.serves

    async def read_slowly(*arguments, **options):
        found = await read_batches(*arguments, **options)
        ownership.serves = lambda unit: False
        return found

    member, other = world.connect(), world.connect("m2")
    await member.fetch(0, (foo, 0), max_wait_ms=0)
    await world.produce_records(10)
    monkeypatch.setattr(reading, "read_batches", read_slowly)
    assert acquired(await member.fetch(1, max_wait_ms=0)) == []
    monkeypatch.undo()
    ownership.serves = serves
    assert acquired(await other.fetch(0, (foo, 0))) == [(0, 9, 1)]
