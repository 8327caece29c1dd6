"""What members get, and when (docs/spec/share-group.md#SG-84 to SG-106)."""

from __future__ import annotations

import pytest

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_fetch import RECORD_LIMIT, RELEASE
from groupd.protocol.messages.share_state import (
    DeleteShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ShareStateTopic,
)
from tests.unit.share_partitions.share_world import (
    GROUP,
    LOCK_MS,
    OK,
    acked,
    acquired,
    offsets_in,
    partitions_of,
)


async def test_rights_are_checked_once_a_topic(world, foo):
    """However many partitions a request names, and however often it looks at them."""
    asked = []

    def allows(operation, resource, name):
        asked.append(name)
        return True

    member, places = world.connect(), [(foo, number) for number in range(3)]
    waiter = member.ask_fetch(0, *places, allows=allows)
    await world.settle()
    assert (waiter.reply, asked) == (None, [GROUP, "foo"])
    await world.produce_records(1)
    await world.settle()
    assert acquired(waiter.reply) == [(0, 0, 1)]
    await member.acknowledge(1, {place: [acked(0, 0)] for place in places}, allows=allows)
    assert asked == [GROUP, "foo", GROUP, "foo"]


async def test_each_record_goes_to_one_member(world, foo):
    """SG-84"""
    await world.produce_records(10)
    first, second = world.connect(), world.connect("m2")
    assert acquired(await first.fetch(0, (foo, 0))) == [(0, 9, 1)]
    assert acquired(await second.late(0, (foo, 0))) == []
    await world.produce_records(10)
    assert acquired(await second.fetch(1)) == [(10, 19, 1)]


async def test_batches_are_whole_unless_the_limit_is_strict(world, foo):
    """SG-85"""
    await world.produce_records(10)
    await world.produce_records(10)
    first, second = world.connect(), world.connect("m2")
    assert acquired(await first.fetch(0, (foo, 0), max_records=1)) == [(0, 9, 1)]
    reply = await first.fetch(1, max_records=1, acquire_mode=RECORD_LIMIT)
    assert acquired(reply) == [(10, 10, 1)]
    assert offsets_in(reply) == [(10, 19)]
    reply = await second.fetch(0, (foo, 0), max_records=5, acquire_mode=RECORD_LIMIT)
    assert acquired(reply) == [(11, 15, 1)]


async def test_batch_size_divides_what_was_acquired(world, foo):
    """SG-86"""
    for _ in range(10):
        await world.produce_records(1)
    member = world.connect()
    reply = await member.fetch(0, (foo, 0), max_records=5, batch_size=1)
    assert acquired(reply) == [(offset, offset, 1) for offset in range(5)]
    assert offsets_in(reply) == [(offset, offset) for offset in range(5)]
    assert acquired(await member.fetch(1, max_records=5)) == [(5, 9, 1)]


async def test_the_batch_that_reaches_the_limit_comes_too(world, foo):
    """SG-87"""
    for count in (5, 15, 15):
        await world.produce_records(count)
    member = world.connect()
    reply = await member.fetch(0, (foo, 0), max_records=10)
    assert acquired(reply) == [(0, 19, 1)]
    assert offsets_in(reply) == [(0, 4), (5, 19)]


async def test_the_partitions_share_one_budget_and_take_turns(world, foo):
    """SG-88"""
    given = []
    for partition in (0, 1):
        for _ in range(2):
            await world.produce_records(10, partition=partition)
    member = world.connect()
    for epoch in range(4):
        asked = [(foo, 0), (foo, 1)] if not epoch else []
        reply = await member.fetch(epoch, *asked, max_records=10)
        given.append([one.partition for one in partitions_of(reply).values() if one.acquired])
    assert sorted(given) == [[0], [0], [1], [1]]


async def test_locks_are_limited(world, foo):
    """SG-89"""
    await world.set_configs(
        share_auto_offset_reset="earliest", share_partition_max_record_locks="100"
    )
    for _ in range(2):
        await world.produce_records(100)
    first, second = world.connect(), world.connect("m2")
    assert acquired(await first.fetch(0, (foo, 0))) == [(0, 99, 1)]
    assert acquired(await second.late(0, (foo, 0))) == []
    await first.acknowledge(1, {(foo, 0): [acked(20, 20, RELEASE)]})
    assert acquired(await second.fetch(1)) == [(20, 20, 2)]


async def test_accepted_records_behind_a_lock_count_too(world, foo):
    """SG-90"""
    await world.set_configs(
        share_auto_offset_reset="earliest", share_partition_max_record_locks="100"
    )
    for _ in range(2):
        await world.produce_records(100)
    first, second = world.connect(), world.connect("m2")
    await first.fetch(0, (foo, 0))
    await first.acknowledge(1, {(foo, 0): [acked(50, 99)]})
    assert acquired(await second.late(0, (foo, 0))) == []
    await first.acknowledge(2, {(foo, 0): [acked(0, 49)]})
    assert acquired(await second.fetch(1)) == [(100, 199, 1)]


@pytest.mark.parametrize("limits", [{"max_records": 0}, {"max_bytes": 0}])
async def test_a_fetch_that_only_acknowledges(world, foo, limits):
    """SG-91"""
    await world.produce_records(10)
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=10)
    reply = await member.fetch(1, acks={(foo, 0): [acked(0, 9)]}, **limits)
    entry = partitions_of(reply)[0]
    assert (entry.error, entry.acknowledge_error, entry.acquired) == (OK, OK, ())


async def test_it_waits_for_enough_bytes(world, foo):
    """SG-92"""
    member = world.connect()
    waiter = member.ask_fetch(0, (foo, 0))
    await world.settle()
    world.advance(100)
    await world.produce_records(10)
    await world.settle()
    assert acquired(waiter.reply) == [(0, 9, 1)]
    await world.produce_records(10)
    assert acquired(await member.late(1, min_bytes=1 << 20)) == [(10, 19, 1)]
    assert acquired(await member.fetch(2, min_bytes=0)) == []


async def test_it_acquires_nothing_before_there_is_enough(world, foo):
    await world.produce_records(10)
    first, second = world.connect(), world.connect("m2")
    waiter = first.ask_fetch(0, (foo, 0), min_bytes=1 << 20)
    await world.settle()
    assert acquired(await second.fetch(0, (foo, 0))) == [(0, 9, 1)]
    world.advance(500)
    await world.settle()
    assert acquired(waiter.reply) == []


async def test_released_records_go_to_a_waiting_member_at_once(world, foo):
    """SG-93"""
    await world.produce_records(10)
    first, second = world.connect(), world.connect("m2")
    await first.fetch(0, (foo, 0))
    waiter = second.ask_fetch(0, (foo, 0))
    await world.settle()
    await first.acknowledge(1, {(foo, 0): [acked(0, 9, RELEASE)]})
    assert acquired(waiter.reply) == [(0, 9, 2)]


async def test_a_lock_ends(world, foo):
    """SG-94"""
    await world.set_configs(
        share_auto_offset_reset="earliest", share_record_lock_duration_ms="15000"
    )
    await world.produce_records(10)
    first, second = world.connect(), world.connect("m2")
    await first.fetch(0, (foo, 0))
    waiter = second.ask_fetch(0, (foo, 0), max_wait_ms=60_000)
    await world.settle()
    world.advance(14_999)
    await world.settle()
    assert waiter.reply is None
    world.advance(1)
    await world.settle()
    assert acquired(waiter.reply) == [(0, 9, 2)]
    reply = await first.acknowledge(1, {(foo, 0): [acked(0, 9)]})
    assert partitions_of(reply)[0].error is ErrorCode.INVALID_RECORD_STATE
    assert world.shares.counts.lock_timeouts == 10
    assert [one.what for one in world.shares.counts.events] == ["expired"]


async def test_the_end_of_a_lock_counts_even_if_it_cannot_be_written(world, foo):
    await world.produce_records(10)
    first, second = world.connect(), world.connect("m2")
    await first.fetch(0, (foo, 0))
    world.persister.refusals = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.advance(LOCK_MS)
    await world.settle()
    assert acquired(await second.fetch(0, (foo, 0))) == [(0, 9, 2)]


async def test_the_last_delivery(world, foo):
    """SG-95"""
    await world.set_configs(share_auto_offset_reset="earliest", share_delivery_count_limit="2")
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    await member.acknowledge(1, {(foo, 0): [acked(0, 9, RELEASE)]})
    assert acquired(await member.fetch(2)) == [(0, 9, 2)]
    await member.acknowledge(3, {(foo, 0): [acked(0, 9, RELEASE)]})
    assert acquired(await member.late(4)) == []
    (share,) = world.shares.leaders.of_group(GROUP)
    assert share.records.start_offset == 10
    counts = world.shares.counts
    assert [(one.what, one.why) for one in counts.events] == [("released", "")]
    assert [(one.what, one.why) for one in counts.archived_events] == [
        ("archived", "delivery limit")
    ]


async def test_what_is_over_moves_the_start(world, foo):
    """SG-98"""
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    await member.acknowledge(1, {(foo, 0): [acked(0, 4), acked(5, 9, RELEASE)]})
    assert acquired(await member.fetch(2)) == [(5, 9, 2)]
    (share,) = world.shares.leaders.of_group(GROUP)
    assert share.records.start_offset == 5


async def test_where_a_group_begins(world):
    """SG-99"""
    hour_ms = 3_600_000
    now_ms = world.clock.now().wall_ms
    foo = await world.create()
    for partition in range(3):
        await world.produce(b"old", partition=partition, timestamp=now_ms - 2 * hour_ms)
        await world.produce(b"new", partition=partition, timestamp=now_ms)
    member = world.connect()
    for partition, (reset, wanted) in enumerate(
        [("latest", []), ("earliest", [(0, 1, 1)]), ("by_duration:PT1H", [(1, 1, 1)])]
    ):
        await world.set_configs(share_auto_offset_reset=reset)
        waiter = member.ask_fetch(0, (foo, partition))
        await world.settle()
        world.advance(500)
        await world.settle()
        assert acquired(waiter.reply, partition) == wanted


async def test_no_record_is_young_enough(world):
    """SG-99"""
    await world.set_configs(share_auto_offset_reset="by_duration:PT1H")
    foo = await world.create()
    reply = await world.connect().late(0, (foo, 0))
    assert partitions_of(reply)[0].error is ErrorCode.OFFSET_NOT_AVAILABLE


async def aborted(world):
    """Offsets 0 to 4 of an aborted transaction, and its marker at 5."""
    await world.cluster.send("foo", *[b"v"] * 5)
    await world.cluster.end("foo", commit=False)


async def test_uncommitted_records_are_delivered(world, foo):
    """SG-100"""
    await aborted(world)
    assert acquired(await world.connect().fetch(0, (foo, 0))) == [(0, 5, 1)]


async def test_aborted_records_are_left_out(world, foo):
    """SG-101"""
    await world.set_configs(
        share_auto_offset_reset="earliest", share_isolation_level="read_committed"
    )
    await aborted(world)
    member = world.connect()
    assert acquired(await member.fetch(0, (foo, 0))) == [(5, 5, 1)]
    await world.cluster.send("foo", b"v", sequence=5)
    waiter = member.ask_fetch(1)
    await world.settle()
    assert waiter.reply is None
    await world.cluster.end("foo", commit=True)
    await world.settle()
    assert acquired(waiter.reply) == [(6, 7, 1)]
    reply = await member.acknowledge(2, {(foo, 0): [acked(5, 5, 0)]})
    assert partitions_of(reply)[0].error is OK
    (share,) = world.shares.leaders.of_group(GROUP)
    assert share.records.start_offset == 6


async def test_deleted_records(world, foo):
    """SG-102"""
    for _ in range(3):
        await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0), max_wait_ms=0)
    topic = world.plane.catalogue.topic("foo")
    await world.plane.partitions.delete_before(topic, 0, 20)
    reply = await member.fetch(1)
    assert acquired(reply) == []
    assert acquired(await member.fetch(2)) == [(20, 29, 1)]
    (share,) = world.shares.leaders.of_group(GROUP)
    assert share.records.start_offset == 20


async def test_after_a_restart_unacknowledged_records_are_new(world, foo):
    """SG-104"""
    for _ in range(3):
        await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=20)
    await member.acknowledge(1, {(foo, 0): [acked(10, 19)]})
    world.make_leader()
    assert acquired(await member.fetch(0, (foo, 0), max_records=15)) == [(0, 9, 1), (20, 29, 1)]


async def test_delivery_counts_outlive_a_restart(world, foo):
    """SG-105"""
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    for epoch in (1, 3):
        await member.acknowledge(epoch, {(foo, 0): [acked(0, 9, RELEASE)]})
        if epoch == 1:
            await member.fetch(2)
    world.make_leader()
    assert acquired(await member.fetch(0, (foo, 0)))[0][2] == 3


async def test_an_altered_start_offset_fences_the_leader(world, foo):
    """SG-106"""
    for _ in range(2):
        await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=10)
    await world.initialize(foo, [0], start_offset=15, epoch=4)
    reply = await member.acknowledge(1, {(foo, 0): [acked(0, 9)]})
    entry = partitions_of(reply)[0]
    assert entry.error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert entry.current_leader[0] == 0
    assert acquired(await member.fetch(2)) == [(15, 19, 1)]


async def test_a_state_that_was_deleted_is_given_up(world, foo):
    """A group of the same name may come after the one whose state this was."""
    await world.produce_records(10)
    member = world.connect()
    await member.fetch(0, (foo, 0), max_records=10)
    await world.coordinator.ask(DeleteShareGroupStateRequest(GROUP, [ShareStateTopic(foo, [0])]))
    reply = await member.acknowledge(1, {(foo, 0): [acked(0, 9)]})
    assert partitions_of(reply)[0].error is ErrorCode.UNKNOWN_SERVER_ERROR
    await world.initialize(foo, [0], start_offset=5)
    assert acquired(await member.fetch(2)) == [(5, 9, 1)]


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.FENCED_STATE_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_errors_of_a_load(world, foo, code, seen):
    """The table of docs/spec/share-group.md#4.2."""
    await world.produce_records(10)
    world.persister.refused = (ReadShareGroupStateRequest,)
    world.persister.refusals = [code]
    member = world.connect()
    reply = await member.late(0, (foo, 0))
    assert partitions_of(reply)[0].error is seen
    assert acquired(await member.fetch(1)) == [(0, 9, 1)]


async def test_a_fetch_waits_for_the_load(world, foo):
    await world.produce_records(10)
    world.persister.released.clear()
    member = world.connect()
    waiter = member.ask_fetch(0, (foo, 0))
    await world.settle()
    assert waiter.reply is None
    world.persister.released.set()
    await world.settle()
    assert acquired(waiter.reply) == [(0, 9, 1)]


async def test_another_partition_does_not_wait_for_the_load(world, foo):
    await world.produce_records(10)
    await world.produce_records(10, partition=1)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    world.persister.released.clear()
    waiter = member.ask_fetch(1, (foo, 1))
    await world.settle()
    assert waiter.reply is None
    await world.produce_records(10)
    await world.settle()
    assert acquired(waiter.reply, 0) == [(10, 19, 1)]
    assert 1 not in partitions_of(waiter.reply)


async def test_a_small_limit_in_bytes(world, foo):
    for _ in range(4):
        await world.produce(b"v" * 1000)
    member = world.connect()
    assert acquired(await member.fetch(0, (foo, 0), max_bytes=1)) == [(0, 0, 1)]
    assert acquired(await member.fetch(1, max_bytes=2500)) == [(1, 2, 1)]


async def test_large_batches_behind_small_ones(world, foo):
    await world.produce(b"v")
    await world.produce(b"v" * 400_000)
    await world.produce(b"v")
    reply = await world.connect().fetch(0, (foo, 0))
    assert offsets_in(reply) == [(0, 0), (1, 1), (2, 2)]


async def test_the_topic_is_deleted_meanwhile(world, foo):
    member = world.connect()
    waiter = member.ask_fetch(0, (foo, 0))
    await world.settle()
    await world.plane.catalogue.delete(foo)
    await world.settle()
    assert partitions_of(waiter.reply)[0].error is ErrorCode.UNKNOWN_TOPIC_ID
    assert len(world.shares.leaders) == 0


async def test_enough_is_what_a_member_may_acquire(world, foo):
    """It does not wait for bytes that it could not take."""
    for _ in range(3):
        await world.produce_records(10)
    reply = await world.connect().fetch(0, (foo, 0), max_records=20, min_bytes=1 << 20)
    assert acquired(reply) == [(0, 19, 1)]


async def test_a_start_offset_behind_the_end(world, foo):
    """Nothing validates it. The group waits until the log is so long."""
    await world.initialize(foo, [0], start_offset=5, epoch=4)
    await world.produce_records(3)
    member = world.connect()
    waiter = member.ask_fetch(0, (foo, 0), max_wait_ms=10_000)
    await world.settle()
    assert waiter.reply is None
    await world.produce_records(3)
    await world.settle()
    assert acquired(waiter.reply) == [(5, 5, 1)]


async def test_a_client_beyond_its_quota_acquires_nothing(world, foo):
    """As a difference to Kafka, where records stay locked that the client was not sent."""
    for _ in range(2):
        await world.produce(b"v" * 50_000)
    world.plane.quotas.change([((("client-id", "client"),), {"consumer_byte_rate": 5000.0})])
    member = world.connect()
    assert acquired(await member.fetch(0, (foo, 0), max_records=1)) == [(0, 0, 1)]
    reply = await member.fetch(1, acks={(foo, 0): [acked(0, 0)]})
    assert reply.throttle_ms > 0
    assert partitions_of(reply)[0].acknowledge_error is OK
    assert acquired(reply) == []
    world.advance(reply.throttle_ms + 10_000)
    assert acquired(await member.fetch(2)) == [(1, 1, 1)]


async def test_the_delivery_limit_counts_as_it_is_now(world, foo):
    """SG-40"""
    await world.produce_records(10)
    member = world.connect()
    for epoch in (0, 2, 4):
        asked = [(foo, 0)] if epoch == 0 else []
        assert acquired(await member.fetch(epoch, *asked))[0][2] == epoch // 2 + 1
        if epoch == 4:
            await world.set_configs(share_delivery_count_limit="2")
        (share,) = world.shares.leaders.of_group(GROUP)
        held = [one for one in share.records.ranges() if one.member_id == "m1"]
        batches = [acked(one.first_offset, one.last_offset, RELEASE) for one in held]
        await member.acknowledge(epoch + 1, {(foo, 0): batches})
    counts = world.shares.counts
    assert {(one.what, one.why) for one in counts.events} == {("released", "")}
    assert {(one.what, one.why) for one in counts.archived_events} == {
        ("archived", "delivery limit")
    }
