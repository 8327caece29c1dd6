"""Reading a shard back from its log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from coordinator.core.shard import GroupCoordinatorShard
from coordinator.core.types import AppliedAt, Outcome
from coordinator.producers.producer_state import ProducerStates
from coordinator.runtime.clock import Clock
from protocol.records.batch import (
    BatchRecord,
    CorruptBatch,
    check,
    decode_marker,
    iter_batches,
    iter_records,
)
from protocol.records.codec import CorruptRecord, UnknownRecordType, decode_record
from storage.log import LogState, PartitionLogs, StoredBatch

log = structlog.get_logger("groupd.loader")

READ_BYTES = 4 * 1024 * 1024
YIELD_EVERY = 500
"""Records after which other work gets a turn, so that loading does not stall the loop."""


class LoadFailed(Exception):
    """The log holds something that must not be skipped; `str()` says what and where."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """`outcome`: what starting the timers leads to; `records`: how many were applied."""

    shard: GroupCoordinatorShard
    producers: ProducerStates
    outcome: Outcome
    records: int


async def load_anew(
    make_shard: Callable[[], GroupCoordinatorShard],
    bring_up_to_date: Callable[[GroupCoordinatorShard], None],
    logs: PartitionLogs,
    state: LogState,
    clock: Clock,
) -> Loaded:
    """A shard made from its log, with its timers started. Raises LoadFailed or LogError."""
    shard, producers = make_shard(), ProducerStates()
    records = await load_shard(shard, producers, logs, state)
    # Topics and group configs may have changed while the log was read.
    bring_up_to_date(shard)
    try:
        outcome = shard.on_loaded(clock.now())
    except Exception as error:
        log.exception("shard cannot start its timers", log=state.name)
        raise LoadFailed(f"{state.name}: {type(error).__name__}: {error}") from error
    return Loaded(shard, producers, outcome, records)


async def load_shard(
    shard: GroupCoordinatorShard, producers: ProducerStates, logs: PartitionLogs, state: LogState
) -> int:
    """Replay the log into a fresh `shard` and fresh `producers`; how many records were applied.

    Unknown record types are skipped with a warning; anything undecodable fails the load (spec:
    offsets and log, section 7).
    """
    offset, applied = state.start_offset, 0
    skipped: dict[int, int] = {}
    while offset < state.next_offset:
        batches = await logs.read(state.name, offset, READ_BYTES)
        if not batches:
            raise LoadFailed(
                f"{state.name}: nothing at offset {offset}, log end {state.next_offset}"
            )
        for stored in batches:
            try:
                check_batches(stored)
                applied += _replay_batch(shard, producers, stored.payload, skipped)
            except (CorruptRecord, CorruptBatch, ValueError) as error:
                raise LoadFailed(f"{state.name} at offset {stored.base_offset}: {error}") from error
            except Exception as error:
                # A bug of ours. It must cost this shard, not the daemon.
                log.exception("replay failed", log=state.name, offset=stored.base_offset)
                reason = f"{type(error).__name__}: {error}"
                raise LoadFailed(
                    f"{state.name} at offset {stored.base_offset}: {reason}"
                ) from error
            offset = stored.last_offset + 1
            if applied % YIELD_EVERY < stored.last_offset - stored.base_offset + 1:
                await asyncio.sleep(0)
    for record_type, count in sorted(skipped.items()):
        log.warning("unknown record type skipped", log=state.name, type=record_type, records=count)
    producers.transactions.durable(state.next_offset)
    return applied


def check_batches(stored: StoredBatch) -> None:
    """What a row holds stands at the offsets that the store has it at. Raises CorruptBatch."""
    expected = stored.base_offset
    for header, payload in iter_batches(stored.payload):
        check(payload)
        if not expected <= header.base_offset <= header.last_offset <= stored.last_offset:
            raise CorruptBatch(
                f"it says offsets {header.base_offset} to {header.last_offset}, "
                f"not {expected} to {stored.last_offset}"
            )
        expected = header.next_offset


def _replay_batch(
    shard: GroupCoordinatorShard,
    producers: ProducerStates,
    payload: bytes,
    skipped: dict[int, int],
) -> int:
    applied = 0
    for batch in iter_batches(payload):
        header = batch.header
        producer_id = header.producer_id if header.is_transactional else -1
        producers.replay(batch.payload, header)
        for raw in iter_records(batch):
            if header.is_control:
                _replay_marker(shard, header.producer_id, raw)
            elif raw.key is not None:
                at = AppliedAt(raw.offset, producer_id, header.producer_epoch)
                applied += _replay_record(shard, raw.key, raw.value, at, skipped)
    return applied


def _replay_marker(shard: GroupCoordinatorShard, producer_id: int, raw: BatchRecord) -> None:
    marker = decode_marker(raw)
    if marker is not None:
        shard.replay_marker(producer_id, marker.committed)


def _replay_record(
    shard: GroupCoordinatorShard,
    key: bytes,
    value: bytes | None,
    at: AppliedAt,
    skipped: dict[int, int],
) -> int:
    try:
        record = decode_record(key, value)
    except UnknownRecordType as unknown:
        skipped[unknown.record_type] = skipped.get(unknown.record_type, 0) + 1
        return 0
    shard.replay(record, at)
    return 1
