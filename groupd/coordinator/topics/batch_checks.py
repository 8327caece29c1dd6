"""Checks whether a produced batch may be appended, and whether its records are allowed in the
topic. These are Kafka's checks, in Kafka's order.
"""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct

from groupd.coordinator.config.values import split_list
from groupd.coordinator.core.slices import Steps
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import RecordError
from groupd.protocol.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    CorruptBatch,
    RawRecord,
    UnsupportedMagic,
    parse_header,
    read_headers,
    read_records,
    verify_crc,
    with_create_time,
)
from groupd.protocol.records.compression import CODEC_NAMES, ZSTD, Plain, UnpacksTooLarge

# Records ------------------------------------------------------------------------------------

# A batch with a record that is not allowed is refused as a whole. The reply names each such record.

RECORD_ERRORS_MAX = 1000
"""How many refused records a reply names; the others are only counted."""

_SHOWN_IN_MESSAGE = 3
TURN_RECORDS = 2000
"""Records, or headers of records, that are checked before other work gets a turn: about a
millisecond."""

ITEMS_FACTOR = 32
"""A batch may have this many records and headers for each of its bytes, so that the time to check
them is bounded by the size of the request. A record adds at least a byte to a compressed batch,
because its offset is new; equal headers add nothing."""
ITEMS_ALWAYS = 50_000
"""A batch of any size may have this many records and headers."""

_NAMED_TURN_RECORDS = 500
_NO_TIMESTAMP = -1
_INT64_MIN = -(2**63)
_INT64_MAX = 2**63 - 1


class ProducedRecords(Struct, frozen=True):
    """What is known of the records of a batch: the smallest and the largest timestamp, relative to
    the base timestamp, and whether a record has no key."""

    least_delta_ms: int
    largest_delta_ms: int
    keyless: bool


def survey_produced(header: BatchHeader, records: Plain) -> Generator[None, None, ProducedRecords]:
    """Check that the uncompressed `records` are exactly as many whole records as the header says
    (at least one), with the offset deltas 0, 1, 2 ..., and nothing else. A generator that yields
    now and then in long batches, so that other work gets a turn. Raises CorruptBatch, and ApiError
    MESSAGE_TOO_LARGE for too many records and headers."""
    if header.record_count <= 0:
        raise CorruptBatch(f"{header.record_count} records")
    least_ms, largest_ms, keyless = _INT64_MAX, _INT64_MIN, False
    room, left = TURN_RECORDS, max(ITEMS_ALWAYS, ITEMS_FACTOR * header.size)
    data = records.data
    for index, (delta, time_ms, _, key_size, _, _, headers_at, end) in enumerate(
        read_records(header, records)
    ):
        if room <= 0:
            yield
            room, left = TURN_RECORDS, _less(left)
        room -= 1
        if delta != index:
            raise CorruptBatch(f"record {index} has the offset delta {delta}")
        if time_ms < least_ms:
            least_ms = time_ms
        if time_ms > largest_ms:
            largest_ms = time_ms
        if key_size < 0:
            keyless = True
        if headers_at + 1 != end:
            for _ in read_headers(data, headers_at, end):
                room -= 1
                if room <= 0:
                    yield
                    room, left = TURN_RECORDS, _less(left)
    return ProducedRecords(least_ms, largest_ms, keyless)


def _less(left: int) -> int:
    if left <= TURN_RECORDS:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE, "The record batch has too many headers for its size"
        )
    return left - TURN_RECORDS


class BadRecords(ApiError):
    """The batch is refused because of single records. `errors` names them by their index in the
    batch."""

    def __init__(self, code: ErrorCode, message: str, errors: tuple[RecordError, ...]) -> None:
        super().__init__(code, message)
        self.errors = errors


class _Rules:
    """What the topic's present configs demand of records."""

    def __init__(self, settings: TopicSettings, place: str, now_ms: int) -> None:
        self.keys = "compact" in split_list(settings.text("cleanup.policy"))
        self.create_time = settings.text("message.timestamp.type") == "CreateTime"
        self.earliest_ms = now_ms - settings.number("message.timestamp.before.max.ms")
        self.latest_ms = now_ms + settings.number("message.timestamp.after.max.ms")
        self._place = place

    def in_range(self, timestamp_ms: int) -> bool:
        earliest_ms = max(self.earliest_ms, _INT64_MIN)
        return earliest_ms <= timestamp_ms <= min(self.latest_ms, _INT64_MAX)

    def kept_by_all(self, header: BatchHeader, found: ProducedRecords) -> bool:
        """Whether all records keep the rules, as far as it can be told without looking at each
        record. False if a record may break one."""
        base_ms = header.base_timestamp_ms
        return (
            not header.is_log_append_time
            and not (self.keys and found.keyless)
            and (
                not self.create_time
                or (
                    self.in_range(base_ms + found.least_delta_ms)
                    and self.in_range(base_ms + found.largest_delta_ms)
                )
            )
        )

    def broken_by(
        self, header: BatchHeader, index: int, record: RawRecord
    ) -> tuple[ErrorCode, str] | None:
        """The error code and the message for the rule that the record breaks; None if it breaks
        none. `index`: the index of the record in its batch."""
        _, time_delta_ms, _, key_size, value_size, *_ = record
        timestamp_ms = header.base_timestamp_ms + time_delta_ms
        if header.is_log_append_time:
            timestamp_ms = header.max_timestamp_ms
        if self.keys and key_size < 0:
            message = "Compacted topic cannot accept message without key in topic partition "
            return ErrorCode.INVALID_RECORD, message + self._place
        if self.create_time and timestamp_ms != _NO_TIMESTAMP:
            if self.in_range(timestamp_ms):
                return None
            message = (
                f"Timestamp {timestamp_ms} of message with offset {index} is out of range. "
                f"The timestamp should be within [{self.earliest_ms}, {self.latest_ms}]"
            )
            return ErrorCode.INVALID_TIMESTAMP, message
        if header.is_log_append_time:
            message = (
                f"Invalid timestamp type in message DefaultRecord(offset={index}, "
                f"timestamp={timestamp_ms}, key={max(key_size, 0)} bytes, "
                f"value={max(value_size, 0)} bytes). Producer should not set timestamp type "
                "to LogAppendTime."
            )
            return ErrorCode.INVALID_TIMESTAMP, message
        return None


def check_records(
    header: BatchHeader,
    records: Plain,
    found: ProducedRecords,
    settings: TopicSettings,
    place: str,
    now_ms: int,
) -> Generator[None, None, None]:
    """Check each record against the topic's configs. `records`: uncompressed; `found`: what
    `survey_produced` returned for them. A generator that yields when other work is due. Raises
    BadRecords with INVALID_TIMESTAMP if a timestamp is wrong, else with INVALID_RECORD."""
    rules = _Rules(settings, place, now_ms)
    if rules.kept_by_all(header, found):
        return
    count, codes = 0, set[ErrorCode]()
    errors: list[RecordError] = []
    for index, record in enumerate(read_records(header, records)):
        if index and index % _NAMED_TURN_RECORDS == 0:
            yield
        broken = rules.broken_by(header, index, record)
        if broken is not None:
            count += 1
            codes.add(broken[0])
            if count <= RECORD_ERRORS_MAX:
                errors.append(RecordError(index, broken[1]))
    if ErrorCode.INVALID_TIMESTAMP in codes:
        raise BadRecords(
            ErrorCode.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
            tuple(errors),
        )
    if codes:
        shown = ", ".join(
            f"RecordError(batchIndex={error.index}, message='{error.message}')"
            for error in errors[:_SHOWN_IN_MESSAGE]
        )
        raise BadRecords(
            ErrorCode.INVALID_RECORD,
            f"One or more records have been rejected due to {count} record errors in total, and "
            f"only showing the first three errors at most: [{shown}]",
            tuple(errors),
        )


# The batch ----------------------------------------------------------------------------------

# First come the checks that need no log: one whole batch of magic 2 (`produced_batch`). Then the
# batch and each of its records are checked (`BatchCheck`). In two cases this is stricter than
# Kafka, which appends batches that no consumer reads as they were meant: offset deltas that do not
# count from 0, and compressed records with wrong lengths.

_ZSTD_MIN_VERSION = 7

UNPACKED_FACTOR = 1024
"""A compressed batch may unpack to this many times its size. Equal records of 1 KB reach a factor
of 200, equal records of 10 KB one of 750; gzip cannot reach more than 1032."""
UNPACKED_ALWAYS_BYTES = 4 << 20
"""A batch of any size may unpack to this many bytes."""


def produced_batch(records: bytes | None, api_version: int) -> BatchHeader:
    """The header of the one batch that a Produce request has for a partition. Raises ApiError
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
    the setting `groupd.produce.unpacked.max.bytes`. `now_ms`: wall clock."""

    header: BatchHeader
    payload: bytes
    settings: TopicSettings
    place: str
    unpacked_max_bytes: int
    now_ms: int

    @property
    def limit(self) -> int:
        """The largest number of bytes that the batch may unpack to."""
        return min(
            self.unpacked_max_bytes, max(UNPACKED_ALWAYS_BYTES, UNPACKED_FACTOR * self.header.size)
        )

    def check_header(self) -> None:
        """Check what can be checked without reading the records. Raises ApiError INVALID_RECORD,
        UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE or CORRUPT_MESSAGE."""
        _check_shape(self.header, self.payload, self.settings)
        _check_header(self.header)

    def steps(self, records: Plain) -> Steps[tuple[BatchHeader, bytes]]:
        """Check the uncompressed `records`. Returns the batch as it will be stored, except for its
        offsets and the time of the append. Raises CorruptBatch, ApiError MESSAGE_TOO_LARGE and, if
        single records are not allowed in the topic, BadRecords."""
        found = yield from survey_produced(self.header, records)
        yield from check_records(
            self.header, records, found, self.settings, self.place, self.now_ms
        )
        if self.settings.text("message.timestamp.type") == "CreateTime":
            return _with_its_times(self.header, self.payload, found)
        return self.header, self.payload


def refusal(error: ApiError | CorruptBatch | UnpacksTooLarge) -> ApiError:
    """The error with which Produce answers what a check or `records_data` has raised."""
    if isinstance(error, UnpacksTooLarge):
        return ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"The record batch has {error}")
    if not isinstance(error, ApiError):
        return _invalid(str(error))
    # The traceback would keep the unpacked records in memory as long as the request lives.
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
    """The batch with the largest timestamp of its records in its header. Readers search by that
    timestamp."""
    largest_ms = header.base_timestamp_ms + found.largest_delta_ms
    largest_ms = min(max(largest_ms, _NO_TIMESTAMP), _INT64_MAX)
    if largest_ms == header.max_timestamp_ms and not header.is_log_append_time:
        return header, payload
    payload = with_create_time(payload, largest_ms)
    return parse_header(payload), payload
