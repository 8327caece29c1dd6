"""A store with as many committed offsets and settled members as one likes, written past the
daemon."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from uuid import uuid4

from groupd.coordinator.core.consumer_group import records as group_records
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.partitioning import offsets_log_name, partition_for
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from groupd.storage.log import Append, Store
from groupd.storage.open import create_store

TOPIC = "bench"
TOPIC_ID = b"groupd-bench-top"
OFFSETS_PER_GROUP = 10
MEMBERS_PER_GROUP = 10
PARTITIONS_PER_MEMBER = 10
RECORDS_PER_BATCH = 20
"""Records in a batch: group commit puts so many into one when a shard is busy."""

BATCHES_PER_APPEND = 500
SHARDS = 50

EncodedRecord = tuple[bytes, bytes | None]


async def fill(
    directory: Path, store_url: str | None, offsets: int, records: int, members: int = 0
) -> None:
    """Writes `records` commits of `offsets` different partitions, evenly, then `members` of the
    consumer protocol at rest in groups of ten; a daemon of 50 shards finds them in its logs."""
    store = create_store(store_url, directory)
    await store.start()
    try:
        batches = chain(_batches(offsets, records), _member_batches(members))
        await append_batches(store, batches, BATCHES_PER_APPEND)
    finally:
        await store.close()


async def append_batches(
    store: Store, batches: Iterable[tuple[str, list[EncodedRecord]]], per_append: int
) -> None:
    """Appends (log, records) to the logs of `SHARDS` shards, `per_append` batches at a time."""
    states = await store.open_many([offsets_log_name(shard) for shard in range(SHARDS)])
    ends = {name: state.next_offset for name, state in states.items()}
    waiting: list[Append] = []
    for name, batch in batches:
        base_offset = ends[name]
        ends[name] += len(batch)
        now_ms = time.time_ns() // 1_000_000
        payload = encode_batch(base_offset, 0, now_ms, batch)
        epoch = states[name].owner_epoch
        waiting.append(Append(name, epoch, base_offset, ends[name] - 1, now_ms, payload))
        if len(waiting) == per_append:
            await _append(store, waiting)
    await _append(store, waiting)


async def _append(store: Store, waiting: list[Append]) -> None:
    await store.append(waiting)
    waiting.clear()
    await asyncio.sleep(0)


def _batches(offsets: int, records: int) -> Iterator[tuple[str, list[EncodedRecord]]]:
    """(log, records), lap after lap over all offsets."""
    groups = [f"bench-{number:07d}" for number in range(-(-offsets // OFFSETS_PER_GROUP))]
    names = [log_of(group) for group in groups]
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


def _member_batches(members: int) -> Iterator[tuple[str, list[EncodedRecord]]]:
    """(log, records of one group), as a group has them in its log once all have joined."""
    for first in range(0, members, MEMBERS_PER_GROUP):
        group = f"bench-{first // MEMBERS_PER_GROUP:07d}"
        size = min(MEMBERS_PER_GROUP, members - first)
        settled = [settled_member(str(uuid4()), number, size) for number in range(size)]
        yield log_of(group), encoded(settled_group(group, settled, size))


def log_of(group: str) -> str:
    return offsets_log_name(partition_for(group, SHARDS))


def encoded(records: Iterable[Record]) -> list[EncodedRecord]:
    return [(encode_key(record.key), encode_value(record)) for record in records]


def settled_group(
    group: str, members: Sequence[ConsumerGroupMember], epoch: int
) -> Iterator[Record]:
    """The records of a group in the log, once all members have joined and rest at `epoch`."""
    for member in members:
        yield group_records.member_metadata(group, member)
    yield group_records.group_epoch(group, epoch, 1)
    for member in members:
        target = {topic: tuple(partitions) for topic, partitions in member.assigned.items()}
        yield group_records.target_member(group, member.member_id, target)
    yield group_records.target_epoch(group, epoch, 0)
    for member in members:
        yield group_records.current_member(group, member)


def settled_member(member_id: str, number: int, epoch: int) -> ConsumerGroupMember:
    """The member of this number in its group: it owns as many partitions as each of the others."""
    first = number * PARTITIONS_PER_MEMBER
    owned = dict.fromkeys(range(first, first + PARTITIONS_PER_MEMBER), epoch)
    return ConsumerGroupMember(
        member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch - 1,
        rebalance_timeout_ms=300_000,
        client_id="bench",
        client_host="/127.0.0.1",
        subscribed_topic_names=(TOPIC,),
        assigned={TOPIC_ID: owned},
    )
