"""A store with as many committed offsets as one likes, written past the daemon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from coordinator.core.partitioning import offsets_log_name, partition_for
from protocol.records.batch import encode_batch
from protocol.records.codec import encode_key, encode_value
from protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from storage.log import Append, Store
from storage.open import create_store

TOPIC = "bench"
OFFSETS_PER_GROUP = 10
RECORDS_PER_BATCH = 20
"""What group commit makes of a busy shard."""

BATCHES_PER_APPEND = 500
SHARDS = 50

EncodedRecord = tuple[bytes, bytes | None]


async def fill(directory: Path, store_url: str | None, offsets: int, records: int) -> None:
    """`records` commits of `offsets` different partitions, evenly; a daemon of 50 shards finds
    them in its logs."""
    store = create_store(store_url, directory)
    await store.start()
    try:
        states = await store.open_many([offsets_log_name(shard) for shard in range(SHARDS)])
        ends = {name: state.next_offset for name, state in states.items()}
        waiting: list[Append] = []
        for name, batch in _batches(offsets, records):
            base_offset = ends[name]
            ends[name] += len(batch)
            now_ms = time.time_ns() // 1_000_000
            payload = encode_batch(base_offset, 0, now_ms, batch)
            epoch = states[name].owner_epoch
            waiting.append(Append(name, epoch, base_offset, ends[name] - 1, now_ms, payload))
            if len(waiting) == BATCHES_PER_APPEND:
                await _append(store, waiting)
        await _append(store, waiting)
    finally:
        await store.close()


async def _append(store: Store, waiting: list[Append]) -> None:
    await store.append(waiting)
    waiting.clear()
    await asyncio.sleep(0)


def _batches(offsets: int, records: int) -> Iterator[tuple[str, list[EncodedRecord]]]:
    """(log, records), lap after lap over all offsets."""
    groups = [f"bench-{number:07d}" for number in range(-(-offsets // OFFSETS_PER_GROUP))]
    names = [offsets_log_name(partition_for(group, SHARDS)) for group in groups]
    gathered: dict[str, list[EncodedRecord]] = {}
    for number in range(records):
        lap, place = divmod(number, offsets)
        group, partition = divmod(place, OFFSETS_PER_GROUP)
        key = OffsetCommitKey(groups[group], TOPIC, partition)
        value = OffsetCommitValue(lap, commit_timestamp_ms=time.time_ns() // 1_000_000)
        batch = gathered.setdefault(names[group], [])
        batch.append((encode_key(key), encode_value(Record(key, value))))
        if len(batch) == RECORDS_PER_BATCH:
            yield names[group], gathered.pop(names[group])
    yield from gathered.items()
