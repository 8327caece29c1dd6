"""Records of share groups' state to rows: nothing is lost, and damage is a row of its own."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from groupd.pipeline.options import parse_options
from groupd.pipeline.row_filter import RowFilter
from groupd.protocol.records.batch_builder import encode_batch, encode_marker
from groupd.protocol.records.share_state_records import encode_record
from tests.pipeline.share_entries import share_rows
from tests.unit.logtools.harness import ORDERS_ID, TIME_MS, G
from tests.unit.logtools.share_logs import PLACE, no_state, snapshot, state_batch, update


def rows_of(*payloads: bytes, wanted: RowFilter | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = share_rows(payloads, wanted=wanted or RowFilter()).to_pylist()
    return found


def some(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_snapshots_updates_and_tombstones() -> None:
    first, second, third = rows_of(
        state_batch(
            7,
            snapshot(3, 5, (5, 9, 0, 2), complete=-1),
            update(3, -1, (6, 6, 2, 3), leader_epoch=-1, complete=1),
            no_state(),
        )
    )
    place = ("log_partition", "log_offset", "record_type", "group", "topic_id", "partition")
    topic = str(UUID(bytes=ORDERS_ID))
    assert some(first, *place) == (3, 7, "share-snapshot", G, topic, 0)
    epochs = ("snapshot_epoch", "state_epoch", "leader_epoch", "tombstone", "error")
    assert some(first, *epochs) == (3, 2, 0, False, None)
    assert some(first, "start_offset", "delivery_complete_count") == (5, None)
    assert first["batches"] == [
        {"first_offset": 5, "last_offset": 9, "delivery_state": 0, "delivery_count": 2}
    ]
    assert first["write_time"] == first["create_time"] == first["timestamp"]
    assert some(second, *place) == (3, 8, "share-update", G, topic, 0)
    assert some(second, *epochs) == (3, None, None, False, None)
    assert some(second, "start_offset", "delivery_complete_count", "write_time") == (None, 1, None)
    assert some(third, "record_type", "tombstone", "batches") == ("share-snapshot", True, None)
    assert (second["key"], second["value"]) == encode_record(
        *update(3, -1, (6, 6, 2, 3), leader_epoch=-1, complete=1)
    )


def test_damage_is_a_row_of_its_own() -> None:
    key, _ = encode_record(*update(0, 0))
    strange = encode_batch(
        0, 0, TIME_MS, [(b"\x00\x07x", b""), (key, b"\x00\x09"), (b"\x00\x01", b"")]
    )
    unknown, version, short = rows_of(strange)
    assert some(unknown, "record_type", "error") == ("type-7", "unknown record type 7")
    assert some(version, "record_type", "group") == ("share-update", G)
    assert "state of version 9" in version["error"]
    assert "key of a share-partition" in short["error"]
    damaged = bytearray(state_batch(0, snapshot(0, 0)))
    damaged[-2] ^= 1
    (row,) = rows_of(bytes(damaged))
    assert some(row, "record_type", "log_offset") == ("corrupt-batch", 0)
    assert "wrong checksum" in row["error"]


def test_a_range_that_is_none_goes_to_quarantine() -> None:
    for batch in ((9, 8, 0, 1), (-5, 8, 0, 1), (0, 2**31, 0, 1)):
        (row,) = rows_of(state_batch(0, update(0, 0, batch)))
        assert row["error"] == f"{batch[0]} to {batch[1]} is no range of offsets"
        assert some(row, "group", "partition", "batches") == (G, 0, None)
    (row,) = rows_of(state_batch(0, update(0, 0, (0, 2**31 - 1, 0, 1))))
    assert row["error"] is None


def test_a_marker_is_a_row_without_a_state() -> None:
    (row,) = rows_of(encode_marker(4, 0, TIME_MS, 7, 0, 3, commit=True))
    assert some(row, "record_type", "log_offset", "group", "error") == ("marker", 4, None, None)


def test_only_what_is_wanted() -> None:
    other = PLACE._replace(group_id="other")
    payload = state_batch(0, snapshot(0, 1), snapshot(0, 1, key=other), update(0, 2))

    def offsets(**limits: Any) -> list[int]:
        return [row["log_offset"] for row in rows_of(payload, wanted=RowFilter(**limits))]

    assert offsets(groups=frozenset({G})) == [0, 2]
    assert offsets(types=frozenset({"share-update"})) == [2]
    assert offsets(from_offset=1, until_offset=2) == [1]
    assert offsets(from_us=TIME_MS * 1000 + 1) == []


def test_the_options_of_the_source_know_the_log() -> None:
    options = parse_options({"store": "x", "log": "__share_group_state", "columns": "batches"})
    assert (options.topic, options.columns) == ("__share_group_state", ("batches",))
