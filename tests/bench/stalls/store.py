"""A store with one huge group, many small ones and many offsets, written past the daemon."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from groupd.storage.log import StoredTopic
from groupd.storage.open import create_store
from tests.bench.fill import (
    PARTITIONS_PER_MEMBER,
    TOPIC,
    TOPIC_ID,
    append_batches,
    encoded,
    log_of,
    settled_group,
    settled_member,
)

HUGE = "huge"
SMALL = 10
"""The members of a small group."""
COMMITTED_AGO_MS = 120_000
"""The age of the commits: a retention of a minute is over when the last member has gone."""
BATCH = 500
BATCHES_PER_APPEND = 50
EPOCH = 5


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the store holds. `huge`: members of the one group; `members`: of all groups; `offsets`:
    the huge group has as many as it has partitions, the small ones have the rest. `laps`: how often
    each was committed."""

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
        await store.put_topic(StoredTopic(TOPIC_ID, TOPIC, sizes.huge * PARTITIONS_PER_MEMBER))
        batches = ((log_of(group), encoded(batch)) for group, batch in _batches(sizes))
        await append_batches(store, batches, BATCHES_PER_APPEND)
    finally:
        await store.close()


def _batches(sizes: Sizes) -> Iterator[tuple[str, list[Record]]]:
    groups = [(HUGE, sizes.huge), *((small(index), SMALL) for index in range(sizes.groups))]
    per_group = (sizes.offsets - sizes.huge * PARTITIONS_PER_MEMBER) // max(sizes.groups, 1)
    for group, size in groups:
        members = [settled_member(member_id(group, i), i, EPOCH) for i in range(size)]
        written = settled_group(group, members, EPOCH)
        count = sizes.huge * PARTITIONS_PER_MEMBER if group == HUGE else per_group
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
    at_ms = time.time_ns() // 1_000_000 - COMMITTED_AGO_MS
    value = OffsetCommitValue(42, commit_timestamp_ms=at_ms)
    for partition in range(count):
        yield Record(OffsetCommitKey(group, TOPIC, partition), value)
