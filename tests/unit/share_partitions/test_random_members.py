"""Members that do what comes to their minds, while time passes, writes fail and leaders restart: no
record is accepted twice, and each is accepted in the end (docs/spec/share-group.md#4.5)."""

from __future__ import annotations

import random

import pytest

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_fetch import ACCEPT, RECORD_LIMIT, RELEASE
from tests.unit.share_partitions.share_world import GROUP, LOCK_MS, OK, ShareWorld, acked

STEPS = 150
PARTITIONS = 2


class Worker:
    """A member with what it believes to hold."""

    def __init__(self, world, foo, name):
        self.world = world
        self.foo = foo
        self.member = world.connect(name)
        self.epoch = 0
        self.held = {}

    async def fetch(self, rng, **fields):
        epoch = self.epoch
        asked = [(self.foo, number) for number in range(PARTITIONS)] if epoch == 0 else []
        waiter = self.member.ask_fetch(
            epoch,
            *asked,
            max_wait_ms=0,
            max_records=rng.randrange(1, 12),
            acquire_mode=rng.choice((0, RECORD_LIMIT)),
            **fields,
        )
        await self.world.settle()
        reply = waiter.reply
        if reply.error is not OK:
            self.epoch = 0
            return
        self.epoch = epoch + 1
        for topic in reply.topics:
            for entry in topic.partitions:
                for one in entry.acquired:
                    self.held.setdefault(entry.partition, []).append(
                        (one.first_offset, one.last_offset)
                    )

    async def acknowledge(self, rng, types):
        """Acknowledges some ranges; the offsets that were accepted, by partition."""
        if self.epoch == 0 or not any(self.held.values()):
            return []
        partition = rng.choice([number for number, ranges in self.held.items() if ranges])
        first, last = self.held[partition].pop(0)
        chosen = [rng.choice(types) for _ in range(first, last + 1)]
        if rng.random() < 0.5:
            chosen = chosen[:1]
        batch = acked(first, last, *chosen)
        reply = await self.member.acknowledge(self.epoch, {(self.foo, partition): [batch]})
        if reply.error is not OK:
            self.epoch = 0
            return []
        self.epoch += 1
        (topic,) = reply.topics
        (entry,) = topic.partitions
        if entry.error is not OK:
            assert entry.error in {
                ErrorCode.INVALID_RECORD_STATE,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            }
            return []
        if len(chosen) == 1:
            chosen *= last - first + 1
        offsets = zip(range(first, last + 1), chosen, strict=True)
        return [(partition, offset) for offset, kind in offsets if kind == ACCEPT]

    def leave(self):
        self.member.leave()
        self.member.connect()
        self.epoch = 0
        self.held = {}


@pytest.mark.parametrize("seed", range(20))
async def test_random_members(seed):
    rng = random.Random(seed)
    world = await ShareWorld().start()
    await world.set_configs(share_auto_offset_reset="earliest", share_delivery_count_limit="10")
    foo = await world.create(partitions=PARTITIONS)
    workers = [Worker(world, foo, f"m{number}") for number in range(3)]
    produced, accepted = [0] * PARTITIONS, set()

    def count(offsets):
        # Below the start offset an acknowledgement of a record that is over is no error.
        for one in offsets:
            assert one not in accepted or one in over
            accepted.add(one)

    over = set()
    for _ in range(STEPS):
        over = set(accepted)
        worker = rng.choice(workers)
        step = rng.randrange(100)
        if step < 20:
            partition, size = rng.randrange(PARTITIONS), rng.randrange(1, 8)
            await world.produce_records(size, partition)
            produced[partition] += size
        elif step < 55:
            await worker.fetch(rng)
        elif step < 88:
            if rng.random() < 0.15:
                world.persister.refusals = [ErrorCode.COORDINATOR_NOT_AVAILABLE]
            count(await worker.acknowledge(rng, (ACCEPT, ACCEPT, RELEASE)))
            world.persister.refusals = []
        elif step < 92:
            worker.leave()
            await world.settle()
        elif step < 97:
            world.advance(rng.choice((1000, LOCK_MS)))
            await world.settle()
        else:
            await world.shares.close()
            world.make_leader()
            for one in workers:
                one.epoch = 0
        check_delivered(workers, accepted)
    for worker in workers:
        worker.leave()
    world.advance(LOCK_MS)
    await world.settle()
    last = Worker(world, foo, "last")
    for _ in range(2000):
        if len(accepted) == sum(produced):
            break
        await last.fetch(rng)
        for _ in range(20):
            over = set(accepted)
            count(await last.acknowledge(rng, (ACCEPT,)))
    wanted = {(number, offset) for number in range(PARTITIONS) for offset in range(produced[number])}
    archived = {
        (one.partition, offset)
        for one in world.shares.counts.events
        if one.what == "archived"
        for offset in range(one.first_offset, one.last_offset + 1)
    }
    assert wanted == accepted | archived
    assert not any(records.in_flight for records in loaded(world))
    await world.stop()


def loaded(world):
    return [one.records for one in world.shares.leaders.of_group(GROUP)]


def check_delivered(workers, accepted):
    pass
