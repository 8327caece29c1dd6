"""Stores and logs made by hand, byte by byte where a test wants damage."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.runtime.coordinator_types import GROUP_COORDINATOR
from groupd.protocol.records.batch import BatchRecord, iter_batches, parse_header
from groupd.protocol.records.batch_builder import encode_batch, encode_marker
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    Record,
)
from groupd.storage.checksums import batch_crc, log_sum
from groupd.storage.log import ConfigEntry, StoredTopic
from groupd.storage.open import DATABASE_FILE, create_store

PARTITIONS = 4
LOG = "__consumer_offsets"
TIME_MS = 1_700_000_000_000
ORDERS_ID = bytes.fromhex("00112233445566778899aabbccddeeff")
G = "g0"
"""A group of partition `HOME`."""
HOME = partition_for(G, PARTITIONS)

Pair = tuple[bytes | None, bytes | None]


def pair(record: Record) -> tuple[bytes, bytes | None]:
    return encode_key(record.key), encode_value(record)


def commit(offset: int, group: str = G, topic: str = "orders", partition: int = 0) -> Record:
    value = OffsetCommitValue(offset, 5, "m", TIME_MS, -1, ORDERS_ID)
    return Record(OffsetCommitKey(group, topic, partition), value)


def gone(record: Record) -> Record:
    return Record(record.key)


def classic(group: str = G, members: int = 1, generation: int = 3) -> Record:
    return Record(
        GroupMetadataKey(group),
        GroupMetadataValue(
            "consumer",
            generation,
            "range",
            "m0" if members else None,
            TIME_MS,
            tuple(
                GroupMetadataMember(f"m{n}", None, "c", "/h", 1000, 2000, b"\x00\x01", b"\x02")
                for n in range(members)
            ),
        ),
    )


def consumer(group: str = G, epoch: int = 4) -> list[Record]:
    """A KIP-848 group of one member who has both partitions of orders."""
    return [
        Record(
            ConsumerGroupMemberMetadataKey(group, "m0"),
            ConsumerGroupMemberMetadataValue("i0", None, "c", "/h", ("orders",), None, 1000),
        ),
        Record(ConsumerGroupMetadataKey(group), ConsumerGroupMetadataValue(epoch, 77)),
        Record(ConsumerGroupTargetMemberKey(group, "m0"), ConsumerGroupTargetMemberValue()),
        Record(ConsumerGroupTargetMetadataKey(group), ConsumerGroupTargetMetadataValue(epoch)),
        Record(
            ConsumerGroupCurrentMemberKey(group, "m0"),
            ConsumerGroupCurrentMemberValue(
                epoch, epoch - 1, 0, (OwnedTopic(ORDERS_ID, (0, 1), (epoch, epoch)),)
            ),
        ),
    ]


def batch(base: int, *records: Record, time_ms: int = TIME_MS, producer: int = -1) -> bytes:
    """A batch; with a `producer`, inside a transaction of its epoch 0."""
    pairs = [pair(record) for record in records]
    if producer < 0:
        return encode_batch(base, 0, time_ms, pairs)
    return encode_batch(base, 0, time_ms, pairs, producer, 0, transactional=True)


def marker(base: int, producer: int, *, commit: bool) -> bytes:
    return encode_marker(base, 0, TIME_MS, producer, 0, 3, commit=commit)


async def make_store(
    directory: Path,
    logs: Mapping[int, Sequence[bytes]] | None = None,
    topics: Iterable[StoredTopic] = (),
    partitions: int = PARTITIONS,
) -> Path:
    """A store as a daemon leaves it; the database file. `logs`: batches by shard, whose offsets
    begin at 0 and follow each other."""
    store = create_store(None, directory)
    await store.start()
    resource, name, key = GROUP_COORDINATOR.shards_key
    await store.put_configs([ConfigEntry(resource, name, key, str(partitions))])
    for topic in topics:
        await store.put_topic(topic)
    await store.open_many([f"{LOG}-{number}" for number in range(partitions)])
    await store.close()
    database = directory / DATABASE_FILE
    for partition, payloads in (logs or {}).items():
        for payload in payloads:
            add_row(database, partition, payload)
    return database


def add_row(
    database: Path,
    partition: int,
    payload: bytes,
    base: int | None = None,
    last: int | None = None,
    max_timestamp_ms: int | None = None,
) -> None:
    """One row, with the numbers of its batch unless told otherwise, and its right checksum; the
    log ends behind it."""
    if base is None or last is None or max_timestamp_ms is None:
        header = parse_header(payload)
        base = header.base_offset if base is None else base
        last = header.last_offset if last is None else last
        max_timestamp_ms = header.max_timestamp_ms if max_timestamp_ms is None else max_timestamp_ms
    with closing(sqlite3.connect(database)) as connection:
        name = f"{LOG}-{partition}"
        (log_id,) = connection.execute("SELECT log_id FROM log WHERE name = ?", [name]).fetchone()
        crc = batch_crc(log_id, base, last, max_timestamp_ms, payload)
        connection.execute(
            "INSERT INTO log_batch (log_id, base_offset, last_offset, max_timestamp_ms, row_crc,"
            " payload) VALUES (?, ?, ?, ?, ?, ?)",
            [log_id, base, last, max_timestamp_ms, crc, payload],
        )
        connection.commit()
    change_log(database, partition, next_offset=last + 1)


def change_log(database: Path, partition: int, **values: str | int) -> None:
    """Puts other values into the row of a shard's log, with the right checksum."""
    columns = ("log_id", "name", "owner_epoch", "start_offset", "next_offset")
    with closing(sqlite3.connect(database)) as connection:
        query = f"SELECT {', '.join(columns)} FROM log WHERE name = ?"
        row = connection.execute(query, [f"{LOG}-{partition}"]).fetchone()
        changed = {**dict(zip(columns, row, strict=True)), **values}
        changed["row_sum"] = log_sum(*(changed[column] for column in columns))
        sets = ", ".join(f"{column} = :{column}" for column in changed)
        connection.execute(f"UPDATE log SET {sets} WHERE log_id = :log_id", changed)
        connection.commit()


def execute(database: Path, statement: str, *parameters: object) -> None:
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(statement, parameters)
        connection.commit()


def write_segment(directory: Path, partition: int, *payloads: bytes) -> Path:
    """A segment file in its partition's directory, named by its first batch."""
    target = directory / f"{LOG}-{partition}"
    target.mkdir(parents=True, exist_ok=True)
    first = parse_header(payloads[0]).base_offset
    path = target / f"{first:020d}.log"
    path.write_bytes(b"".join(payloads))
    return path


def read_segments(directory: Path) -> dict[int, bytes]:
    """All bytes by partition."""
    return {
        int(path.name.rpartition("-")[2]): b"".join(
            file.read_bytes() for file in sorted(path.glob("*.log"))
        )
        for path in sorted(directory.iterdir())
        if path.is_dir()
    }


def offsets_in(data: bytes) -> list[int]:
    """Base offsets of the batches."""
    return [found.header.base_offset for found in iter_batches(data)]


def at(offset: int, record: Record, time_ms: int = TIME_MS) -> BatchRecord:
    key, value = pair(record)
    return BatchRecord(offset, time_ms, key, value)
