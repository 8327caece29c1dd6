"""Is what a producer sent a batch that may be appended? Kafka's checks, in Kafka's order.

First what can be seen without the log: one whole batch of magic 2 (`produced_batch`). Then the
batch with its records (`check_batch`), each of which is looked at. In two things this is stricter
than Kafka, which appends such batches although no consumer reads them as they were meant: records
whose offset deltas do not count from 0, and compressed records whose lengths are wrong.
"""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.core.slices import Steps
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
from groupd.protocol.records.compression import CODEC_NAMES, ZSTD, Plain, UnpacksTooLarge

_ZSTD_MIN_VERSION = 7
_NO_TIMESTAMP = -1
_INT64_MAX = 2**63 - 1

UNPACKED_FACTOR = 1024
"""A compressed batch may unpack to this many times its size. Equal records of a kilobyte reach 200
times, equal records of 10 KB 750 times; gzip cannot reach more than 1032 times."""
UNPACKED_ALWAYS_BYTES = 4 << 20
"""Whatever its size is, a batch may unpack to this many bytes."""


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


class BatchCheck(Struct, frozen=True):
    """The checks of one batch. `place`: topic and partition, for messages. `unpacked_max_bytes`:
    `groupd.produce.unpacked.max.bytes`. `now_ms`: wall clock."""

    header: BatchHeader
    payload: bytes
    settings: TopicSettings
    place: str
    unpacked_max_bytes: int
    now_ms: int

    @property
    def limit(self) -> int:
        """Most bytes that the batch may unpack to."""
        return min(
            self.unpacked_max_bytes, max(UNPACKED_ALWAYS_BYTES, UNPACKED_FACTOR * self.header.size)
        )

    def check_header(self) -> None:
        """What can be said without the records. Raises ApiError INVALID_RECORD,
        UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE or CORRUPT_MESSAGE."""
        _check_shape(self.header, self.payload, self.settings)
        _check_header(self.header)

    def steps(self, records: Plain) -> Steps[tuple[BatchHeader, bytes]]:
        """The checks of the records; `records`: uncompressed. Returns the batch as it will be
        stored, but for its offsets and the time of the append. Raises CorruptBatch, ApiError
        MESSAGE_TOO_LARGE or, where single records may not stand in the topic, BadRecords."""
        found = yield from survey_produced(self.header, records)
        yield from check_records(
            self.header, records, found, self.settings, self.place, self.now_ms
        )
        if self.settings.text("message.timestamp.type") == "CreateTime":
            return _with_its_times(self.header, self.payload, found)
        return self.header, self.payload


def refusal(error: ApiError | CorruptBatch | UnpacksTooLarge) -> ApiError:
    """How Produce answers what a check or `records_data` has raised."""
    if isinstance(error, UnpacksTooLarge):
        return ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"The record batch has {error}")
    if not isinstance(error, ApiError):
        return _invalid(str(error))
    # With where it was raised it would keep the unpacked records for as long as the request.
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


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
