"""Reading a shard back from its log."""

from __future__ import annotations

import asyncio

import structlog

from coordinator.core.shard import GroupCoordinatorShard
from protocol.records.batch import iter_batches, iter_records
from protocol.records.codec import CorruptRecord, UnknownRecordType, decode_key, decode_value
from protocol.records.schema import Record
from storage.log import LogState, PartitionLogs

log = structlog.get_logger("groupd.loader")

READ_BYTES = 4 * 1024 * 1024
YIELD_EVERY = 500
"""Records after which other work gets a turn, so that loading does not stall the loop."""


class LoadFailed(Exception):
    """The log holds something that must not be skipped; `str()` says what and where."""


async def load_shard(shard: GroupCoordinatorShard, logs: PartitionLogs, state: LogState) -> int:
    """Replay the log into a fresh `shard`; how many records were applied.

    Unknown record types are skipped with a warning; anything undecodable fails the load (spec:
    offsets and log, section 7).
    """
    offset, applied = state.start_offset, 0
    skipped: dict[int, int] = {}
    while offset < state.next_offset:
        batches = await logs.read(state.name, offset, READ_BYTES)
        if not batches:
            raise LoadFailed(f"{state.name}: nothing at offset {offset}, log end {state.next_offset}")
        for stored in batches:
            try:
                applied += _replay_batch(shard, stored.payload, skipped)
            except (CorruptRecord, ValueError) as error:
                raise LoadFailed(f"{state.name} at offset {stored.base_offset}: {error}") from error
            offset = stored.last_offset + 1
            if applied % YIELD_EVERY < stored.last_offset - stored.base_offset + 1:
                await asyncio.sleep(0)
    for record_type, count in sorted(skipped.items()):
        log.warning("unknown record type skipped", log=state.name, type=record_type, records=count)
    return applied


def _replay_batch(shard: GroupCoordinatorShard, payload: bytes, skipped: dict[int, int]) -> int:
    applied = 0
    for batch in iter_batches(payload):
        for raw in iter_records(batch):
            if raw.key is None:
                continue
            try:
                key = decode_key(raw.key)
            except UnknownRecordType as unknown:
                skipped[unknown.record_type] = skipped.get(unknown.record_type, 0) + 1
                continue
            shard.replay(Record(key, decode_value(key, raw.value)), raw.offset)
            applied += 1
    return applied
