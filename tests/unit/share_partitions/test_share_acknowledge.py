"""What members say of their records (docs/spec/share-group.md#SG-107 to SG-119)."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.types import Resource
from groupd.coordinator.share_partitions import acknowledging, share_partition
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_fetch import (
    ACCEPT,
    GAP,
    RECORD_LIMIT,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
)
from tests.unit.share_partitions.share_world import (
    GROUP,
    LOCK_MS,
    OK,
    acked,
    acquired,
    partitions_of,
)

HELD, ASKED_WRONG = ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST


@pytest.fixture
async def member(world, foo):
    """A member that holds 0 to 9 of partition 0; its next epoch is 1."""
    await world.produce_records(10)
    made = world.connect()
    assert acquired(await made.fetch(0, (foo, 0))) == [(0, 9, 1)]
    return made


async def code(member, epoch, foo, *batches, **fields):
    reply = await member.acknowledge(epoch, {(foo, 0): batches}, **fields)
    return partitions_of(reply)[0].error


def start_offset(world):
    (share,) = world.shares.leaders.of_group(GROUP)
    return share.records.start_offset


@pytest.mark.parametrize("types", [(ACCEPT,), (ACCEPT,) * 10])
async def test_accepted_records_are_over(world, foo, member, types):
    """SG-107"""
    assert await code(member, 1, foo, acked(0, 9, *types)) is OK
    assert start_offset(world) == 10
    assert world.shares.counts.acknowledged == {ACCEPT: 10}


@pytest.mark.parametrize(
    "batches",
    [
        [acked(5, 4)],
        [AcknowledgementBatch(0, 9, b"")],
        [acked(0, 9, ACCEPT, ACCEPT, ACCEPT)],
        [acked(0, 9, 5)],
        [acked(0, 9, 255)],
        [acked(0, 4), acked(3, 9)],
        [acked(0, 2**62, *[ACCEPT] * 10)],
    ],
)
async def test_malformed_acknowledgements(world, foo, member, batches):
    """SG-108"""
    assert await code(member, 1, foo, *batches) is ASKED_WRONG
    assert await code(member, 2, foo, acked(0, 9)) is OK


async def test_locks_can_be_renewed(world, foo, member):
    """SG-109"""
    renewal = acked(0, 9, RENEW)
    assert await code(member, 1, foo, renewal, version=1) is ASKED_WRONG
    assert await code(member, 2, foo, renewal) is ASKED_WRONG
    world.advance(LOCK_MS - 1)
    assert await code(member, 3, foo, renewal, is_renew_ack=True) is OK
    world.advance(LOCK_MS - 1)
    await world.settle()
    assert await code(member, 4, foo, acked(0, 4)) is OK
    world.advance(1)
    await world.settle()
    assert await code(member, 5, foo, acked(5, 9)) is HELD
    assert acquired(await member.fetch(6)) == [(5, 9, 2)]
    await world.set_configs(share_renew_acknowledge_enable="false")
    assert await code(member, 7, foo, acked(5, 9, RENEW), is_renew_ack=True) is HELD


async def test_a_fetch_that_renews_fetches_nothing(world, foo, member):
    """SG-110"""
    await world.produce_records(10)
    reply = await member.fetch(
        1,
        acks={(foo, 0): [acked(0, 9, RENEW)]},
        is_renew_ack=True,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=0,
        max_records=0,
    )
    entry = partitions_of(reply)[0]
    assert (entry.acknowledge_error, entry.acquired) == (OK, ())


async def test_only_the_holder_can_acknowledge(world, foo, member):
    """SG-111"""
    await world.produce_records(10)
    other = world.connect("m2")
    assert acquired(await other.fetch(0, (foo, 0))) == [(10, 19, 1)]
    assert await code(other, 1, foo, acked(0, 9)) is HELD
    assert await code(member, 1, foo, acked(5, 6), acked(8, 9, RELEASE)) is OK
    assert await code(member, 2, foo, acked(5, 6)) is HELD
    assert await code(member, 3, foo, acked(8, 9)) is HELD
    world.advance(LOCK_MS)
    await world.settle()
    assert await code(member, 4, foo, acked(0, 4)) is HELD


async def test_offsets_outside_of_what_is_in_flight(world, foo, member):
    """SG-112"""
    await world.produce_records(10)
    assert await code(member, 1, foo, acked(0, 14)) is ASKED_WRONG
    assert await code(member, 2, foo, acked(20, 25)) is ASKED_WRONG
    assert await code(member, 3, foo, acked(0, 2**62)) is ASKED_WRONG
    assert await code(member, 4, foo, acked(0, 9)) is OK
    assert acquired(await member.fetch(5)) == [(10, 19, 1)]
    assert await code(member, 6, foo, acked(0, 9)) is OK
    assert await code(member, 7, foo, acked(5, 14)) is OK
    assert start_offset(world) == 15


async def test_a_partition_is_acknowledged_as_a_whole(world, foo, member):
    """SG-113"""
    await world.produce_records(5)
    await world.produce_records(10, partition=1)
    other = world.connect("m2")
    await other.fetch(0, (foo, 0))
    await member.fetch(1, (foo, 1), max_wait_ms=10_000)
    reply = await member.acknowledge(
        2, {(foo, 0): [acked(0, 4), acked(10, 14)], (foo, 1): [acked(0, 9)]}
    )
    entries = partitions_of(reply)
    assert (entries[0].error, entries[1].error) == (HELD, OK)
    assert await code(member, 3, foo, acked(0, 4)) is OK


async def test_partitions_that_cannot_be_acknowledged(world, foo, member):
    """SG-114"""

    def allows(operation, resource, name):
        return resource != Resource.TOPIC or name == "foo"

    bar = await world.create("bar", 1)
    wanted = {
        (foo, 2): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (foo, 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        (b"?" * 16, 0): ErrorCode.UNKNOWN_TOPIC_ID,
        (bar, 0): ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
    reply = await member.acknowledge(1, {key: [acked(0, 1)] for key in wanted}, allows=allows)
    assert {
        (topic.topic_id, one.partition): one.error
        for topic in reply.topics
        for one in topic.partitions
    } == wanted
    assert world.shares.counts.failed_acknowledge_requests == 1


async def test_gaps_are_over(world, foo, member):
    """SG-115"""
    types = [GAP if offset == 3 else ACCEPT for offset in range(10)]
    assert await code(member, 1, foo, acked(0, 9, *types)) is OK
    assert start_offset(world) == 10
    assert world.shares.counts.acknowledged == {ACCEPT: 9, GAP: 1}
    counts = world.shares.counts
    assert [(one.what, one.why) for one in counts.archived_events] == [("archived", "gap")]
    assert [(one.what, one.why) for one in counts.events] == [("accepted", ""), ("accepted", "")]


async def test_one_entry_for_acknowledgements_and_records(world, foo, member):
    """SG-116"""
    await world.produce_records(10)
    reply = await member.fetch(1, acks={(foo, 0): [acked(0, 9)]})
    assert acquired(reply) == [(10, 19, 1)]
    assert partitions_of(reply)[0].acknowledge_error is OK
    reply = await member.late(2, acks={(foo, 0): [acked(10, 19)]})
    entry = partitions_of(reply)[0]
    assert (entry.error, entry.acknowledge_error, entry.records) == (OK, OK, b"")


@pytest.mark.parametrize(
    "refusal", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.UNKNOWN_SERVER_ERROR]
)
async def test_acknowledgements_that_cannot_be_written(world, foo, member, refusal):
    """SG-117"""
    world.persister.refusals = [refusal]
    assert await code(member, 1, foo, acked(0, 9)) is refusal
    assert world.shares.counts.acknowledged == {}
    assert await code(member, 2, foo, acked(0, 9)) is OK


async def test_partitions_without_acknowledgements(world, foo, member):
    """SG-118"""
    reply = await member.acknowledge(1, {(foo, 0): [acked(0, 9)], (foo, 1): []})
    assert {number: one.error for number, one in partitions_of(reply).items()} == {0: OK, 1: OK}
    assert partitions_of(await member.acknowledge(2, {(foo, 1): []})) == {}


async def test_the_reply_says_how_long_records_stay_locked(world, foo, member):
    """SG-119"""
    assert (await member.acknowledge(1)).lock_timeout_ms == LOCK_MS
    await world.set_configs(share_record_lock_duration_ms="20000")
    assert (await member.acknowledge(2)).lock_timeout_ms == 20_000


async def test_it_is_answered_when_it_is_durable(world, foo, member):
    world.persister.released.clear()
    acks = {(foo, 0): [acked(0, 9)]}
    assert await member.acknowledge(1, acks) is None
    waiter = member.waiters[-1]
    world.persister.released.set()
    await world.settle()
    assert partitions_of(waiter.reply)[0].error is OK


async def test_acknowledgements_that_come_during_a_write_are_written_together(world, foo, member):
    members = [member, *[world.connect(f"m{number}") for number in range(2, 5)]]
    for one in members[1:]:
        await world.produce_records(10)
        await one.fetch(0, (foo, 0))
    world.persister.released.clear()
    for number, one in enumerate(members):
        first = number * 10
        assert await one.acknowledge(1, {(foo, 0): [acked(first, first + 9)]}) is None
    assert len(world.persister.writes) == 1
    world.persister.released.set()
    await world.settle()
    assert len(world.persister.writes) == 2
    assert all(partitions_of(one.waiters[-1].reply)[0].error is OK for one in members)
    assert start_offset(world) == 40


async def test_acknowledgements_outlive_their_client(world, foo, member):
    world.persister.released.clear()
    assert await member.acknowledge(1, {(foo, 0): [acked(0, 4)]}) is None
    member.leave()
    world.persister.released.set()
    await world.settle()
    assert acquired(await world.connect("m2").fetch(0, (foo, 0))) == [(5, 9, 2)]


async def test_the_limit_on_acknowledgements(world, foo, member, monkeypatch):
    monkeypatch.setattr(acknowledging, "ACKNOWLEDGEMENTS_MAX", 3)
    assert await code(member, 1, foo, *[acked(one, one) for one in range(2)]) is ASKED_WRONG
    assert await code(member, 2, foo, acked(0, 9, REJECT)) is OK


@pytest.mark.parametrize("spare", [1, 0])
async def test_many_more_batches_than_records_in_flight(world, foo, member, monkeypatch, spare):
    monkeypatch.setattr(acknowledging, "MORE_BATCHES", spare)
    many = [acked(5, 5, RENEW)] * 11  # ten are in flight
    answer = await code(member, 1, foo, *many, is_renew_ack=True)
    assert answer is (OK if spare else ASKED_WRONG)
    assert await code(member, 2, foo, acked(0, 9)) is OK


async def test_types_of_offsets_that_are_over_are_skipped(world, foo, member):
    assert await code(member, 1, foo, acked(0, 4)) is OK
    assert await code(member, 2, foo, acked(3, 7, REJECT, REJECT, *[ACCEPT] * 3)) is OK
    assert start_offset(world) == 8
    assert world.shares.counts.accepted == 8


async def test_a_write_does_not_count_what_a_failed_one_before_was_to_complete(world, foo, member):
    """Else the lag would be too small."""
    other = world.connect("m2")
    await world.produce_records(10)
    await other.fetch(0, (foo, 0))
    world.persister.refusals = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    world.persister.released.clear()
    await member.acknowledge(1, {(foo, 0): [acked(0, 9)]})
    await other.acknowledge(1, {(foo, 0): [acked(10, 19)]})
    world.persister.released.set()
    await world.settle()
    told = [one.topics[0].partitions[0] for one in world.persister.writes]
    assert [(one.start_offset, one.delivery_complete_count) for one in told] == [(0, 10), (0, 10)]
    assert await code(member, 2, foo, acked(0, 9)) is OK
    assert start_offset(world) == 20


async def test_a_bug_is_answered_too(world, foo, member, monkeypatch):
    (share,) = world.shares.leaders.of_group(GROUP)
    monkeypatch.setattr(share, "_tell", lambda finished: 1 / 0)
    assert await code(member, 1, foo, acked(0, 9)) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(world.shares.leaders) == 0


async def test_changes_of_many_batches_are_written_one_after_the_other(world, foo, monkeypatch):
    monkeypatch.setattr(share_partition, "WRITE_BATCHES_MAX", 4)
    await world.produce_records(12)
    members = [world.connect(f"m{number}") for number in range(4)]
    strict = {"max_records": 3, "acquire_mode": RECORD_LIMIT}
    for member in members:
        await member.fetch(0, (foo, 0), **strict)
    world.persister.asked.clear()
    waiters = [
        member.ask_fetch(
            1, acks={(foo, 0): [acked(3 * at, 3 * at + 2, ACCEPT, RELEASE, ACCEPT)]}, min_bytes=0
        )
        for at, member in enumerate(members)
    ]
    await world.settle()
    assert all(waiter.reply is not None for waiter in waiters)
    counts = [len(one.topics[0].partitions[0].batches) for one in world.persister.writes]
    assert (len(counts), max(counts)) == (4, 3)


async def test_a_client_that_goes_does_not_break_the_write(world, foo, member):
    """The wait for its reply is cancelled, but not what it waits for."""
    world.persister.released.clear()
    member.ask_fetch(1, acks={(foo, 0): [acked(0, 4)]}, max_wait_ms=0)
    await world.settle()
    member.leave()
    await world.settle()
    world.persister.released.set()
    await world.settle()
    other = world.connect("m2")
    assert acquired(await other.fetch(0, (foo, 0))) == [(5, 9, 2)]


async def test_an_offset_is_renewed_twice_in_a_request(world, foo, member):
    twice = [acked(3, 3, RENEW), acked(3, 3, RENEW), acked(3, 9, RENEW)]
    world.advance(LOCK_MS - 1)
    assert await code(member, 1, foo, *twice, is_renew_ack=True) is OK
    world.advance(LOCK_MS - 1)
    await world.settle()
    assert await code(member, 2, foo, acked(0, 2)) is HELD
    assert await code(member, 3, foo, acked(3, 9)) is OK


async def test_a_share_partition_is_loaded_after_the_writes_of_the_one_before(world, foo, member):
    """Both are written at the same leader epoch, so the persister takes a late write of the first
    one, too (the simulator has found it)."""
    world.persister.released.clear()
    acking = member.send_acknowledge(1, {(foo, 0): [acked(0, 9)]})
    await world.settle()
    (share,) = world.shares.leaders.of_group(GROUP)
    world.plane.partitions.drop(share.partition)
    other = world.connect("m2")
    fetching = other.ask_fetch(0, (foo, 0), max_wait_ms=0)
    await world.settle()
    assert [type(one).__name__ for one in world.persister.asked[-1:]] == [
        "WriteShareGroupStateRequest"
    ]
    world.persister.released.set()
    await world.settle()
    assert partitions_of(acking.reply)[0].error is OK
    world.advance(500)
    await world.settle()
    assert acquired(fetching.reply) == []
    assert acquired(await other.fetch(1, max_wait_ms=0)) == []
    assert start_offset(world) == 10


async def test_the_last_fetch_counts_its_acknowledgements_once(world, foo, member):
    await member.fetch(-1, acks={(foo, 0): [acked(0, 9)]})
    assert world.shares.counts.acknowledged == {ACCEPT: 10}
