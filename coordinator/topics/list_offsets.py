"""ListOffsets (2): offsets by time or by name (earliest, latest, ...).

READ_COMMITTED ends at the last stable offset. A timestamp is answered with the first record at or
after it. Where a batch can not be decompressed, its base offset is the answer: reading from there
misses nothing.
"""

from __future__ import annotations

from collections import Counter

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.topics.epochs import check_leader_epoch
from groupd.coordinator.topics.partition import LEADER_EPOCH, ReadableLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    READ_COMMITTED,
    ListedOffset,
    ListedOffsetsTopic,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsRequest,
)
from groupd.protocol.records.batch import CorruptBatch, iter_batches, iter_records, parse_header
from groupd.protocol.records.compression import UnsupportedCodec
from groupd.storage.log import LogCorrupt, LogError

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = range(
    -1, -7, -1
)
_MIN_VERSIONS = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_SCAN_BYTES = 1 << 20

_Found = tuple[int, int]
"""(timestamp ms, offset)"""


class ListOffsets:
    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions

    async def handle(
        self, context: RequestContext, request: ListOffsetsRequest
    ) -> ListOffsetsReply:
        counts = Counter(
            (topic.name, asked.partition) for topic in request.topics for asked in topic.partitions
        )
        topics = []
        for topic in request.topics:
            listed = []
            for asked in topic.partitions:
                try:
                    if counts[topic.name, asked.partition] > 1:
                        raise ApiError(ErrorCode.INVALID_REQUEST)
                    committed = request.isolation_level == READ_COMMITTED
                    listed.append(await self._one(context, topic.name, asked, committed))
                except ApiError as error:
                    listed.append(ListedOffset(asked.partition, error.code))
                except LogError as failed:
                    self._partitions.cannot_read(failed)
                    listed.append(ListedOffset(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR))
            topics.append(ListedOffsetsTopic(topic.name, tuple(listed)))
        return ListOffsetsReply(tuple(topics))

    async def _one(
        self, context: RequestContext, name: str, asked: ListOffsetsPartition, committed: bool
    ) -> ListedOffset:
        if not context.allows(Operation.DESCRIBE, Resource.TOPIC, name):
            raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        topic = self._partitions.resolve_name(name, asked.partition)
        least = _MIN_VERSIONS.get(asked.timestamp_ms, 0)
        if asked.timestamp_ms < EARLIEST_PENDING_UPLOAD or context.api_version < least:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        log = await self._partitions.readable(topic, asked.partition)
        check_leader_epoch(asked.current_leader_epoch)
        end_offset = log.last_stable_offset if committed else log.high_watermark
        found = await self._find(log, asked.timestamp_ms, end_offset)
        if found is None:
            return ListedOffset(asked.partition)
        timestamp_ms, offset = found
        return ListedOffset(
            asked.partition, timestamp_ms=timestamp_ms, offset=offset, leader_epoch=LEADER_EPOCH
        )

    async def _find(self, log: ReadableLog, timestamp_ms: int, end_offset: int) -> _Found | None:
        if timestamp_ms == LATEST:
            return -1, end_offset
        if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
            return -1, log.start_offset
        if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return None
        if timestamp_ms == MAX_TIMESTAMP:
            found = await self._max_timestamp(log)
        else:
            found = await self._at_or_after(log, timestamp_ms, end_offset)
        return None if found is None or found[1] >= end_offset else found

    async def _max_timestamp(self, log: ReadableLog) -> _Found | None:
        batch = await log.with_max_timestamp()
        if batch is None or batch.max_timestamp_ms < 0:
            return None
        return _first_in_batch(batch.payload, batch.max_timestamp_ms, log.start_offset)

    async def _at_or_after(
        self, log: ReadableLog, timestamp_ms: int, end_offset: int
    ) -> _Found | None:
        batch = await log.first_at_or_after(timestamp_ms)
        if batch is None:
            return None
        found = _first_in_batch(batch.payload, timestamp_ms, log.start_offset)
        offset = batch.last_offset + 1
        # When DeleteRecords has cut the batch in two, or the cleaner was there, the matching record
        # can be gone.
        while found is None and offset < end_offset:
            payloads = await log.read(offset, _SCAN_BYTES, min_one=True)
            if not payloads:
                return None
            for payload in payloads:
                found = found or _first_in_batch(payload, timestamp_ms, log.start_offset)
            offset = parse_header(payloads[-1]).next_offset
        return found


def _first_in_batch(payload: bytes, timestamp_ms: int, start_offset: int) -> _Found | None:
    """The first record of the batches of one row that is at or after both."""
    for batch in iter_batches(payload):
        header = batch.header
        if header.max_timestamp_ms < timestamp_ms:
            continue
        try:
            for record in iter_records(batch):
                if record.timestamp_ms >= timestamp_ms and record.offset >= start_offset:
                    return record.timestamp_ms, record.offset
        except UnsupportedCodec:
            return header.max_timestamp_ms, max(header.base_offset, start_offset)
        except CorruptBatch as error:
            raise LogCorrupt(str(error)) from error
    return None
