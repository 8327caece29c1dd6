"""What members say about the records they have acquired, before anybody looks at the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

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


def spans_of_types(batch: AcknowledgementBatch) -> Iterator[tuple[int, int]]:
    """Neighbouring offsets of one type: the type and the last offset of each span."""
    if len(batch.types) == 1:
        yield batch.types[0], batch.last_offset
        return
    last = batch.first_offset - 1
    for kind, same in groupby(batch.types):
        last += len(list(same))
        yield kind, last
