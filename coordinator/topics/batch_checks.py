"""Is what a producer sent a batch that may be appended? Kafka's checks, in Kafka's order.

First what can be seen without the log: one whole batch of magic 2 (`produced_batch`). Then the
batch with its records (`check_batch`), each of which is looked at. In two things this is stricter
than Kafka, which appends such batches although no consumer reads them as they were meant: records
whose offset deltas do not count from 0, and compressed records whose lengths are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial

from groupd.coordinator.topics.record_checks import ProducedRecords, check_records, survey_produced
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    UnsupportedMagic,
    parse_header,
    verify_crc,
    with_create_time,
)
from groupd.protocol.records.compression import (
    CODEC_NAMES,
    ZSTD,
    BadCompression,
    UnpacksTooLarge,
    decompress,
)

_ZSTD_MIN_VERSION = 7
_NO_TIMESTAMP = -1
_INT64_MAX = 2**63 - 1
_AT_ONCE_BYTES = 1 << 20
"""What is unpacked at once, in some milliseconds; more than that is unpacked beside the loop."""

Unpacked = bytes | BadCompression
Unpack = Callable[[], Unpacked]
BatchCheck = Generator[Unpack | None, Unpacked | None, tuple[BatchHeader, bytes]]
"""Yields when others should have a turn: None, or a function that takes long and may run in
another thread; then its result is to be sent. Returns the batch as it will be stored, but for its
offsets and the time of the append."""


def produced_batch(records: bytes | None, api_version: int) -> BatchHeader:
    """The header of the one batch that a Produce has for a partition. Raises ApiError
    INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE or CORRUPT_MESSAGE."""
    request = f"Produce requests with version {api_version}"
    none = f"{request} must have at least one record batch per partition"
    if not records or len(records) < HEADER_BYTES:
        raise _invalid(none)
    try:
        header = parse_header(records)
    except UnsupportedMagic as error:
        raise _invalid(
            f"{request} are only allowed to contain record batches with magic version 2"
        ) from error
    except CorruptBatch as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
    if header.size > len(records):
        raise _invalid(none)
    if header.codec == ZSTD and api_version < _ZSTD_MIN_VERSION:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"{request} are not allowed to use ZStandard compression",
        )
    if header.size < len(records):
        raise _invalid(
            f"{request} are only allowed to contain exactly one record batch per partition"
        )
    return header


def check_batch(
    header: BatchHeader,
    payload: bytes,
    settings: TopicSettings,
    place: str,
    unpacked_max_bytes: int,
    now_ms: int,
) -> BatchCheck:
    """`place`: topic and partition, for messages. Raises ApiError INVALID_RECORD,
    UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE, CORRUPT_MESSAGE or INVALID_TIMESTAMP; where
    single records are wrong it is a `BadRecords`."""
    _check_shape(header, payload, settings)
    _check_header(header)
    data = yield from _unpacked(header, payload, unpacked_max_bytes)
    try:
        found = yield from survey_produced(header, data)
    except CorruptBatch as error:
        raise _invalid(str(error)) from error
    yield from check_records(header, data, found, settings, place, now_ms)
    if settings.text("message.timestamp.type") == "CreateTime":
        return _with_its_times(header, payload, found)
    return header, payload


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, message)


def _check_shape(header: BatchHeader, payload: bytes, settings: TopicSettings) -> None:
    if header.base_offset != 0:
        raise _invalid(f"The base offset of an appended batch is {header.base_offset}, not 0")
    largest = settings.number("max.message.bytes")
    if header.size > largest:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The record batch of {header.size} bytes exceeds the maximum configured value "
            f"of {largest}",
        )
    if not verify_crc(payload, header):
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")


def _check_header(header: BatchHeader) -> None:
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(
            f"Inconsistent batch offset range and record count {header.record_count}: last "
            f"offset delta {header.last_offset_delta}"
        )
    if header.codec not in CODEC_NAMES:
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


def _unpacked(
    header: BatchHeader, payload: bytes, limit: int
) -> Generator[Unpack | None, Unpacked | None, bytes]:
    body = payload[HEADER_BYTES:]
    at_once = min(limit, _AT_ONCE_BYTES)
    unpacked: Unpacked | None = _unpack(header.codec, body, at_once)
    if isinstance(unpacked, UnpacksTooLarge) and at_once < limit:
        unpacked = yield partial(_unpack, header.codec, body, limit)
    if isinstance(unpacked, UnpacksTooLarge):
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"The record batch has {unpacked}")
    if isinstance(unpacked, BadCompression):
        raise _invalid(f"Failed to decompress the record batch: {unpacked}")
    assert unpacked is not None
    return unpacked


def _unpack(codec: int, body: bytes, limit: int) -> Unpacked:
    try:
        return decompress(codec, body, limit)
    except BadCompression as error:
        return error


def _with_its_times(
    header: BatchHeader, payload: bytes, found: ProducedRecords
) -> tuple[BatchHeader, bytes]:
    """The batch whose header says the largest timestamp of its records: by what stands there
    readers find records by their time."""
    largest_ms = header.base_timestamp_ms + found.largest_delta_ms
    largest_ms = min(max(largest_ms, _NO_TIMESTAMP), _INT64_MAX)
    if largest_ms == header.max_timestamp_ms and not header.is_log_append_time:
        return header, payload
    payload = with_create_time(payload, largest_ms)
    return parse_header(payload), payload
