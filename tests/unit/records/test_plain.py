"""The quick way through a batch finds just what the long one finds, also in damaged ones."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from groupd.protocol.records.batch import (
    HEADER_BYTES,
    Batch,
    CorruptBatch,
    encode_batch,
    iter_records,
    pack_batch,
    parse_header,
    with_log_append_time,
)
from groupd.protocol.records.batch_records import zigzag
from groupd.protocol.records.plain import plain_records
from groupd.protocol.records.primitives import uvarint

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


def batch_of(records: bytes, count: int) -> bytes:
    header = parse_header(encode_batch(1000, 0, 1_700_000_000_000, [(b"", b"")]))
    return pack_batch(header._replace(record_count=count, last_offset_delta=count - 1), records)


def found(payload: bytes) -> tuple[object, object]:
    """By the long way and by the quick one; None for damage."""
    header = parse_header(payload)
    results: list[object] = []
    for read in (
        lambda: list(iter_records(Batch(header, payload))),
        lambda: plain_records(header, payload),
    ):
        try:
            results.append(list(map(tuple, read())))
        except CorruptBatch:
            results.append(None)
    return results[0], results[1]


@settings(deadline=None)
@given(_RECORDS, st.booleans())
def test_any_records(records: list[bytes], append_time: bool) -> None:
    payload = batch_of(b"".join(records), len(records))
    if append_time:
        payload = with_log_append_time(payload, 1_800_000_000_000)
    slow, quick = found(payload)
    assert slow is not None
    assert quick == slow


@settings(deadline=None)
@given(_RECORDS, st.data())
def test_damaged_records(records: list[bytes], data: st.DataObject) -> None:
    body = bytearray(b"".join(records))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, min(len(body), 40) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(body)))
    slow, quick = found(batch_of(bytes(body[:cut]), len(records)))
    assert quick == slow


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(1, 3))
@example(zigzag(9) + b"\x00\x00\x00" + b"\x80\x80\x00" + zigzag(0) + b"\x00\x00", 1)
@example(zigzag(6) + b"\x00\x00\x00" + uvarint(0x7F) + b"\x01\x00", 1)
def test_any_bytes(body: bytes, count: int) -> None:
    slow, quick = found(batch_of(body, count))
    assert quick == slow


def test_an_emptied_batch() -> None:
    payload = batch_of(b"", 0)
    assert len(payload) == HEADER_BYTES
    assert found(payload) == ([], [])
