"""The survey of produced records agrees with the reader of single records, on anything."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from groupd.coordinator.topics.batch_checks import TURN_RECORDS, ProducedRecords, survey_produced
from groupd.protocol.records.batch import (
    Batch,
    BatchHeader,
    CorruptBatch,
    iter_records,
    parse_header,
    records_data,
)
from groupd.protocol.records.batch_builder import encode_batch, pack_batch
from groupd.protocol.records.varints import zigzag

BASE_MS = 1_700_000_000_000
_BYTES = st.none() | st.binary(max_size=70) | st.integers(0, 20_000).map(bytes)
_TIMES = st.integers(-70, 70) | st.integers(-20_000, 20_000) | st.integers(-(2**40), 2**40)
_FIELDS = st.tuples(_TIMES, _BYTES, _BYTES, st.integers(0, 2))


def record(time: int, offset: int, key: bytes | None, value: bytes | None, headers: int) -> bytes:
    body = b"\x00" + zigzag(time) + zigzag(offset)
    for part in (key, value):
        body += zigzag(-1) if part is None else zigzag(len(part)) + part
    body += zigzag(headers) + (zigzag(1) + b"\xff" + zigzag(-1)) * headers
    return zigzag(len(body)) + body


def batch_of(body: bytes, count: int) -> tuple[BatchHeader, bytes]:
    header = parse_header(encode_batch(0, 0, BASE_MS, [(b"", b"")]))
    header = header._replace(record_count=count, last_offset_delta=count - 1)
    payload = pack_batch(header, body)
    return parse_header(payload), payload


def by_records(header: BatchHeader, payload: bytes) -> ProducedRecords | None:
    """What single records say; None if they are wrong."""
    try:
        records = list(iter_records(Batch(header, payload)))
    except CorruptBatch:
        return None
    if not records or [one.offset for one in records] != list(range(len(records))):
        return None
    deltas = [one.timestamp_ms - BASE_MS for one in records]
    return ProducedRecords(min(deltas), max(deltas), any(one.key is None for one in records))


def surveyed(header: BatchHeader, payload: bytes) -> tuple[ProducedRecords | None, int]:
    """What the survey finds, None if the records are wrong; and how often others had a turn."""
    turns = 0
    steps = survey_produced(header, records_data(header, payload))
    try:
        while True:
            next(steps)
            turns += 1
    except StopIteration as done:
        return done.value, turns
    except CorruptBatch:
        return None, turns


@settings(deadline=None)
@given(st.lists(_FIELDS, min_size=1, max_size=5))
def test_any_records(fields: list[tuple[int, bytes | None, bytes | None, int]]) -> None:
    body = b"".join(
        record(time, offset, key, value, headers)
        for offset, (time, key, value, headers) in enumerate(fields)
    )
    header, payload = batch_of(body, len(fields))
    expected = by_records(header, payload)
    assert expected is not None
    assert surveyed(header, payload) == (expected, 0)


@settings(deadline=None)
@given(st.lists(_FIELDS, min_size=1, max_size=5), st.data())
def test_damaged_records(
    fields: list[tuple[int, bytes | None, bytes | None, int]], data: st.DataObject
) -> None:
    body = bytearray().join(
        record(time, offset, key, value, headers)
        for offset, (time, key, value, headers) in enumerate(fields)
    )
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, min(len(body), 40) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    header, payload = batch_of(bytes(body[:cut]), len(fields))
    assert surveyed(header, payload)[0] == by_records(header, payload)


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(1, 3))
@example(zigzag(6) + b"\x00\x00\x00" + b"\x7f\x01\x00", 1)
@example(zigzag(6) + b"\x00\x00\x00" + b"\x01\x03\x00", 1)
def test_any_bytes(body: bytes, count: int) -> None:
    header, payload = batch_of(body, count)
    assert surveyed(header, payload)[0] == by_records(header, payload)


def test_long_batches_come_in_turns() -> None:
    count = 3 * TURN_RECORDS + 1
    times = [-5, 7, *([0] * (count - 2))]
    body = b"".join(record(times[at], at, b"k", b"", 0) for at in range(count))
    header, payload = batch_of(body, count)
    assert surveyed(header, payload) == (ProducedRecords(-5, 7, keyless=False), 3)


@pytest.mark.parametrize("count", [0, -1, 2, 2**31 - 1])
def test_another_number_of_records(count: int) -> None:
    header, payload = batch_of(record(0, 0, b"", b"", 0), 1)
    assert surveyed(header._replace(record_count=count), payload)[0] is None
