"""Coordinator records: whatever is written is read back, and garbage is only ever corrupt."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from groupd.protocol.records.codec import (
    CorruptRecord,
    decode_record,
    encode_key,
    encode_value,
)
from groupd.protocol.records.schema import Record, RecordKey, RecordValue
from tests.support.record_strategies import records


@given(records())
def test_round_trip(pair: tuple[RecordKey, RecordValue]) -> None:
    record = Record(*pair)
    assert decode_record(encode_key(record.key), encode_value(record)) == record


@given(st.sampled_from([0, 1, 2, 3, 5, 6, 7, 8, 16]), st.integers(0, 4), st.binary(max_size=60))
def test_garbage_raises_only_corrupt_record(record_type: int, version: int, data: bytes) -> None:
    key = record_type.to_bytes(2, "big") + bytes.fromhex("0000 0000 00000000")
    if record_type in (2, 3, 6):
        key = key[:4]
    elif record_type > 1:
        key = key[:6]
    with contextlib.suppress(CorruptRecord):
        decode_record(key, version.to_bytes(2, "big") + data)
