"""What a leader makes of the stored state (docs/spec/share-group.md#4.2)."""

from __future__ import annotations

import pytest

from groupd.coordinator.share_partitions.runs import ACQUIRED, InvalidShareState
from groupd.protocol.messages.share_state import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE
from tests.unit.share_partitions.one_partition import OnePartition


def test_nothing_stored() -> None:
    records = OnePartition(start=7).records
    assert (records.start_offset, records.end_offset, records.next_offset) == (7, 7, 7)
    assert records.in_flight == 0
    assert records.delivery_complete_count == 0
    assert records.next_lock_ms is None
    assert records.may_acquire(1)


def test_stored_batches_are_in_flight() -> None:
    one = OnePartition((5, 10, AVAILABLE, 2), (11, 15, ARCHIVED, 3), start=5)
    assert one.states == ["5-10 available x2", "11-15 archived x3"]
    assert one.offsets == (5, 15, 5)
    assert one.records.in_flight == 11
    assert one.records.delivery_complete_count == 5


def test_the_start_moves_over_what_is_over() -> None:
    one = OnePartition((0, 4, ACKNOWLEDGED, 1), (5, 9, AVAILABLE, 1))
    assert one.states == ["5-9 available x1"]
    assert one.offsets == (5, 9, 5)
    assert one.records.delivery_complete_count == 0


def test_all_stored_batches_are_over() -> None:
    one = OnePartition((0, 4, ACKNOWLEDGED, 1), (5, 9, ARCHIVED, 1))
    assert not one.states
    assert one.offsets == (10, 10, 10)


@pytest.mark.parametrize(
    "batches",
    [
        [(4, 9, AVAILABLE, 1)],
        [(9, 8, AVAILABLE, 1)],
        [(5, 9, AVAILABLE, 1), (9, 12, AVAILABLE, 1)],
        [(8, 9, AVAILABLE, 1), (5, 6, AVAILABLE, 1)],
        [(5, 9, ACQUIRED, 1)],
        [(5, 9, 5, 1)],
    ],
    ids=("below the start", "reversed", "overlapping", "not in order", "acquired", "unknown"),
)
def test_state_that_no_leader_has_written(batches: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(InvalidShareState, match="The stored batch"):
        OnePartition(*batches, start=5)


@pytest.mark.parametrize(
    ("batches", "next_offset"),
    [
        ([(15, 20, ACKNOWLEDGED, 1), (21, 30, ARCHIVED, 1)], 10),
        ([(10, 20, AVAILABLE, 1), (31, 40, ARCHIVED, 1)], 10),
        ([(10, 20, ARCHIVED, 1), (31, 40, ARCHIVED, 1), (51, 60, AVAILABLE, 1)], 21),
        ([(10, 20, ACKNOWLEDGED, 1), (21, 30, AVAILABLE, 1), (35, 40, AVAILABLE, 1)], 21),
    ],
    ids=("at the start", "behind available", "two holes", "hole behind available"),
)
def test_reading_goes_on_at_the_first_hole_or_available_record(
    batches: list[tuple[int, int, int, int]], next_offset: int
) -> None:
    assert OnePartition(*batches, start=10).records.next_offset == next_offset


def test_the_start_does_not_pass_a_hole() -> None:
    """SG-104: what was held when the leader ended is offered again."""
    one = OnePartition((10, 19, ACKNOWLEDGED, 1))
    assert one.offsets == (0, 19, 0)
    assert one.records.delivery_complete_count == 10
    assert one.fetch("ann", (0, 9), (10, 19)) == ["0-9 x1"]
    one.acknowledge("ann", (0, 9, 1))
    assert one.offsets == (20, 20, 20)


def test_delivery_counts_survive() -> None:
    """SG-105."""
    one = OnePartition((0, 9, AVAILABLE, 2))
    assert one.fetch("ann", (0, 9)) == ["0-9 x3"]


def test_archiving_without_a_dead_letter_queue_is_archived() -> None:
    one = OnePartition((0, 4, ARCHIVING, 5), (5, 9, AVAILABLE, 1))
    assert one.offsets == (5, 9, 5)
    assert one.records.to_dead_letter() == []
