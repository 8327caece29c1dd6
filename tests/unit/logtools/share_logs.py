"""Records of share groups and of their state."""

from __future__ import annotations

from pathlib import Path

from groupd.coordinator.logtools.logs import SHARE_STATE_LOG
from groupd.coordinator.logtools.share_state import shard_of
from groupd.protocol.messages.share_state import ShareStateBatch
from groupd.protocol.records.batch import parse_header
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.schema import (
    AssignedTopic,
    Record,
    ShareGroupCurrentMemberKey,
    ShareGroupCurrentMemberValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionsKey,
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMemberValue,
    ShareGroupTargetMetadataKey,
    ShareGroupTargetMetadataValue,
    ShareStatePartitions,
)
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareStateValue,
    ShareUpdate,
    encode_record,
)
from groupd.storage.log import Append, ConfigEntry
from groupd.storage.open import create_store
from tests.unit.logtools.harness import ORDERS_ID, TIME_MS, G

PLACE = SharePartitionKey(G, ORDERS_ID, 0)

StateRecord = tuple[SharePartitionKey, ShareStateValue]


def share_group(group: str = G, epoch: int = 3) -> list[Record]:
    """A share group of one member, in the order in which a heartbeat writes it. Its topic is
    initialized, and another one is being deleted."""
    orders = (AssignedTopic(ORDERS_ID, (0, 1)),)
    return [
        Record(
            ShareGroupMemberMetadataKey(group, "m0"),
            ShareGroupMemberMetadataValue("rack", "c", "/h", ("orders",)),
        ),
        Record(ShareGroupMetadataKey(group), ShareGroupMetadataValue(epoch, 77)),
        Record(ShareGroupTargetMemberKey(group, "m0"), ShareGroupTargetMemberValue(orders)),
        Record(ShareGroupTargetMetadataKey(group), ShareGroupTargetMetadataValue(epoch, TIME_MS)),
        Record(
            ShareGroupCurrentMemberKey(group, "m0"),
            ShareGroupCurrentMemberValue(epoch, epoch - 1, 0, orders),
        ),
        Record(
            ShareGroupStatePartitionsKey(group),
            ShareGroupStatePartitionsValue(
                (),
                (ShareStatePartitions(ORDERS_ID, "orders", (0, 1)),),
                ((b"\xbb" * 16, "old"),),
            ),
        ),
    ]


def ranges(*batches: tuple[int, int, int, int]) -> tuple[ShareStateBatch, ...]:
    """Batches from (first, last, state, count)."""
    return tuple(ShareStateBatch(*one) for one in batches)


def snapshot(
    epoch: int,
    start: int,
    *batches: tuple[int, int, int, int],
    key: SharePartitionKey = PLACE,
    state_epoch: int = 2,
    leader_epoch: int = 0,
    complete: int = 0,
) -> StateRecord:
    times = (TIME_MS, TIME_MS)
    value = ShareSnapshot(
        epoch, state_epoch, leader_epoch, start, *times, ranges(*batches), complete
    )
    return key, value


def update(
    epoch: int,
    start: int,
    *batches: tuple[int, int, int, int],
    key: SharePartitionKey = PLACE,
    leader_epoch: int = 0,
    complete: int = 0,
) -> StateRecord:
    return key, ShareUpdate(epoch, leader_epoch, start, ranges(*batches), complete)


def no_state(key: SharePartitionKey = PLACE) -> StateRecord:
    return key, None


def state_batch(base: int, *records: StateRecord, time_ms: int = TIME_MS) -> bytes:
    return encode_batch(base, 0, time_ms, [encode_record(*record) for record in records])


def write_state(directory: Path, partition: int, *payloads: bytes) -> Path:
    """A segment file of the log, named by its first batch."""
    target = directory / f"{SHARE_STATE_LOG.topic}-{partition}"
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"{parse_header(payloads[0]).base_offset:020d}.log"
    path.write_bytes(b"".join(payloads))
    return path


def home_of(key: SharePartitionKey = PLACE, partitions: int = 50) -> int:
    return shard_of(key, partitions)


async def fill_state(directory: Path, partition: int, *payloads: bytes) -> None:
    """A store, new or not, with these batches in one shard of the log."""
    store = create_store(None, directory)
    await store.start()
    resource, name, key = SHARE_STATE_LOG.shards_key
    await store.put_configs([ConfigEntry(resource, name, key, "50")])
    state = await store.open(SHARE_STATE_LOG.store_name(partition))
    appends = []
    for payload in payloads:
        header = parse_header(payload)
        appends.append(
            Append(
                state.name,
                state.owner_epoch,
                header.base_offset,
                header.last_offset,
                header.max_timestamp_ms,
                payload,
            )
        )
    await store.append(appends)
    await store.close()
