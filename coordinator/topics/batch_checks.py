"""Is what a producer sent a batch that may be appended? Kafka's checks, in Kafka's order.

Records stay opaque: single records are looked at only for compacted topics, where each needs a
key. Timestamps are checked by the batch header.
"""

from __future__ import annotations

from coordinator.topics.topic_configs import TopicSettings
from protocol.errors import ApiError, ErrorCode
from protocol.records.batch import (
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    iter_records,
    parse_header,
    verify_crc,
    with_log_append_time,
)
from protocol.records.compression import ZSTD, UnsupportedCodec

_ZSTD_MIN_VERSION = 7
_MAX_CODEC = ZSTD
_NO_TIMESTAMP = -1


def check_batch(
    records: bytes | None, settings: TopicSettings, api_version: int, now_ms: int
) -> tuple[BatchHeader, bytes]:
    """The batch as it will be stored, but for its offsets. Raises ApiError INVALID_RECORD,
    UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE,
    CORRUPT_MESSAGE or INVALID_TIMESTAMP."""
    if not records:
        raise _invalid("Produce requests must have at least one record batch per partition")
    try:
        header = parse_header(records)
    except UnsupportedMagic as error:
        raise ApiError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            "Only record batches with magic version 2 are accepted",
        ) from error
    except CorruptBatch as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    _check_shape(header, records, settings, api_version)
    _check_header(header)
    _check_timestamps(header, settings, now_ms)
    if "compact" in settings.text("cleanup.policy"):
        _check_keys(records)
    if settings.text("message.timestamp.type") == "LogAppendTime":
        records = with_log_append_time(records, now_ms)
        header = parse_header(records)
    return header, records


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)


def _check_shape(
    header: BatchHeader, records: bytes, settings: TopicSettings, api_version: int
) -> None:
    if header.codec == ZSTD and api_version < _ZSTD_MIN_VERSION:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"Produce requests with version {api_version} are not allowed to use ZStandard",
        )
    if header.size < len(records):
        raise _invalid("Produce requests must contain exactly one record batch per partition")
    if header.size > len(records):
        raise ApiError(
            ErrorCode.CORRUPT_MESSAGE,
            f"A record batch of {header.size} bytes has only {len(records)}",
        )
    if header.base_offset != 0:
        raise _invalid(f"The base offset of an appended batch is {header.base_offset}, not 0")
    largest = settings.number("max.message.bytes")
    if header.size > largest:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch of {header.size} bytes exceeds the maximum configured value "
            f"of {largest}",
        )
    if not verify_crc(records, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")


def _check_header(header: BatchHeader) -> None:
    if header.last_offset_delta < 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(
            f"Inconsistent batch offset range and record count {header.record_count}: last "
            f"offset delta {header.last_offset_delta}"
        )
    if header.codec > _MAX_CODEC:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression type {header.codec}"
        )
    if header.is_control:
        raise _invalid("Clients are not allowed to write control records")
    if header.is_transactional and header.producer_id < 0:
        raise _invalid("A transactional record batch must have a producer id")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise _invalid(
            f"Invalid sequence number {header.base_sequence} or epoch {header.producer_epoch} in "
            f"a record batch with producer id {header.producer_id}"
        )


def _check_timestamps(header: BatchHeader, settings: TopicSettings, now_ms: int) -> None:
    if header.is_log_append_time:
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            "Producers should not set the timestamp type to LogAppendTime",
        )
    if settings.text("message.timestamp.type") != "CreateTime":
        return
    latest = now_ms + settings.number("message.timestamp.after.max.ms")
    earliest = now_ms - settings.number("message.timestamp.before.max.ms")
    oldest = header.base_timestamp_ms
    if header.max_timestamp_ms > latest or (oldest != _NO_TIMESTAMP and oldest < earliest):
        raise ApiError(
            ErrorCode.INVALID_TIMESTAMP,
            f"A timestamp of the batch is out of range: it should be within [{earliest}, {latest}]",
        )


def _check_keys(records: bytes) -> None:
    try:
        keyless = any(record.key is None for record in iter_records(records))
    except UnsupportedCodec:
        return
    except CorruptBatch as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if keyless:
        raise _invalid("Compacted topic cannot accept message without key")
