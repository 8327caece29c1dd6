"""Reads a partition from an offset: what a reader gets, and where it goes on.

It knows neither who asks nor how the answer is sent. `Partitions.resolve` finds the topic by name
or id, `Partitions.readable` the log; `groupd.coordinator.topics.long_polls` waits for more.
"""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.topics.partition import ReadableLog
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import READ_COMMITTED
from groupd.protocol.records.batch import parse_header


class LogPart(Struct, frozen=True):
    """What a reader gets of a log.

    `records`: whole batches, but a limit may have cut the last one. `next_offset`: that of the
    first batch that is not whole in there. `high_watermark`, `last_stable_offset` and
    `log_start_offset`: those of the moment at which it was read. `aborted`: the aborted
    transactions, as (producer id, first offset), that have records in it; None unless committed
    data was read. `cut`: a limit has kept something back. `exhausted_at`: if the reader has seen
    all that there is, how often the log had changed then (`ReadableLog.changes`); else -1.
    """

    records: bytes
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...] | None
    cut: bool = False
    exhausted_at: int = -1


async def read_log(
    log: ReadableLog, offset: int, max_bytes: int, isolation_level: int, *, whole_first: bool
) -> LogPart:
    """Read what there is from `offset` on: below the high watermark, for READ_COMMITTED below the
    last stable offset, and at most `max_bytes`. As in Kafka a limit cuts the batch that does not
    fit, for which clients are prepared; with `whole_first` the first batch is whole in any case.
    Raises ApiError OFFSET_OUT_OF_RANGE, also where records were deleted while they were read;
    LogError."""
    start_offset, high_watermark = log.start_offset, log.high_watermark
    stable_offset = log.last_stable_offset
    if not start_offset <= offset <= log.next_offset:
        raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    committed = isolation_level == READ_COMMITTED
    end_offset = stable_offset if committed else high_watermark
    records, next_offset, cut, exhausted_at = b"", offset, False, -1
    if offset < end_offset:
        records, next_offset, cut = await _batches(log, offset, end_offset, max_bytes, whole_first)
        if committed and offset < log.start_offset:
            # Deleted while it was read, and with it what is known of aborted transactions.
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
    else:
        exhausted_at = log.changes
    return LogPart(
        records,
        next_offset,
        high_watermark,
        stable_offset,
        start_offset,
        log.aborted(offset, next_offset) if committed else None,
        cut,
        exhausted_at,
    )


async def _batches(
    log: ReadableLog, offset: int, end_offset: int, limit: int, whole_first: bool
) -> tuple[bytes, int, bool]:
    """Batches below `end_offset`, the offset after the last whole one, and whether the limit has
    kept something back."""
    limit = max(0, limit)
    payloads: list[bytes] = []
    size, next_offset = 0, offset
    while next_offset < end_offset and (size < limit or (whole_first and not payloads)):
        found = await log.read(next_offset, limit - size, min_one=True)
        # Above the end; without open transactions there is nothing of that kind.
        while found and parse_header(found[-1]).base_offset >= end_offset:
            found.pop()
        if not found:
            break
        payloads += found
        size += sum(map(len, found))
        next_offset = parse_header(found[-1]).next_offset
    cut = next_offset < end_offset or size > limit
    if not payloads or (not whole_first and len(payloads[0]) > limit):
        return b"", offset, cut
    if size > limit and len(payloads) > 1:
        whole = size - len(payloads[-1])
        next_offset = parse_header(payloads[-1]).base_offset
        payloads[-1] = payloads[-1][: max(0, limit - whole)]
    return payloads[0] if len(payloads) == 1 else b"".join(payloads), next_offset, cut
