"""Records of transactional ids, read from a log into a table."""

from __future__ import annotations

import asyncio

import structlog

from groupd.coordinator.runtime.loader import LoadFailed, check_batches
from groupd.coordinator.transactions.log_records import from_value
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.records.batch import CorruptBatch, iter_batches, iter_records
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.protocol.records.transaction_records import decode_key
from groupd.storage.log import LogState, PartitionLogs, StoredBatch

log = structlog.get_logger("groupd.transactions")

READ_BYTES = 1024 * 1024


async def load_table(table: TransactionTable, logs: PartitionLogs, state: LogState) -> int:
    """Replay a log into a fresh `table`; returns how many records were applied. Raises LogError,
    and LoadFailed for what cannot be decoded: skipping a decision would undo it."""
    offset, applied = state.start_offset, 0
    while offset < state.next_offset:
        batches = await logs.read(state.name, offset, READ_BYTES)
        if not batches:
            raise LoadFailed(
                f"{state.name}: nothing at offset {offset}, log end {state.next_offset}"
            )
        applied += replay(table, state.name, batches)
        offset = batches[-1].last_offset + 1
        await asyncio.sleep(0)
    return applied


def replay(table: TransactionTable, name: str, batches: list[StoredBatch]) -> int:
    """Apply batches of the log `name`; returns how many records were applied. Raises
    LoadFailed."""
    applied = 0
    for stored in batches:
        try:
            check_batches(stored)
            applied += _replay_batch(table, stored.payload)
        except (CorruptRecord, CorruptBatch, ValueError) as error:
            raise LoadFailed(f"{name} at offset {stored.base_offset}: {error}") from error
    return applied


def _replay_batch(table: TransactionTable, payload: bytes) -> int:
    applied = 0
    for batch in iter_batches(payload):
        if batch.header.is_control:
            continue
        for record in iter_records(batch):
            if record.key is None:
                continue
            try:
                transactional_id = decode_key(record.key)
            except UnknownRecordType as unknown:
                log.warning("unknown record type skipped", type=unknown.record_type)
                continue
            metadata = None if record.value is None else from_value(record.value)
            table.replay(transactional_id, metadata, record.offset)
            applied += 1
    return applied
