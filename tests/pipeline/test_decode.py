"""Records to rows: nothing is lost, nothing is made up, and damage is a row of its own."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from groupd.pipeline.decode import COLUMNS, CORRUPT_BATCH, UNKNOWN_SOURCE, EntryRows
from groupd.pipeline.row_filter import EVERYTHING, RowFilter
from groupd.pipeline.schema import VALUE_COLUMNS
from groupd.pipeline.values import FIRST_MS, LAST_MS
from groupd.protocol.records.batch import BatchRecord, parse_header
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import (
    ConsumerGroupRegexKey,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    RecordKey,
    RecordValue,
)
from tests.pipeline.entries import decoded
from tests.support.pipeline_rows import record_of_row
from tests.support.record_strategies import records
from tests.unit.logtools.harness import (
    TIME_MS,
    G,
    at,
    batch,
    classic,
    commit,
    consumer,
    gone,
    marker,
)

_TIMES = st.integers(FIRST_MS, LAST_MS) | st.just(-1) | st.integers(0, 2**41)


def rows_of(*payloads: bytes, wanted: RowFilter = EVERYTHING) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = decoded(payloads, 3, wanted).to_pylist()
    return found


def row_of(key: bytes | None, value: bytes | None, time_ms: int = TIME_MS) -> dict[str, Any]:
    rows = EntryRows()
    rows.add_records(0, [BatchRecord(5, time_ms, key, value)], UNKNOWN_SOURCE)
    (row,) = rows.take().to_pylist()
    found: dict[str, Any] = row
    return found


@given(records(_TIMES), st.booleans())
def test_typed_columns_encode_to_the_same_bytes(
    pair: tuple[RecordKey, RecordValue], dropped: bool
) -> None:
    record = Record(pair[0], None if dropped else pair[1])
    key, value = encode_key(record.key), encode_value(record)
    row = row_of(key, value)
    assert row["error"] is None
    again = record_of_row(row)
    assert (encode_key(again.key), encode_value(again)) == (key, value)
    assert (row["key"], row["value"], row["tombstone"]) == (key, value, dropped)
    used = {name for name in set(VALUE_COLUMNS.values()) if row[name] is not None}
    holds = not dropped or isinstance(record.key, ConsumerGroupRegexKey)
    assert used == ({VALUE_COLUMNS[row["record_type_id"]]} if holds else set())


@given(records())
def test_what_no_column_can_hold_keeps_its_bytes_and_says_so(
    pair: tuple[RecordKey, RecordValue],
) -> None:
    key, value = encode_key(pair[0]), encode_value(Record(*pair))
    row = row_of(key, value)
    assert (row["key"], row["value"]) == (key, value)
    if row["error"] is None:
        assert encode_value(record_of_row(row)) == value
    else:
        assert "outside of the years" in row["error"]
        assert all(row[name] is None for name in VALUE_COLUMNS.values())


@given(st.integers(-2, 30), st.integers(-1, 6), st.binary(max_size=40), st.booleans())
def test_any_bytes_are_a_row(number: int, version: int, rest: bytes, null: bool) -> None:
    key = number.to_bytes(2, "big", signed=True) + rest
    value = None if null else version.to_bytes(2, "big", signed=True) + rest
    row = row_of(key, value)
    assert (row["key"], row["value"], row["log_offset"]) == (key, value, 5)


def test_versions_that_are_only_read_keep_their_bytes() -> None:
    key = encode_key(OffsetCommitKey(G, "t", 1))
    value = encode_value(
        Record(OffsetCommitKey(G, "t", 1), OffsetCommitValue(7, 2, "m", TIME_MS)),
        offset_value_version=3,
    )
    row = row_of(key, value)
    assert (row["value_version"], row["value"], row["offset_commit"]["offset"]) == (3, value, 7)


def test_a_log_is_rows_with_all_that_headers_say() -> None:
    rows = rows_of(
        batch(0, commit(40), gone(commit(40))),
        batch(2, commit(41), commit(42), producer=1000),
        marker(4, 1000, commit=True),
        marker(5, 1001, commit=False),
        batch(6, classic(), *consumer()),
    )
    assert [row["log_offset"] for row in rows] == list(range(12))
    assert [row["tombstone"] for row in rows[:6]] == [False, True, False, False, False, False]
    assert [row["transactional"] for row in rows[:6]] == [False, False, True, True, True, True]
    assert [row["producer_id"] for row in rows[:5]] == [None, None, 1000, 1000, 1000]
    assert [row["sequence"] for row in rows[:5]] == [-1, -1, 0, 1, -1]
    assert [row["marker"] for row in rows[3:6]] == [None, "commit", "abort"]
    assert rows[4]["coordinator_epoch"] == 3
    assert rows[4]["record_type"] == "marker"
    assert {row["log_partition"] for row in rows} == {3}
    assert rows[0]["offset_commit"]["offset"] == 40
    assert rows[1]["offset_commit"] is None
    assert [row["member"] for row in rows[7:]] == ["m0", None, "m0", None, "m0"]
    assert all(row["error"] is None for row in rows)


def test_a_batch_that_cannot_be_taken_apart_is_one_row() -> None:
    whole = batch(0, commit(1), commit(2))
    broken = bytearray(batch(2, commit(3), commit(4)))
    broken[-3] ^= 1
    rows = rows_of(whole, bytes(broken), batch(4, commit(5)))
    assert [row["log_offset"] for row in rows] == [0, 1, 2, 4]
    assert rows[2]["record_type"] == CORRUPT_BATCH
    assert rows[2]["error"] == "wrong checksum of the batch at offset 2"
    assert rows[2]["tombstone"] is None


def test_what_does_not_decode_says_why() -> None:
    key, value = at(0, commit(1))[2:4]
    assert key is not None
    assert value is not None
    assert "unknown value version 9" in row_of(key, b"\x00\x09" + value[2:])["error"]
    assert row_of(key, b"\x00\x09" + value[2:])["group"] == G
    assert row_of(b"\x00\x63" + key[2:], value)["error"] == "unknown record type 99"
    assert row_of(None, value)["error"] == "a record without a key"
    assert row_of(b"\x00", value)["record_type"] == "unreadable"
    assert "outside of the years" in row_of(key, value, time_ms=2**62)["error"]


def test_records_of_streams_groups_are_no_errors() -> None:
    row = row_of(b"\x00\x11\x00\x02ab", b"\x00\x00\x01")
    assert (row["error"], row["record_type"], row["group"]) == (
        None,
        "streams-group-metadata",
        "ab",
    )


def test_only_what_is_asked_for_is_decoded() -> None:
    payload = batch(0, commit(1), commit(2), *consumer(), classic())
    header = parse_header(payload)

    def decoded(columns: tuple[str, ...], wanted: RowFilter = EVERYTHING) -> tuple[int, int]:
        rows = EntryRows(columns, wanted)
        rows.add_payload(0, payload, header)
        found = rows.take()
        assert found.schema.names == list(columns)
        return rows.decoded, found.num_rows

    assert decoded(COLUMNS) == (8, 8)
    assert decoded(("group", "log_offset"))[0] < 8
    assert decoded(COLUMNS, RowFilter(types=frozenset({"offset-commit"}))) == (2, 2)
    assert decoded(COLUMNS, RowFilter(groups=frozenset({"other"}))) == (0, 0)
    assert decoded(COLUMNS, RowFilter(from_offset=3, until_offset=5)) == (2, 2)
    later = RowFilter(from_us=(TIME_MS + 1) * 1000)
    assert decoded(COLUMNS, later) == (0, 0)
    assert decoded(COLUMNS, RowFilter(until_us=TIME_MS * 1000)) == (0, 0)


def test_with_the_rest_markers_and_damage_stay() -> None:
    broken = bytearray(batch(2, commit(3)))
    broken[-3] ^= 1
    payloads = (batch(0, commit(1), producer=7), marker(1, 7, commit=True), bytes(broken))
    other = RowFilter(groups=frozenset({"other"}))
    assert rows_of(*payloads, wanted=other) == []
    kept = rows_of(*payloads, wanted=RowFilter(groups=frozenset({"other"}), rest=True))
    assert [row["record_type"] for row in kept] == ["marker", CORRUPT_BATCH]
