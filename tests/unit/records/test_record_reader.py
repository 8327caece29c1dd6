"""The one reader of records finds what a slow, simple reading of the format finds, on any bytes."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from groupd.protocol.primitives import uvarint
from groupd.protocol.records.batch import (
    HEADER_BYTES,
    Batch,
    BatchHeader,
    BatchRecord,
    CorruptBatch,
    iter_records,
    parse_header,
    read_records,
    with_log_append_time,
)
from groupd.protocol.records.batch_builder import new_header, pack_batch
from groupd.protocol.records.compression import Plain
from groupd.protocol.records.varints import zigzag

BASE, BASE_MS = 1000, 1_700_000_000_000
_BYTES = st.none() | st.binary(max_size=70) | st.integers(0, 20_000).map(bytes)
_DELTAS = st.integers(0, 70) | st.integers(0, 20_000) | st.integers(-(2**31), 2**31 - 1)
_TIMES = _DELTAS | st.integers(-(2**40), 2**40)


def record(time: int, offset: int, key: bytes | None, value: bytes | None, headers: int) -> bytes:
    body = b"\x00" + zigzag(time) + zigzag(offset)
    for part in (key, value):
        body += zigzag(-1) if part is None else zigzag(len(part)) + part
    body += zigzag(headers) + (zigzag(1) + b"h" + zigzag(-1)) * headers
    return zigzag(len(body)) + body


_RECORDS = st.lists(
    st.builds(record, st.just(0) | _TIMES, _DELTAS, _BYTES, _BYTES, st.integers(0, 2)),
    min_size=1,
    max_size=5,
)


class Slow:
    """Reads byte by byte."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def byte(self) -> int:
        first, self.data = self.data[0], self.data[1:]
        return first

    def number(self, bits: int = 32) -> int:
        found = shift = 0
        while True:
            byte = self.byte()
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
            if shift >= bits:
                raise ValueError
        if found >= 2**bits:
            raise ValueError
        return found // 2 if found % 2 == 0 else -(found // 2) - 1

    def sized(self) -> bytes | None:
        length = self.number()
        if length < 0:
            return None
        if length > len(self.data):
            raise ValueError
        found, self.data = self.data[:length], self.data[length:]
        return found

    def record(self, header: BatchHeader) -> BatchRecord:
        length = self.number()
        before = len(self.data)
        self.byte()
        time, offset = self.number(64), self.number()
        key, value, count = self.sized(), self.sized(), self.number()
        if count < 0:
            raise ValueError
        headers = []
        for _ in range(count):
            name, item = self.sized(), self.sized()
            if name is None:
                raise ValueError
            headers.append((name.decode(errors="replace"), item))
        if before - len(self.data) != length:
            raise ValueError
        time_ms = header.max_timestamp_ms if header.is_log_append_time else BASE_MS + time
        return BatchRecord(header.base_offset + offset, time_ms, key, value, tuple(headers))


def slowly(header: BatchHeader, data: bytes) -> list[BatchRecord] | None:
    """The records, read slowly; None if they are damaged."""
    reader = Slow(data)
    try:
        found = [reader.record(header) for _ in range(header.record_count)]
    except (IndexError, ValueError):
        return None
    return None if reader.data else found


def found(header: BatchHeader, payload: bytes) -> list[BatchRecord] | None:
    try:
        return list(iter_records(Batch(header, payload)))
    except CorruptBatch:
        return None


def batch_of(records: bytes, count: int) -> tuple[BatchHeader, bytes]:
    header = new_header(BASE, BASE + count - 1, BASE_MS, BASE_MS, record_count=count)
    payload = pack_batch(header, records)
    return parse_header(payload), payload


@given(_RECORDS, st.booleans())
def test_any_records(records: list[bytes], append_time: bool) -> None:
    header, payload = batch_of(b"".join(records), len(records))
    if append_time:
        payload = with_log_append_time(payload, 1_800_000_000_000)
        header = parse_header(payload)
    expected = slowly(header, payload[HEADER_BYTES:])
    assert expected is not None
    assert found(header, payload) == expected


@given(_RECORDS)
def test_a_record_is_told_where_it_lies(records: list[bytes]) -> None:
    data = b"".join(records)
    header, _ = batch_of(data, len(records))
    at = 0
    for written, (*_, start, headers_at, end) in zip(
        records, read_records(header, Plain(data, 0, len(data))), strict=True
    ):
        assert (start, data[start:end]) == (at, written)
        assert start < headers_at < end
        at = end


@given(_RECORDS, st.data())
def test_damaged_records(records: list[bytes], data: st.DataObject) -> None:
    body = bytearray(b"".join(records))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, min(len(body), 40) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    header, payload = batch_of(bytes(body[:cut]), len(records))
    assert found(header, payload) == slowly(header, payload[HEADER_BYTES:])


@given(st.binary(max_size=60), st.integers(1, 3))
@example(zigzag(9) + b"\x00\x00\x00" + b"\x80\x80\x00" + zigzag(0) + b"\x00\x00", 1)
@example(zigzag(6) + b"\x00\x00\x00" + uvarint(0x7F) + b"\x01\x00", 1)
@example(zigzag(6) + b"\x00\x00\x00" + b"\x01\x03\x00", 1)
@example(zigzag(-7) + b"\x00\x00\x00" + b"\x01\x01\x00", 1)
def test_any_bytes(body: bytes, count: int) -> None:
    header, payload = batch_of(body, count)
    assert found(header, payload) == slowly(header, payload[HEADER_BYTES:])


def test_an_emptied_batch() -> None:
    header, payload = batch_of(b"", 0)
    assert len(payload) == HEADER_BYTES
    assert found(header, payload) == []
