"""The dead-letter queues of share groups (KIP-1191; docs/spec/share-group.md#4.7)."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.share_partitions import dead_letters
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_fetch import REJECT, RELEASE
from groupd.protocol.messages.share_state import ARCHIVED, ARCHIVING
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.storage.log import LogError
from tests.unit.share_partitions.share_world import (
    GROUP,
    OK,
    ShareWorld,
    acked,
    acquired,
    partitions_of,
)

ENABLED = {"errors_deadletterqueue_group_enable": "true"}
CONFIGS = {
    "share_auto_offset_reset": "earliest",
    "errors_deadletterqueue_topic_name": "dlq.foo",
}
COPIED = {**CONFIGS, "errors_deadletterqueue_copy_record_enable": "true"}


async def copies(world, name="dlq.foo", partition=0):
    """The records in a dead-letter topic: (key, value, headers)."""
    fetched = await world.cluster.fetch(name, partition=partition)
    return [
        (record.key, record.value, dict(record.headers))
        for batch in iter_batches(fetched.records)
        for record in iter_records(batch)
    ]


async def reject(world, foo, *values):
    """A member gets these records and rejects them."""
    await world.produce(*values, key=b"k")
    member = world.connect()
    await member.fetch(0, (foo, 0))
    reply = await member.acknowledge(1, {(foo, 0): [acked(0, len(values) - 1, REJECT)]})
    assert partitions_of(reply)[0].error is OK
    await world.settle()
    return member


def start_offset(world):
    (share,) = world.shares.leaders.of_group(GROUP)
    return share.records.start_offset


async def test_rejected_records_are_copied(world):
    await world.set_configs(**COPIED)
    foo = await world.create()
    await world.cluster.create("dlq.foo", 2, **ENABLED)
    await reject(world, foo, b"a", b"b")
    found = await copies(world)
    assert [(key, value) for key, value, _ in found] == [(b"k", b"a"), (b"k", b"b")]
    assert found[1][2] == {
        "__dlq.errors.topic": b"foo",
        "__dlq.errors.partition": b"0",
        "__dlq.errors.offset": b"1",
        "__dlq.errors.group": b"g",
        "__dlq.errors.delivery.count": b"1",
        "__dlq.errors.message": b"Offset rejected by client.",
    }
    assert start_offset(world) == 2
    states = [
        one.topics[0].partitions[0].batches[0].delivery_state for one in world.persister.writes
    ]
    assert states == [ARCHIVING, ARCHIVED]
    assert world.shares.counts.dead_letters == 2


async def test_records_that_were_delivered_too_often_are_copied(world):
    await world.set_configs(**CONFIGS, share_delivery_count_limit="2")
    foo = await world.create()
    await world.cluster.create("dlq.foo", 1, **ENABLED)
    await world.produce(b"a")
    member = world.connect()
    for epoch in (0, 2):
        asked = [(foo, 0)] if not epoch else []
        assert acquired(await member.fetch(epoch, *asked)) == [(0, 0, epoch // 2 + 1)]
        await member.acknowledge(epoch + 1, {(foo, 0): [acked(0, 0, RELEASE)]})
    await world.settle()
    ((key, value, headers),) = await copies(world)
    assert (key, value) == (None, None)
    assert headers["__dlq.errors.delivery.count"] == b"2"
    assert headers["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."


async def test_without_a_topic_name_nothing_is_copied(world, foo):
    await reject(world, foo, b"a")
    assert start_offset(world) == 1
    assert len(world.persister.writes) == 1


async def test_share_version_1_has_no_dead_letters():
    world = await ShareWorld(share_version=1).start()
    await world.set_configs(**CONFIGS)
    foo = await world.create()
    await reject(world, foo, b"a")
    assert start_offset(world) == 1
    assert len(world.persister.writes) == 1
    await world.stop()


@pytest.mark.parametrize(
    ("name", "made"), [("dlq.foo", False), ("dlq.foo", True), ("other", False)]
)
async def test_records_that_cannot_be_copied_are_archived_anyway(world, name, made):
    """There is no topic, or it takes no dead letters, or its name lacks the prefix."""
    await world.set_configs(**{**CONFIGS, "errors_deadletterqueue_topic_name": name})
    foo = await world.create()
    if made:
        await world.cluster.create("dlq.foo", 1)
    await reject(world, foo, b"a")
    assert start_offset(world) == 1
    assert world.shares.counts.failed_dead_letter_requests == 1
    assert world.shares.counts.dead_letters_lost == 1


async def test_records_that_cannot_be_read_are_copied_without_key_and_value(world, monkeypatch):
    await world.set_configs(**COPIED)
    foo = await world.create()
    await world.cluster.create("dlq.foo", 1, **ENABLED)

    async def damaged(*args, **options):
        raise LogError("damaged")

    monkeypatch.setattr(dead_letters, "read_batches", damaged)
    await reject(world, foo, b"a", b"b")
    assert [(key, value) for key, value, _ in await copies(world)] == [(None, None)] * 2
    assert (world.shares.counts.dead_letters, world.shares.counts.dead_letters_lost) == (2, 2)


async def test_few_share_partitions_copy_at_once(monkeypatch):
    monkeypatch.setattr(dead_letters, "BURIALS_AT_ONCE", 1)
    world = await ShareWorld().start()
    await world.set_configs(**COPIED)
    foo = await world.create()
    await world.cluster.create("dlq.foo", 1, **ENABLED)
    letters, under_way, go_on = world.shares.dead_letters, [], asyncio.Event()

    async def slow(topic, partition, request):
        under_way.append(request)
        await go_on.wait()
        return await letters.produce_here(topic, partition, request)

    letters.produce = slow
    for number in range(2):
        await world.produce(b"a", partition=number)
    member = world.connect()
    for epoch in range(2):
        await member.fetch(epoch, (foo, epoch))
    held = {(foo, number): [acked(0, 0, REJECT)] for number in range(2)}
    await member.acknowledge(2, held)
    await world.settle()
    assert len(under_way) == 1
    go_on.set()
    await world.settle()
    assert len(under_way) == 2
    assert world.shares.counts.dead_letters == 2
    assert world.shares.counts.dead_letters_lost == 0
    await world.stop()


async def test_the_topic_is_made_if_that_is_allowed():
    world = await ShareWorld(dead_letter_auto_create_topics_enable=True).start()
    await world.set_configs(**COPIED)
    foo = await world.create()
    await reject(world, foo, b"a")
    assert [value for _, value, _ in await copies(world)] == [b"a"]
    assert world.plane.catalogue.topic("dlq.foo").configs == {
        "errors.deadletterqueue.group.enable": "true",
        "message.timestamp.type": "CreateTime",
    }
    await world.stop()


async def test_copies_go_on_after_a_restart(world):
    await world.set_configs(**COPIED)
    foo = await world.create()
    await world.cluster.create("dlq.foo", 1, **ENABLED)

    async def never(topic, partition, request):
        raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    world.shares.dead_letters.produce = never
    await reject(world, foo, b"a")
    assert start_offset(world) == 0
    world.make_leader()
    await world.connect("m2").fetch(0, (foo, 0))
    await world.settle()
    assert [value for _, value, _ in await copies(world)] == [b"a"]
    assert start_offset(world) == 1


async def test_it_tries_again_while_the_leader_moves(world):
    await world.set_configs(**COPIED)
    foo = await world.create()
    await world.cluster.create("dlq.foo", 1, **ENABLED)
    letters, attempts = world.shares.dead_letters, []

    async def moved(topic, partition, request):
        attempts.append(request)
        if len(attempts) < 3:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return await letters.produce_here(topic, partition, request)

    letters.produce = moved
    await reject(world, foo, b"a")
    for pause_ms in (1000, 2000):
        world.advance(pause_ms)
        await world.settle()
    assert len(attempts) == 3
    assert [value for _, value, _ in await copies(world)] == [b"a"]


async def test_copies_are_divided_by_size(world, monkeypatch):
    monkeypatch.setattr(dead_letters, "READ_BYTES", 1000)
    await world.set_configs(**COPIED)
    foo = await world.create()
    await world.cluster.create("dlq.foo", 1, **ENABLED, max_message_bytes="2000")
    for _ in range(4):
        await world.produce(b"v" * 700, b"v" * 700)
    member = world.connect()
    await member.fetch(0, (foo, 0))
    await member.acknowledge(1, {(foo, 0): [acked(0, 7, REJECT)]})
    await world.settle()
    found = await copies(world)
    assert [headers["__dlq.errors.offset"] for _, _, headers in found] == [
        b"%d" % offset for offset in range(8)
    ]
    assert {value for _, value, _ in found} == {b"v" * 700}


async def test_of_a_record_that_is_too_large_the_headers_are_copied(world):
    await world.set_configs(**COPIED)
    foo = await world.create()
    await world.cluster.create("dlq.foo", 1, **ENABLED, max_message_bytes="2000")
    await reject(world, foo, b"a", b"v" * 2000, b"b")
    found = await copies(world)
    assert [(key, value) for key, value, _ in found] == [(b"k", b"a"), (None, None), (b"k", b"b")]
    assert found[1][2]["__dlq.errors.offset"] == b"1"
    assert world.shares.counts.dead_letters == 3
