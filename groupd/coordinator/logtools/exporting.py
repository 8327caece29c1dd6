"""`groupd log export`: writes the logs of groups as Kafka's segment files.

If the target has as many partitions as the store, batches keep their offsets and everything else.
Otherwise the newest records are written into new batches. The topic ids are those of this store. A
cluster whose topics have other ids would not find offsets with them, so by default the ids are left
out: OffsetCommit values become version 3, which every Kafka since 2.1 reads. The log of share
groups' state is always written as it is, with its ids.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from groupd.coordinator.logtools.entries import LogToolError, entries_of
from groupd.coordinator.logtools.importing import batches_of, distribute
from groupd.coordinator.logtools.latest import Tally, latest_of
from groupd.coordinator.logtools.logs import OFFSETS_LOG, ToolLog
from groupd.coordinator.logtools.segments import SEGMENT_BYTES, LogSource, SegmentWriter, log_name
from groupd.protocol.records.batch import Batch, BatchRecord, CorruptBatch, parse_header
from groupd.protocol.records.batch_builder import rebuild_batch
from groupd.protocol.records.codec import (
    CorruptRecord,
    UnknownRecordType,
    decode_record,
    encode_value,
)
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.protocol.records.schema import OffsetCommitValue

OFFSET_VALUE_WITHOUT_ID = 3


class ExportOptions(Struct, frozen=True):
    """`partitions`: None = as many as the source has. `keep_ids`: keep topic ids, and so the bytes
    of the records."""

    groups: frozenset[str] = frozenset()
    partitions: int | None = None
    keep_ids: bool = False
    segment_bytes: int = SEGMENT_BYTES


class Exported(Struct):
    partitions: int = 0
    batches: int = 0
    records: int = 0


async def export_log(
    source: LogSource, source_partitions: int | None, target: Path, options: ExportOptions
) -> Exported:
    """Export into directories below `target`. `options.partitions` is about the offsets log. Raises
    LogToolError."""
    if source.log != OFFSETS_LOG or options.partitions in (None, source_partitions):
        return await _in_place(source, target, options)
    return await _repartitioned(source, target, options, options.partitions or 1)


async def _in_place(source: LogSource, target: Path, options: ExportOptions) -> Exported:
    done = Exported()
    for partition in await source.partitions():
        before = done.batches
        with SegmentWriter(target, partition, options.segment_bytes, source.log) as writer:
            async for batch in source.batches(partition):
                try:
                    payload = _chosen(batch, source.log, options)
                except (CorruptBatch, UnsupportedCodec) as error:
                    name = log_name(partition, source.log)
                    where = f"{name} at offset {batch.header.base_offset}"
                    raise LogToolError(f"{where}: {error}") from error
                if payload is not None:
                    header = parse_header(payload)
                    writer.write(header, payload)
                    done.batches += 1
                    done.records += header.record_count
        done.partitions += done.batches > before
    return done


async def _repartitioned(
    source: LogSource, target: Path, options: ExportOptions, count: int
) -> Exported:
    done = Exported()
    kept = await latest_of(source, options.groups, Tally())
    if not options.keep_ids:
        kept = [one._replace(value=without_id(one.key, one.value)) for one in kept]
    for partition, records in distribute(kept, count, ()).items():
        with SegmentWriter(target, partition, options.segment_bytes) as writer:
            for _, _, _, payload in batches_of(records, 0):
                header = parse_header(payload)
                writer.write(header, payload)
                done.batches += 1
                done.records += header.record_count
        done.partitions += 1
    return done


def _chosen(batch: Batch, log: ToolLog, options: ExportOptions) -> bytes | None:
    """The batch with only the selected records, in the chosen form. If nothing changes, its own
    bytes; None if no record is left. Markers are kept for all groups: a marker without records of
    its transaction has no effect."""
    keep_ids = options.keep_ids or log != OFFSETS_LOG
    if batch.header.is_control or (keep_ids and not options.groups):
        return batch.payload
    changed = False
    records: list[BatchRecord] = []
    for entry in entries_of(batch, log):
        raw = entry.raw
        if options.groups and entry.group not in options.groups:
            changed = True
            continue
        value = raw.value
        if not keep_ids and raw.key is not None and value is not None:
            value = without_id(raw.key, value)
            changed = changed or value is not raw.value
        records.append(raw._replace(value=value))
    if not changed:
        return batch.payload
    return rebuild_batch(batch.header, records) if records else None


def without_id(key: bytes, value: bytes) -> bytes:
    """An OffsetCommit value of version 4 becomes version 3; any other value stays as it is."""
    try:
        record = decode_record(key, value)
    except (UnknownRecordType, CorruptRecord):
        return value
    if not isinstance(record.value, OffsetCommitValue) or value[:2] != b"\x00\x04":
        return value
    encoded = encode_value(record, offset_value_version=OFFSET_VALUE_WITHOUT_ID)
    assert encoded is not None
    return encoded
