"""Reads a log of a coordinator back, record by record. (The logs of groups have a compacted log
beside them, and are read by `loader`.)"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import structlog

from groupd.coordinator.core.slices import Pace
from groupd.coordinator.runtime.loader import READ_BYTES, LoadFailed, checked_batches
from groupd.protocol.records.batch import BatchRecord, CorruptBatch, iter_records
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.storage.log import LogState, PartitionLogs, StoredBatch

log = structlog.get_logger("groupd.loader")

ApplyRecord = Callable[[bytes, bytes | None, int], int]
"""(key, value, offset): applies a record. Returns how much work that was, in items of `Pace`.
Raises CorruptRecord or ValueError if it cannot be decoded, and UnknownRecordType for a record of a
newer version, which is skipped."""


async def replay_log(logs: PartitionLogs, state: LogState, apply: ApplyRecord) -> int:
    """Apply all records of an open log in order. Returns how many they were. Raises LogError, and
    LoadFailed if a record cannot be decoded: if it were skipped a decision would be undone."""
    offset, applied = state.start_offset, 0
    while offset < state.next_offset:
        rows = await logs.read(state.name, offset, READ_BYTES)
        if not rows:
            raise LoadFailed(
                f"{state.name}: nothing at offset {offset}, log end {state.next_offset}"
            )
        applied += await replay_rows(state.name, rows, apply)
        offset = rows[-1].last_offset + 1
    return applied


async def replay_rows(name: str, rows: Iterable[StoredBatch], apply: ApplyRecord) -> int:
    """Apply the records of these rows of the log `name`; other work gets a turn in between. Returns
    how many they were. Raises LoadFailed."""
    applied, pace = 0, Pace()
    for row in rows:
        try:
            for batch in checked_batches(row):
                if batch.header.is_control:
                    continue
                for record in iter_records(batch):
                    work = _applied(apply, record)
                    applied += work > 0
                    if pace.due(work or 1):
                        await asyncio.sleep(0)
        except (CorruptRecord, CorruptBatch, ValueError) as error:
            raise LoadFailed(f"{name} at offset {row.base_offset}: {error}") from error
    await asyncio.sleep(0)
    return applied


def _applied(apply: ApplyRecord, record: BatchRecord) -> int:
    """Returns how much work that was; 0: the record is skipped."""
    if record.key is None:
        return 0
    try:
        return apply(record.key, record.value, record.offset)
    except UnknownRecordType as unknown:
        log.warning("unknown record type skipped", type=unknown.record_type)
        return 0
