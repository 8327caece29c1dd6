"""Holes between stored batches that nobody has read since (docs/spec/share-group.md#4.2)."""

from __future__ import annotations

import pytest

from groupd.coordinator.share_partitions.acquisition import LogBatch
from groupd.protocol.messages.share_fetch import BATCH_OPTIMIZED, RECORD_LIMIT
from groupd.protocol.messages.share_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from tests.unit.share_partitions.one_partition import OnePartition

DONE = (21, 30, ACKNOWLEDGED, 2), (31, 40, ARCHIVED, 1)
AGAIN = (21, 30, AVAILABLE, 2), (31, 40, ARCHIVED, 1)
FOUR = (
    (21, 30, ACKNOWLEDGED, 2),
    (41, 50, AVAILABLE, 1),
    (61, 70, ARCHIVED, 1),
    (81, 90, AVAILABLE, 1),
)


@pytest.mark.parametrize(
    ("stored", "found", "acquired", "next_offset"),
    [
        (DONE, [(11, 15)], ["11-15 x1"], 16),
        (DONE, [(11, 25)], ["11-20 x1"], 41),
        (AGAIN, [(11, 25)], ["11-20 x1", "21-25 x3"], 26),
        (
            ((11, 20, AVAILABLE, 2), (31, 40, ARCHIVED, 1)),
            [(11, 25)],
            ["11-20 x3", "21-25 x1"],
            26,
        ),
        (
            FOUR,
            [(11, 85)],
            ["11-20 x1", "31-40 x1", "41-50 x2", "51-60 x1", "71-80 x1", "81-85 x2"],
            86,
        ),
        (FOUR, [(11, 75)], ["11-20 x1", "31-40 x1", "41-50 x2", "51-60 x1", "71-75 x1"], 76),
        (FOUR, [(11, 20), (21, 40)], ["11-20 x1", "31-40 x1"], 41),
        # The log has holes, too: a reader of batches sees them only where a read begins.
        (FOUR[:2], [(21, 35), (36, 60)], ["31-40 x1", "41-50 x2", "51-60 x1"], 61),
        (FOUR[:2], [(16, 35), (36, 60)], ["16-20 x1", "31-40 x1", "41-50 x2", "51-60 x1"], 61),
        (FOUR[:2], [(11, 20), (41, 60)], ["11-20 x1", "31-40 x1", "41-50 x2", "51-60 x1"], 61),
    ],
)
def test_holes_are_acquired_as_new(
    stored: tuple[tuple[int, int, int, int], ...],
    found: list[LogBatch],
    acquired: list[str],
    next_offset: int,
) -> None:
    one = OnePartition(*stored, start=11)
    assert one.fetch("ann", *found) == acquired
    assert one.records.next_offset == next_offset


@pytest.mark.parametrize(
    ("mode", "most", "acquired", "next_offset"),
    [
        (BATCH_OPTIMIZED, 6, ["21-26 x1"], 27),
        (BATCH_OPTIMIZED, 5, ["21-26 x1"], 27),
        (BATCH_OPTIMIZED, 8, ["21-30 x1"], 41),
        (RECORD_LIMIT, 5, ["21-25 x1"], 26),
        (RECORD_LIMIT, 20, ["21-30 x1"], 41),
    ],
)
def test_the_limit_within_a_hole(
    mode: int, most: int, acquired: list[str], next_offset: int
) -> None:
    one = OnePartition((11, 20, ACKNOWLEDGED, 2), (31, 40, ARCHIVED, 1), start=11)
    assert one.records.delivery_complete_count == 10
    found = (21, 23), (24, 26), (27, 34)
    assert one.fetch("ann", *found, most=most, mode=mode) == acquired
    assert one.offsets == (21, 40, next_offset)


def test_the_limit_before_a_hole() -> None:
    one = OnePartition((11, 20, AVAILABLE, 2), (31, 40, AVAILABLE, 1), start=11)
    assert one.fetch("ann", (11, 20), (21, 40), most=8) == ["11-20 x3"]
    assert one.offsets == (11, 40, 21)
    assert one.fetch("ann", (21, 40), most=8) == ["21-30 x1"]
    assert one.fetch("ann", (21, 40), most=8) == ["31-40 x2"]


def test_the_rest_of_a_batch_in_a_hole_is_delivered() -> None:
    one = OnePartition((21, 30, ACKNOWLEDGED, 1), start=11)
    assert one.fetch("ann", (11, 40), most=3, mode=RECORD_LIMIT) == ["11-13 x1"]
    assert one.states == ["11-13 acquired x1 ann", "14-20 available x0", "21-30 acknowledged x1"]
    assert one.fetch("bob", (11, 40), most=9, mode=RECORD_LIMIT) == ["14-20 x1", "31-32 x1"]


def test_holes_are_read_at_the_lock_limit() -> None:
    one = OnePartition((21, 30, ACKNOWLEDGED, 1), start=11)
    one.locks = 10
    assert one.records.may_acquire(10)
    assert one.fetch("ann", (11, 15), (16, 40)) == ["11-20 x1"]
    assert not one.records.may_acquire(10)


def test_a_hole_that_a_read_has_passed_has_no_records() -> None:
    one = OnePartition(*DONE, start=11)
    assert one.fetch("ann", (21, 30)) == []
    assert one.offsets == (41, 41, 41)


def test_a_hole_is_passed_at_the_lock_limit() -> None:
    """Or each read would begin there again."""
    one = OnePartition((5, 9, AVAILABLE, 1), (21, 30, ACKNOWLEDGED, 1), start=5)
    one.locks = 10
    assert one.fetch("ann", (5, 9)) == ["5-9 x2"]
    assert one.records.next_offset == 10
    assert one.fetch("ann", (31, 40)) == []
    assert one.records.next_offset == 31


def test_the_start_stops_at_a_hole_that_was_not_read() -> None:
    one = OnePartition(
        (11, 20, AVAILABLE, 1), (21, 30, AVAILABLE, 1), (41, 50, ACKNOWLEDGED, 1), start=11
    )
    one.fetch("ann", (11, 30))
    one.acknowledge("ann", (11, 30, 1))
    assert one.offsets == (31, 50, 31)
    assert one.fetch("ann", (31, 40)) == ["31-40 x1"]
    one.acknowledge("ann", (31, 40, 1))
    assert one.offsets == (51, 51, 51)


def test_records_behind_end_the_window() -> None:
    one = OnePartition((11, 20, ACKNOWLEDGED, 2), (31, 40, ARCHIVED, 1), start=11)
    assert one.fetch("ann", (21, 35)) == ["21-30 x1"]
    assert one.fetch("ann", (41, 55)) == ["41-55 x1"]
    assert one.offsets == (21, 55, 56)


def test_the_log_start_moves_into_the_window() -> None:
    one = OnePartition(*DONE, start=11)
    one.confirm(one.records.log_start_moved(15))
    assert one.offsets == (15, 40, 15)
    one.confirm(one.records.log_start_moved(25))
    assert one.offsets == (41, 41, 41)
