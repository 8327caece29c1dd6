"""Which acknowledgements are good: their form, and who holds the records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from groupd.coordinator.share_partitions.runs import ACQUIRED, OffsetRuns
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_fetch import REJECT, RENEW, AcknowledgementBatch

RENEW_VERSION = 2
"""The first version of ShareFetch and ShareAcknowledge that knows RENEW (KIP-1222)."""


def check_batches(
    batches: Sequence[AcknowledgementBatch], api_version: int, is_renew_ack: bool
) -> None:
    """Raises ApiError INVALID_REQUEST (docs/spec/share-group.md#4.6, SG-108, SG-109)."""
    highest = RENEW if api_version >= RENEW_VERSION else REJECT
    previous = -1
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.types
        if first > last:
            raise _invalid(batch, "the first offset is after the last")
        if first < previous:
            raise _invalid(batch, f"it begins before the end {previous} of the previous batch")
        if not types:
            raise _invalid(batch, "it has no acknowledge types")
        if len(types) > 1 and len(types) != last - first + 1:
            raise _invalid(batch, f"it has {len(types)} acknowledge types, not one for each offset")
        if max(types) > highest:
            raise _invalid(batch, "it has an unknown acknowledge type")
        if RENEW in types and not is_renew_ack:
            raise _invalid(batch, "it renews locks, but the request is not a renewal")
        previous = last


def _invalid(batch: AcknowledgementBatch, why: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_REQUEST,
        f"Acknowledgement of {batch.first_offset} to {batch.last_offset}: {why}.",
    )


def spans_of_types(batch: AcknowledgementBatch, first: int) -> tuple[Sequence[int], list[int]]:
    """Neighbouring offsets of one type from the offset `first` on: the types of the spans, and the
    offsets behind them."""
    if len(batch.types) == 1:
        return batch.types, [batch.last_offset + 1]
    kinds, ends, end = [], [], first
    for kind, same in groupby(batch.types[first - batch.first_offset :]):
        end += len(list(same))
        kinds.append(kind)
        ends.append(end)
    return kinds, ends


def check_held(
    runs: OffsetRuns,
    start_offset: int,
    member_id: str,
    batches: Sequence[AcknowledgementBatch],
    may_renew: bool,
) -> list[AcknowledgementBatch]:
    """Returns the batches that have offsets from the start offset on; what is before is over, which
    is no error. Raises ApiError INVALID_RECORD_STATE if a record is not acquired by this member, or
    waits for a write, or may not be renewed; INVALID_REQUEST if an offset is beyond what is in
    flight (docs/spec/share-group.md#4.6)."""
    asked: list[AcknowledgementBatch] = []
    taken = -1  # the last offset that an earlier batch of the request changes
    for batch in batches:
        last = batch.last_offset
        if last < start_offset:
            continue
        first = max(batch.first_offset, start_offset)
        if first <= taken:
            raise _not_held(first, "was acknowledged already")
        if not runs or runs[0].first > first:
            raise _not_held(first, "was not acquired")
        held = runs.between(first, last)
        if not held or held[-1].last < last:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Offset {last} is beyond the acquired records."
            )
        for run in held:
            if run.state != ACQUIRED or run.lock is None:
                raise _not_held(max(first, run.first), "is not acquired")
            if run.lock.member_id != member_id:
                raise _not_held(max(first, run.first), "is acquired by another member")
        if RENEW in batch.types and not may_renew:
            raise ApiError(
                ErrorCode.INVALID_RECORD_STATE,
                "Renewing acquisition locks is not enabled for the group.",
            )
        if batch.types[-1] != RENEW:
            taken = last
        asked.append(batch)
    return asked


def _not_held(offset: int, why: str) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_RECORD_STATE,
        f"The record at offset {offset} cannot be acknowledged: it {why}.",
    )
