"""A store with one huge group, many small ones and many offsets, written past the daemon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from coordinator.core.consumer_group import records
from coordinator.core.consumer_group.member import ConsumerGroupMember
from coordinator.core.partitioning import offsets_log_name, partition_for
from protocol.records.batch import encode_batch
from protocol.records.codec import encode_key, encode_value
from protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from storage.log import Append, Store, StoredTopic
from storage.open import create_store

HUGE = "huge"
TOPIC = "bench"
TOPIC_ID = b"groupd-bench-top"
SHARDS = 50
PER_MEMBER = 10
SMALL = 10
"""Members of a small group."""
BATCH = 500
BATCHES_PER_APPEND = 50
EPOCH = 5


@dataclass(frozen=True, slots=True)
class Sizes:
    """`huge`: members of the one group; `members`: of all; `offsets`: of the huge group are as
    many as it has partitions, the rest are of the small ones. `laps`: how often each was
    committed."""

    huge: int = 10_000
    members: int = 100_000
    offsets: int = 1_000_000
    laps: int = 2

    @property
    def groups(self) -> int:
        return (self.members - self.huge) // SMALL


def small(index: int) -> str:
    return f"small-{index:06d}"


def member_id(group: str, index: int) -> str:
    return f"{group}-member-{index:05d}-0123456789"


async def fill(directory: Path, sizes: Sizes) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    store = create_store(None, directory)
    await store.start()
    try:
        await store.put_topic(StoredTopic(TOPIC_ID, TOPIC, sizes.huge * PER_MEMBER))
        states = await store.open_many([offsets_log_name(shard) for shard in range(SHARDS)])
        ends = {name: state.next_offset for name, state in states.items()}
        waiting: list[Append] = []
        for group, batch in _batches(sizes):
            name = offsets_log_name(partition_for(group, SHARDS))
            base = ends[name]
            ends[name] += len(batch)
            now_ms = time.time_ns() // 1_000_000
            encoded = [(encode_key(record.key), encode_value(record)) for record in batch]
            payload = encode_batch(base, 0, now_ms, encoded)
            epoch = states[name].owner_epoch
            waiting.append(Append(name, epoch, base, ends[name] - 1, now_ms, payload))
            if len(waiting) == BATCHES_PER_APPEND:
                await _append(store, waiting)
        await _append(store, waiting)
    finally:
        await store.close()


async def _append(store: Store, waiting: list[Append]) -> None:
    await store.append(waiting)
    waiting.clear()
    await asyncio.sleep(0)


def _batches(sizes: Sizes) -> Iterator[tuple[str, list[Record]]]:
    groups = [(HUGE, sizes.huge), *((small(index), SMALL) for index in range(sizes.groups))]
    per_group = (sizes.offsets - sizes.huge * PER_MEMBER) // max(sizes.groups, 1)
    for group, size in groups:
        written = _members(group, size)
        count = sizes.huge * PER_MEMBER if group == HUGE else per_group
        for _ in range(sizes.laps):
            written = chain(written, _offsets(group, count))
        batch: list[Record] = []
        for record in written:
            batch.append(record)
            if len(batch) == BATCH:
                yield group, batch
                batch = []
        if batch:
            yield group, batch


def _offsets(group: str, count: int) -> Iterator[Record]:
    value = OffsetCommitValue(42, commit_timestamp_ms=time.time_ns() // 1_000_000)
    for partition in range(count):
        yield Record(OffsetCommitKey(group, TOPIC, partition), value)


def _members(group: str, size: int) -> Iterator[Record]:
    """As they are in the log once all have joined and rest."""
    members = [_member(group, index) for index in range(size)]
    for member in members:
        yield records.member_metadata(group, member)
    yield records.group_epoch(group, EPOCH, 1)
    for member in members:
        target = {topic: tuple(partitions) for topic, partitions in member.assigned.items()}
        yield records.target_member(group, member.member_id, target)
    yield records.target_epoch(group, EPOCH, 1)
    for member in members:
        yield records.current_member(group, member)


def _member(group: str, index: int) -> ConsumerGroupMember:
    owned = dict.fromkeys(range(index * PER_MEMBER, (index + 1) * PER_MEMBER), EPOCH)
    return ConsumerGroupMember(
        member_id(group, index),
        member_epoch=EPOCH,
        previous_member_epoch=EPOCH - 1,
        rebalance_timeout_ms=300_000,
        client_id="bench",
        client_host="/127.0.0.1",
        subscribed_topic_names=(TOPIC,),
        assigned={TOPIC_ID: owned},
    )
