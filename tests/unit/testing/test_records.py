"""Records as tests write them: forms, places, bytes."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.partitioner.default import murmur2 as reference

from groupd.coordinator.faults.errors import HarnessError
from groupd.protocol.records.batch import check, iter_batches
from groupd.testing.records import TestRecord, as_record, decode, encode, murmur2, placed


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (b"x", TestRecord(b"x")),
        ("ü", TestRecord("ü".encode())),
        (None, TestRecord(None)),
        ({"value": "v", "key": "k"}, TestRecord(b"v", b"k")),
        (
            {"value": None, "headers": {"a": "1", "b": None}, "partition": 2, "timestamp_ms": 5},
            TestRecord(None, None, (("a", b"1"), ("b", None)), 2, -1, 5),
        ),
        ({"value": "v", "headers": [("a", b"1")]}, TestRecord(b"v", None, (("a", b"1"),))),
    ],
)
def test_forms_of_a_record(given: Any, meant: TestRecord) -> None:
    assert as_record(given) == meant


@pytest.mark.parametrize("given", [5, {"key": "k"}, {"value": "v", "topic": "t"}, {"value": 5}])
def test_what_is_no_record(given: Any) -> None:
    with pytest.raises(HarnessError):
        as_record(given)


def test_places() -> None:
    records = placed(["a", {"value": "b", "partition": 2}, "c", "d", "e"], 3, 77)
    assert [record.partition for record in records] == [0, 2, 1, 2, 0]
    assert {record.timestamp_ms for record in records} == {77}
    with pytest.raises(HarnessError, match="partition 3: the topic has 3"):
        placed([{"value": "a", "partition": 3}], 3, 0)


@pytest.mark.parametrize("length", range(12))
def test_keys_go_where_javas_producer_puts_them(length: int) -> None:
    key = bytes(range(250, 250 - length, -1))
    assert murmur2(key) == reference(key) & 0xFFFFFFFF
    (record,) = placed([{"value": "v", "key": key}], 17, 0)
    assert record.partition == (reference(key) & 0x7FFFFFFF) % 17


def test_a_batch_there_and_back() -> None:
    records = [
        TestRecord(b"v", b"k", (("h", b"x"), ("n", None)), 4, 0, 1_700_000_000_500),
        TestRecord(None, None, (), 4, 1, 1_700_000_000_000),
        TestRecord(b"", b"", (), 4, 2, 1_800_000_000_000),
    ]
    payload = encode(records)
    assert check(payload).max_timestamp_ms == 1_800_000_000_000
    (batch,) = iter_batches(payload)
    assert decode(batch, 4) == records
