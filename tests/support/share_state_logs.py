"""Logs that the share coordinator itself writes, of random requests."""

from __future__ import annotations

from random import Random

from groupd.protocol.messages.share_state import ShareStateBatch
from tests.unit.share_state.harness import (
    DELETE,
    INIT,
    READ,
    WRITE,
    MachineBench,
    asked,
    init,
    write,
)

PARTITIONS = 3


def coordinator_at_random(seed: int, requests: int = 300) -> MachineBench:
    """A coordinator with its log, after leaders have written, groups have set start offsets anew,
    and state was deleted, for three share-partitions. Snapshots come after every seventh update."""
    rng = Random(seed)
    bench = MachineBench(share_snapshot_updates=7)
    epochs = [1] * PARTITIONS
    starts = [0] * PARTITIONS
    for partition in range(PARTITIONS):
        bench.good(INIT, init(1, 0, partition))
    for _ in range(requests):
        bench.now_ms += 1000
        partition = rng.randrange(PARTITIONS)
        chance = rng.random()
        if chance < 0.03:
            bench.good(DELETE, partition)
        if chance < 0.06:
            epochs[partition] += 1
            starts[partition] = rng.randrange(100)
            bench.good(INIT, init(epochs[partition], starts[partition], partition))
            bench.good(READ, asked(0, partition))
            continue
        starts[partition] += rng.choice((0, 0, 5, 30))
        first = starts[partition] + rng.randrange(60)
        batches = []
        for _ in range(rng.randrange(1, 4)):
            last = first + rng.choice((0, 2, 40))
            batches.append(ShareStateBatch(first, last, rng.choice((0, 2, 4)), rng.randrange(1, 6)))
            first = last + 1 + rng.randrange(3)
        one = write(
            *batches, start=starts[partition], state_epoch=epochs[partition], partition=partition
        )
        bench.good(WRITE, one)
    return bench
