"""The same offsets log in every form that the pipeline reads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from groupd.coordinator.core.partitioning import offsets_log_name, partition_for
from groupd.coordinator.runtime.coordinator_types import GROUP_COORDINATOR
from groupd.coordinator.topics.topic import log_name
from groupd.protocol.records.batch import parse_header, with_base_offset
from groupd.storage.log import Append, ConfigEntry, StoredTopic
from groupd.storage.open import create_store
from tests.unit.logtools.harness import (
    HOME,
    ORDERS_ID,
    PARTITIONS,
    TIME_MS,
    batch,
    classic,
    commit,
    consumer,
    gone,
    marker,
    write_segment,
)

OTHER = next(f"other{n}" for n in range(99) if partition_for(f"other{n}", PARTITIONS) != HOME)
AWAY = partition_for(OTHER, PARTITIONS)
DAY_MS = 86_400_000
TOPICS = (StoredTopic(ORDERS_ID, "orders", 6),)

LOGS: dict[int, list[bytes]] = {
    HOME: [
        batch(0, commit(1), commit(2), classic()),
        batch(3, *consumer()),
        batch(8, commit(9), producer=7),
        marker(9, 7, commit=True),
        batch(10, commit(10), gone(commit(1)), time_ms=TIME_MS + DAY_MS),
    ],
    AWAY: [
        batch(0, commit(5, OTHER), commit(6, OTHER, partition=1)),
        batch(2, *[commit(n, OTHER) for n in range(20)], time_ms=TIME_MS + DAY_MS),
    ],
}
ROWS = 12 + 22


def fill_store(url: str, logs: Mapping[int, Sequence[bytes]] = LOGS) -> None:
    """Fills a store as a daemon would, in any database; also where a loop is running."""

    async def fill() -> None:
        store = create_store(url, ".")
        await store.start()
        resource, name, key = GROUP_COORDINATOR.shards_key
        await store.put_configs([ConfigEntry(resource, name, key, str(PARTITIONS))])
        for topic in TOPICS:
            await store.put_topic(topic)
        await store.open_many([offsets_log_name(number) for number in range(PARTITIONS)])
        state = await store.open(log_name(ORDERS_ID, 1))
        await store.append([Append(state.name, state.owner_epoch, 0, 41, TIME_MS, b"records")])
        for partition, payloads in logs.items():
            state = await store.open(offsets_log_name(partition))
            await store.append([_append(state.name, state.owner_epoch, one) for one in payloads])
        await store.close()

    with ThreadPoolExecutor(1) as executor:
        executor.submit(asyncio.run, fill()).result()


def _append(name: str, owner_epoch: int, payload: bytes) -> Append:
    header = parse_header(payload)
    return Append(
        name,
        owner_epoch,
        header.base_offset,
        header.last_offset,
        header.max_timestamp_ms,
        with_base_offset(payload, header.base_offset, 0),
    )


def write_segments(directory: Path, logs: Mapping[int, Sequence[bytes]] = LOGS) -> Path:
    """A broker's log directory: two files for each log partition."""
    for partition, payloads in logs.items():
        half = len(payloads) // 2
        write_segment(directory, partition, *payloads[:half])
        write_segment(directory, partition, *payloads[half:])
    return directory
