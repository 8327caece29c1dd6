"""Second half of the cleaner: what is left of a batch (spec: section 8).

Rules: the newest record of every key stays, with its offset and timestamp, and batches keep their
base and last offset. Aborted records go. A tombstone stays until a delete horizon has passed that
its first cleaning sets (attribute bit 6, in the base timestamp); so does a marker, counted from
the cleaning that finds its transaction without batches. An emptied batch leaves its bare header if
it is the last of the log or the last data of a producer that may come back; the last marker of a
producer does, if its epoch has no data. A batch of which nothing
goes is not touched; another is compressed as it was.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct

from groupd.protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    Batch,
    BatchHeader,
    decode_marker,
    iter_records,
    pack_batch,
)
from groupd.protocol.records.batch_records import zigzag
from groupd.protocol.records.compression import compress
from groupd.protocol.records.scan import RawRecord, raw_records, records_data
from groupd.protocol.records.survey import TURN_RECORDS, Survey

NOWHERE = 2**63 - 1


class Rules(Struct, frozen=True):
    """`last_offset`: of the log; its last batch is never dropped whole. `producer_expiration_ms`: a
    producer that is silent for so long needs no batch that tells of it. `aborted_from`: from here
    on aborted batches leave their headers, and their markers stay, because the records can still
    be read elsewhere and readers must be told of them."""

    now_ms: int
    delete_retention_ms: int
    last_offset: int
    producer_expiration_ms: int
    aborted_from: int = NOWHERE


class Compaction:
    """One cleaning: takes the batches of a log from its start in order, gives what is left.

    `survey` knows everything from the clean offset up to where this cleaning ends.
    """

    def __init__(self, survey: Survey, rules: Rules) -> None:
        self._keys = survey.keys
        self._survey = survey
        self._rules = rules
        # Producers whose transaction still has batches, until its marker.
        self._with_batches: set[int] = set()
        self.records_read = 0
        self.records_kept = 0

    def clean(self, batch: Batch) -> Generator[None, None, bytes | None]:
        """The batch as it stays; None: nothing of it. Yields now and then, see `survey`. Raises
        CorruptBatch."""
        header = batch.header
        self.records_read += header.record_count
        if header.is_control:
            left = self._marker(batch)
        else:
            left = yield from self._data(batch)
        return left

    def _data(self, batch: Batch) -> Generator[None, None, bytes | None]:
        header = batch.header
        transactional = header.is_transactional
        if transactional and self._survey.is_aborted(header):
            return self._aborted(header)
        if transactional and header.record_count == 0:
            return self._aborted(header)  # one that was cleaned before
        data = records_data(batch)
        over = self._horizon_passed(header)
        newest, base_offset = self._keys.get, header.base_offset
        identity = self._survey.identity
        kept: list[RawRecord] = []
        tombstones = False
        for count, record in enumerate(raw_records(header, data), 1):
            key = record.key
            if key is not None and newest(identity(key), -1) <= base_offset + record.offset_delta:
                if record.has_value:
                    kept.append(record)
                elif not over:
                    tombstones = True
                    kept.append(record)
            if count % TURN_RECORDS == 0:
                yield
        if not kept:
            return self._emptied(header)
        self.records_kept += len(kept)
        if transactional:
            self._with_batches.add(header.producer_id)
        horizon = tombstones and not header.attributes & DELETE_HORIZON
        if len(kept) == header.record_count and not horizon:
            return batch.payload
        base_ms = self._horizon_ms() if horizon else header.base_timestamp_ms
        return _rewritten(header, data, kept, base_ms, horizon)

    def _marker(self, batch: Batch) -> bytes | None:
        header = batch.header
        markers = [decode_marker(record) for record in iter_records(batch)]
        if not markers:
            return self._emptied(header)
        alive = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        if alive or None in markers:
            self.records_kept += header.record_count
            return batch.payload
        if self._horizon_passed(header):
            return self._emptied(header)
        self.records_kept += header.record_count
        if header.attributes & DELETE_HORIZON:
            return batch.payload
        data = records_data(batch)
        kept = list(raw_records(header, data))
        return _rewritten(header, data, kept, self._horizon_ms(), True)

    def _aborted(self, header: BatchHeader) -> bytes | None:
        if header.base_offset < self._rules.aborted_from:
            return self._emptied(header)
        self._with_batches.add(header.producer_id)
        return _bare(header)

    def _horizon_ms(self) -> int:
        return self._rules.now_ms + self._rules.delete_retention_ms

    def _horizon_passed(self, header: BatchHeader) -> bool:
        set_before = bool(header.attributes & DELETE_HORIZON)
        return set_before and header.base_timestamp_ms <= self._rules.now_ms

    def _emptied(self, header: BatchHeader) -> bytes | None:
        rules = self._rules
        is_last = header.last_offset >= rules.last_offset
        remembered = (
            header.max_timestamp_ms > rules.now_ms - rules.producer_expiration_ms
            and self._survey.is_last_of_producer(header)
        )
        if not is_last and not remembered:
            return None
        if header.is_transactional and not header.is_control:
            # Who reads it takes it for the begin of a transaction, so there must be an end.
            self._with_batches.add(header.producer_id)
        return _bare(header)


def _bare(header: BatchHeader) -> bytes:
    empty = header._replace(
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
        base_timestamp_ms=header.max_timestamp_ms,
        record_count=0,
    )
    return pack_batch(empty, b"")


def _rewritten(
    header: BatchHeader, data: bytes, kept: list[RawRecord], base_ms: int, horizon: bool
) -> bytes:
    """The batch with the records `kept` only. With a new base timestamp the records keep their
    time by other deltas."""
    shift_ms = header.base_timestamp_ms - base_ms
    if shift_ms:
        parts = [_shifted(data, record, shift_ms) for record in kept]
    else:
        parts = [data[record.start : record.end] for record in kept]
    attributes = header.attributes
    max_ms = header.max_timestamp_ms
    if not attributes & LOG_APPEND_TIME:
        max_ms = header.base_timestamp_ms + max(record.timestamp_delta for record in kept)
    changed = header._replace(
        attributes=attributes | (DELETE_HORIZON if horizon else 0),
        base_timestamp_ms=base_ms,
        max_timestamp_ms=max_ms,
        record_count=len(kept),
    )
    return pack_batch(changed, compress(header.codec, b"".join(parts)))


def _shifted(data: bytes, record: RawRecord, shift_ms: int) -> bytes:
    body = b"".join(
        (b"\x00", zigzag(record.timestamp_delta + shift_ms), data[record.rest : record.end])
    )
    return zigzag(len(body)) + body
