"""Members that wait for records of one share-partition are served in the order in which they came
(docs/spec/share-group.md#4.3)."""

from __future__ import annotations

import pytest

from groupd.coordinator.share_partitions.attempts import ShareReader
from groupd.protocol.messages.share_fetch import RECORD_LIMIT, RELEASE
from groupd.storage.log import LogUnavailable
from tests.unit.share_partitions.share_world import acked, acquired


@pytest.fixture
def looks(monkeypatch):
    """The members whose requests have looked for records, in order."""
    found = []
    look = ShareReader.look

    async def counted(self, room):
        found.append(self._asked.member_id)
        return await look(self, room)

    monkeypatch.setattr(ShareReader, "look", counted)
    return found


async def waiting(world, foo, count, **fields):
    """Members that wait, and their requests."""
    fields = {"max_records": 1, "acquire_mode": RECORD_LIMIT, **fields}
    members = [world.connect(f"w{number}") for number in range(count)]
    waiters = [member.ask_fetch(0, (foo, 0), **fields) for member in members]
    await world.settle()
    assert all(waiter.reply is None for waiter in waiters)
    return members, waiters


def served(waiters):
    return [at for at, waiter in enumerate(waiters) if waiter.reply is not None]


async def test_new_records_wake_as_many_as_they_are_enough_for(world, foo, looks):
    _, waiters = await waiting(world, foo, 20)
    looks.clear()
    await world.produce_records(3)
    await world.settle()
    assert served(waiters) == [0, 1, 2]
    assert [acquired(waiter.reply) for waiter in waiters[:3]] == [
        [(offset, offset, 1)] for offset in range(3)
    ]
    assert looks == ["w0", "w1", "w2"]


async def test_released_records_wake_as_many_as_they_are_enough_for(world, foo, looks):
    await world.produce_records(10)
    holder = world.connect()
    await holder.fetch(0, (foo, 0))
    _, waiters = await waiting(world, foo, 20)
    looks.clear()
    await holder.acknowledge(1, {(foo, 0): [acked(0, 1, RELEASE)]})
    await world.settle()
    assert (served(waiters), looks) == ([0, 1], ["w0", "w1"])
    await holder.acknowledge(2, {(foo, 0): [acked(2, 4, RELEASE)]})
    await world.settle()
    assert served(waiters) == [0, 1, 2, 3, 4]


async def test_a_request_that_ends_first_in_line_passes_on(world, foo):
    await world.produce_records(1)
    holder = world.connect()
    await holder.fetch(0, (foo, 0))
    members, waiters = await waiting(world, foo, 3)
    (share,) = world.shares.leaders.of_group("g")
    share.release("m1")
    while share.records.next_offset:
        await world.work.pace().turn()
    # The first one has been woken, and has not looked yet.
    members[0].leave()
    await world.settle()
    assert served(waiters) == [1]


async def test_a_request_that_wants_more_passes_on(world, foo, looks):
    _, greedy = await waiting(world, foo, 2, min_bytes=1 << 20, max_records=500)
    member = world.connect()
    waiter = member.ask_fetch(0, (foo, 0))
    await world.settle()
    looks.clear()
    await world.produce_records(1)
    await world.settle()
    assert acquired(waiter.reply) == [(0, 0, 1)]
    assert served(greedy) == []
    assert looks == ["w0", "w1", "m1"]


async def test_a_read_that_fails_passes_on(world, foo, monkeypatch):
    _, waiters = await waiting(world, foo, 2)
    kept = world.shares.leaders.kept
    read, failures = kept.read, [LogUnavailable("no")]

    async def failing(*args, **fields):
        if failures:
            raise failures.pop()
        return await read(*args, **fields)

    monkeypatch.setattr(kept, "read", failing)
    await world.produce_records(1)
    await world.settle()
    assert served(waiters) == [0, 1]
    assert acquired(waiters[1].reply) == [(0, 0, 1)]
