"""Members that do what comes to their minds, while time passes, writes fail and leaders restart.
What is over is not delivered again, each record ends once, and in the end all do
(docs/spec/share-group.md#4.5)."""

from __future__ import annotations

import random

import pytest

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_fetch import ACCEPT, BATCH_OPTIMIZED, RECORD_LIMIT, RELEASE
from tests.unit.share_partitions.share_world import (
    GROUP,
    LOCK_MS,
    OK,
    ShareWorld,
    acked,
    partitions_of,
)

STEPS = 150
PARTITIONS = 2


class Worker:
    """A member with the ranges that it believes to hold, by partition."""

    def __init__(self, world, foo, name):
        self.world = world
        self.foo = foo
        self.member = world.connect(name)
        self.epoch = 0
        self.held = {}

    async def fetch(self, rng):
        """What the member gets, as (partition, offset)."""
        asked = [(self.foo, number) for number in range(PARTITIONS)] if self.epoch == 0 else []
        waiter = self.member.ask_fetch(
            self.epoch,
            *asked,
            max_wait_ms=0,
            max_records=rng.randrange(1, 12),
            acquire_mode=rng.choice((BATCH_OPTIMIZED, RECORD_LIMIT)),
        )
        await self.world.settle()
        if waiter.reply.error is not OK:
            self.epoch = 0
            return []
        self.epoch += 1
        given = []
        for partition, entry in partitions_of(waiter.reply).items():
            for one in entry.acquired:
                self.held.setdefault(partition, []).append((one.first_offset, one.last_offset))
                given += [(partition, at) for at in range(one.first_offset, one.last_offset + 1)]
        return given

    async def acknowledge(self, rng, kinds):
        """Acknowledges one of its ranges."""
        partitions = [number for number, ranges in self.held.items() if ranges]
        if self.epoch == 0 or not partitions:
            return
        partition = rng.choice(partitions)
        first, last = self.held[partition].pop(0)
        types = [rng.choice(kinds) for _ in range(first, last + 1)]
        if rng.random() < 0.5:
            types = types[:1]
        acks = {(self.foo, partition): [acked(first, last, *types)]}
        reply = await self.member.acknowledge(self.epoch, acks)
        if reply.error is not OK:
            self.epoch = 0
            return
        self.epoch += 1
        assert partitions_of(reply)[partition].error in {
            OK,
            ErrorCode.INVALID_RECORD_STATE,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.COORDINATOR_NOT_AVAILABLE,
        }

    def leave(self):
        self.member.leave()
        self.member.connect()
        self.epoch = 0
        self.held = {}


class Ends(list):
    """The events of all leaders. Each record ends once."""

    def __init__(self):
        super().__init__()
        self.over = {}

    def append(self, event):
        if event.what in ("accepted", "archived"):
            for offset in range(event.first_offset, event.last_offset + 1):
                assert (event.partition, offset) not in self.over
                self.over[event.partition, offset] = event


@pytest.mark.parametrize("seed", range(20))
async def test_random_members(seed):
    rng = random.Random(seed)
    world = await ShareWorld().start()
    await world.set_configs(share_auto_offset_reset="earliest", share_delivery_count_limit="10")
    foo = await world.create(partitions=PARTITIONS)
    workers = [Worker(world, foo, f"m{number}") for number in range(3)]
    produced = [0] * PARTITIONS
    ends = Ends()
    world.shares.counts.events = world.shares.counts.archived_events = ends

    async def fetch(worker):
        given = await worker.fetch(rng)
        assert not ends.over.keys() & given

    for _ in range(STEPS):
        worker = rng.choice(workers)
        step = rng.randrange(100)
        if step < 20:
            partition, size = rng.randrange(PARTITIONS), rng.randrange(1, 8)
            await world.produce_records(size, partition)
            produced[partition] += size
        elif step < 55:
            await fetch(worker)
        elif step < 88:
            if rng.random() < 0.15:
                world.persister.refusals = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            await worker.acknowledge(rng, (ACCEPT, ACCEPT, RELEASE))
            world.persister.refusals = []
        elif step < 92:
            worker.leave()
        elif step < 97:
            world.advance(rng.choice((1000, LOCK_MS)))
        else:
            await world.shares.close()
            world.make_leader()
            world.shares.counts.events = world.shares.counts.archived_events = ends
        await world.settle()
    for worker in workers:
        worker.leave()
    world.advance(LOCK_MS)
    await world.settle()
    last = Worker(world, foo, "last")
    for _ in range(sum(produced) * 2):
        await fetch(last)
        while any(last.held.values()) and last.epoch:
            await last.acknowledge(rng, (ACCEPT,))
    assert len(ends.over) == sum(produced)
    assert not any(one.records.in_flight for one in world.shares.leaders.of_group(GROUP))
    await world.stop()
