"""Batches made from records that already have offsets and times: what is left of another batch,
or records that move to another log. Gaps between offsets are legal, as compaction leaves them.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupd.protocol.records.batch import (
    CODEC_MASK,
    MAGIC,
    BatchHeader,
    BatchRecord,
    pack_batch,
)
from groupd.protocol.records.batch_records import zigzag


def rebuild_batch(header: BatchHeader, records: Sequence[BatchRecord]) -> bytes:
    """The batch of `header` with just these records, uncompressed: its place, first and last
    offset, times, producer and kind stay. None left: a bare header. Record headers are lost,
    which coordinator records do not have."""
    base_ms = header.base_timestamp_ms
    body = b"".join(
        _record(
            record.offset - header.base_offset,
            # Under log append time the header's time counts; what is stored here does not.
            0 if header.is_log_append_time else record.timestamp_ms - base_ms,
            record.key,
            record.value,
        )
        for record in records
    )
    kept = header._replace(attributes=header.attributes & ~CODEC_MASK, record_count=len(records))
    return pack_batch(kept, body)


def plain_batch(records: Sequence[BatchRecord]) -> bytes:
    """A plain create-time batch of these records, at least one, in the order of their offsets;
    it ends with the last."""
    times = [record.timestamp_ms for record in records]
    first, last = records[0].offset, records[-1].offset
    return rebuild_batch(bare_header(first, last, times[0], max(times)), records)


def empty_batch(base_offset: int, last_offset: int) -> bytes:
    """What compaction leaves of a batch whose records are all gone: a bare header."""
    return rebuild_batch(bare_header(base_offset, last_offset, -1, -1), ())


def bare_header(
    base_offset: int, last_offset: int, base_timestamp_ms: int, max_timestamp_ms: int
) -> BatchHeader:
    """Of a plain batch; length, checksum and count are made when it is built."""
    return BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=last_offset - base_offset,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=0,
        record_count=0,
    )


def _record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None
) -> bytes:
    body = b"".join(
        (
            b"\x00",
            zigzag(timestamp_delta),
            zigzag(offset_delta),
            b"\x01" if key is None else zigzag(len(key)) + key,
            b"\x01" if value is None else zigzag(len(value)) + value,
            b"\x00",
        )
    )
    return zigzag(len(body)) + body
