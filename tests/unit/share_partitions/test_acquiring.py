"""How many records are acquired, and in which pieces (docs/spec/share-group.md#4.4)."""

from __future__ import annotations

import pytest

from groupd.coordinator.share_partitions.acquisition import LogBatch, without
from groupd.protocol.messages.share_fetch import RECORD_LIMIT, AcquiredRecords
from groupd.protocol.messages.share_state import AVAILABLE
from tests.unit.share_partitions.one_partition import OnePartition

# New records ----------------------------------------------------------------------------------


def test_each_record_goes_to_one_member() -> None:
    """SG-84."""
    one = OnePartition()
    assert one.fetch("ann", (0, 9)) == ["0-9 x1"]
    assert one.states == ["0-9 acquired x1 ann"]
    assert one.fetch("bob") == []
    assert one.fetch("bob", (10, 19)) == ["10-19 x1"]
    assert one.offsets == (0, 19, 20)
    assert one.records.in_flight == 20


@pytest.mark.parametrize(
    ("found", "most", "acquired"),
    [
        ([(0, 9)], 1, "0-9 x1"),
        ([(0, 4), (5, 19), (20, 34)], 10, "0-19 x1"),
        ([(0, 4), (5, 19), (20, 34)], 5, "0-4 x1"),
        ([(0, 4), (8, 9), (20, 34)], 7, "0-6 x1"),
    ],
    ids=("one batch", "SG-87", "a whole batch", "the limit is in a hole"),
)
def test_whole_batches_up_to_the_limit(found: list[LogBatch], most: int, acquired: str) -> None:
    assert OnePartition().fetch("ann", *found, most=most) == [acquired]


def test_record_limit_divides_a_batch() -> None:
    """SG-85."""
    one = OnePartition()
    assert one.fetch("ann", (0, 9), most=1, mode=RECORD_LIMIT) == ["0-0 x1"]
    assert one.states == ["0-0 acquired x1 ann", "1-9 available x0"]
    assert one.offsets == (0, 9, 1)
    assert one.fetch("bob", (0, 9), most=5, mode=RECORD_LIMIT) == ["1-5 x1"]
    assert one.fetch("bob", (0, 9)) == ["6-9 x1"]


def test_what_is_read_for_the_rest_of_a_batch() -> None:
    """Nothing behind the batch, if it has enough."""
    one = OnePartition()
    one.fetch("ann", (0, 9), most=1, mode=RECORD_LIMIT)
    assert one.records.to_read(9, one.locks) == (1, 9)
    assert one.records.to_read(10, one.locks) == (1, 19)


def test_record_limit_over_several_batches() -> None:
    """SG-87."""
    one = OnePartition()
    found = (0, 4), (5, 19), (20, 34)
    assert one.fetch("ann", *found, most=10, mode=RECORD_LIMIT) == ["0-9 x1"]
    assert one.states == ["0-9 acquired x1 ann", "10-19 available x0"]
    assert one.fetch("ann", *found[1:], most=12, mode=RECORD_LIMIT) == ["10-19 x1", "20-21 x1"]


def test_record_limit_gives_less_if_there_is_less() -> None:
    one = OnePartition()
    assert one.fetch("ann", (0, 4), (5, 9), most=20, mode=RECORD_LIMIT, batch_size=2) == ["0-9 x1"]
    assert one.states == ["0-9 acquired x1 ann"]


@pytest.mark.parametrize(
    ("found", "batch_size", "acquired"),
    [
        ([(n, n) for n in range(5)], 1, ["0-0", "1-1", "2-2", "3-3", "4-4"]),
        ([(n, n) for n in range(5)], 500, ["0-4"]),
        ([(0, 4), (5, 9)], 0, ["0-4", "5-9"]),
        ([(0, 4), (5, 9)], -7, ["0-4", "5-9"]),
        ([(0, 4), (5, 9), (10, 11)], 5, ["0-4", "5-9", "10-11"]),
        ([(0, 4), (5, 9), (10, 11)], 6, ["0-9", "10-11"]),
        ([(0, 19)], 5, ["0-19"]),
        ([(0, 4), (8, 9), (12, 14)], 10, ["0-11", "12-14"]),
    ],
    ids=(
        "SG-86 one each",
        "SG-86 together",
        "zero",
        "negative",
        "full",
        "more than one",
        "one batch",
        "holes",
    ),
)
def test_batch_size_divides_at_batches_of_the_log(
    found: list[LogBatch], batch_size: int, acquired: list[str]
) -> None:
    one = OnePartition()
    got = one.fetch("ann", *found, batch_size=batch_size)
    assert got == [f"{entry} x1" for entry in acquired]
    assert one.states == [f"{entry} acquired x1 ann" for entry in acquired]


def test_nothing_to_acquire() -> None:
    one = OnePartition(start=10)
    assert one.fetch("ann") == []
    assert one.fetch("ann", (10, 19), most=0) == []
    assert one.fetch("ann", (0, 9)) == []
    assert one.records.next_offset == 10


def test_what_is_before_the_start_is_cut_off() -> None:
    one = OnePartition(start=8)
    assert one.fetch("ann", (5, 14), (15, 20), batch_size=5) == ["8-14 x1", "15-20 x1"]


def test_the_start_jumps_to_the_first_record() -> None:
    one = OnePartition(start=10)
    assert one.fetch("ann", (15, 19)) == ["15-19 x1"]
    assert one.offsets == (15, 19, 20)


def test_a_hole_between_two_reads_has_no_records() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 4))
    one.fetch("ann", (8, 9))
    one.acknowledge("ann", (0, 4, 1))
    assert one.offsets == (8, 9, 10)


# The limit on locks ---------------------------------------------------------------------------


def test_the_lock_limit_counts_offsets_in_flight() -> None:
    """SG-90."""
    one = OnePartition()
    one.locks = 100
    one.fetch("ann", (0, 99))
    one.acknowledge("ann", (50, 99, 1))
    assert one.records.delivery_complete_count == 50
    assert not one.records.may_acquire(100)
    assert one.fetch("bob", (100, 199)) == []
    one.acknowledge("ann", (0, 49, 1))
    assert one.records.may_acquire(100)
    assert one.fetch("bob", (100, 199)) == ["100-199 x1"]


def test_what_is_released_may_be_acquired_at_the_lock_limit() -> None:
    """SG-89."""
    one = OnePartition()
    one.locks = 100
    one.fetch("ann", (0, 99))
    one.acknowledge("ann", (20, 20, 2))
    assert one.records.may_acquire(100)
    assert one.fetch("bob", (0, 99), (100, 199)) == ["20-20 x2"]
    assert not one.records.may_acquire(100)


def test_the_lock_limit_ends_at_a_batch_of_the_log() -> None:
    one = OnePartition()
    one.locks = 20
    one.fetch("ann", (0, 9))
    assert one.fetch("ann", (10, 14), (15, 24), (25, 29)) == ["10-24 x1"]
    assert one.fetch("ann", (25, 29)) == []


def test_a_lower_lock_limit_works_at_once() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    assert one.records.may_acquire(11)
    assert not one.records.may_acquire(10)


# Records that are in flight -------------------------------------------------------------------


def test_released_records_are_delivered_again() -> None:
    """SG-93 and SG-98."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.acknowledge("ann", (0, 9, bytes((1, 1, 1, 1, 1, 2, 2, 2, 2, 2))))
    assert one.offsets == (5, 9, 5)
    assert one.fetch("bob", (0, 9)) == ["5-9 x2"]


def test_equal_counts_of_a_batch_are_one_entry() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.acknowledge("ann", (0, 1, 2), (4, 9, 2))
    assert one.fetch("bob", (0, 9)) == ["0-1 x2", "4-9 x2"]
    one.release("bob")
    one.acknowledge("ann", (2, 3, 2))
    assert one.fetch("bob", (0, 9)) == ["0-1 x3", "2-3 x2", "4-9 x3"]


def test_each_batch_in_flight_is_an_entry() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 4))
    one.fetch("ann", (5, 9))
    one.release("ann")
    assert one.fetch("bob", (0, 4), (5, 9), (10, 14)) == ["0-4 x2", "5-9 x2", "10-14 x1"]


def test_a_batch_is_not_divided_at_the_limit() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.release("ann")
    assert one.fetch("bob", (0, 9), (10, 19), most=3) == ["0-9 x2"]
    one.limit = 10
    one.release("bob")
    assert one.fetch("bob", (0, 9), most=3, mode=RECORD_LIMIT) == ["0-2 x3"]
    assert one.fetch("bob", (0, 9), most=3, mode=RECORD_LIMIT) == ["3-5 x3"]


def test_a_read_of_a_part_of_a_batch_acquires_that_part() -> None:
    one = OnePartition((10, 29, AVAILABLE, 1), start=10)
    assert one.fetch("ann", (10, 14)) == ["10-14 x2"]
    assert one.offsets == (10, 29, 15)


def test_records_that_wait_for_a_write_are_not_acquired() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    write = one.begin("ann", (0, 4, 2))
    assert one.records.next_offset == 10
    assert one.fetch("bob", (0, 9), read_from=0) == []
    one.confirm(write)
    assert one.fetch("bob", (0, 9)) == ["0-4 x2"]


def test_a_release_during_a_read_loses_nothing() -> None:
    """The read began at 10; meanwhile 0 to 9 were released, which it cannot have found."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.release("ann")
    assert one.fetch("bob", (10, 19), read_from=10) == ["10-19 x1"]
    assert one.fetch("bob", (0, 9)) == ["0-9 x2"]


# Compaction and transactions ------------------------------------------------------------------


def test_records_that_were_compacted_are_over() -> None:
    """SG-103."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.release("ann")
    assert one.fetch("bob", (10, 19)) == ["10-19 x1"]
    assert one.offsets == (10, 19, 20)
    assert one.written == (10, 0)
    one.acknowledge("bob", (10, 19, 1))
    assert one.finished == ["0-9 gap", "10-19 accepted"]


def test_compaction_does_not_take_what_is_held() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 4))
    one.fetch("ann", (5, 9))
    one.acknowledge("ann", (2, 4, 2))
    assert one.fetch("bob", (7, 9), (10, 12)) == ["10-12 x1"]
    assert one.states[:2] == ["0-1 acquired x1 ann", "2-4 archived x1"]
    assert one.records.delivery_complete_count == 3


def test_compaction_is_noticed_at_the_lock_limit() -> None:
    one = OnePartition()
    one.locks = 10
    one.fetch("ann", (0, 9))
    one.release("ann")
    assert one.fetch("bob", (10, 19)) == ["10-19 x1"]


def test_aborted_records_are_over_and_not_written() -> None:
    """SG-101: 0 to 4 were aborted, 5 is the marker."""
    one = OnePartition()
    one.fetch("ann", (0, 4), (5, 5))
    write = one.records.archive([(0, 4)])
    assert not write.batches
    one.confirm(write)
    assert one.finished == ["0-4 aborted"]
    assert one.states == ["5-5 acquired x1 ann"]
    assert one.written == (5, 0)


def test_aborted_records_behind_others_count_as_complete() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 4), (5, 9), most=7, mode=RECORD_LIMIT)
    one.confirm(one.records.archive([(5, 9)]))
    assert one.states == ["0-4 acquired x1 ann", "5-6 archived x1", "7-9 archived x0"]
    assert one.records.delivery_complete_count == 5
    assert one.records.next_offset == 10


@pytest.mark.parametrize(
    ("ranges", "left"),
    [
        ([], [(0, 9, 1), (20, 29, 2)]),
        ([(0, 9)], [(20, 29, 2)]),
        ([(3, 4)], [(0, 2, 1), (5, 9, 1), (20, 29, 2)]),
        ([(0, 1), (8, 21)], [(2, 7, 1), (22, 29, 2)]),
        ([(0, 40)], []),
        ([(10, 19)], [(0, 9, 1), (20, 29, 2)]),
        ([(9, 9), (20, 20), (29, 29)], [(0, 8, 1), (21, 28, 2)]),
    ],
)
def test_ranges_are_taken_out_of_what_was_acquired(
    ranges: list[LogBatch], left: list[tuple[int, int, int]]
) -> None:
    acquired = [AcquiredRecords(0, 9, 1), AcquiredRecords(20, 29, 2)]
    assert without(acquired, ranges) == [AcquiredRecords(*one) for one in left]


# Who is told ----------------------------------------------------------------------------------


def test_the_position_changes_when_there_may_be_more() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    steps = []
    for change in (
        lambda: one.acknowledge("ann", (0, 1, 1)),
        lambda: one.acknowledge("ann", (5, 5, 2)),
        lambda: one.release("ann"),
        lambda: one.confirm(one.records.log_start_moved(4)),
    ):
        before = one.records.position
        change()
        steps.append(one.records.position != before)
    assert steps == [True, True, True, True]
    before = one.records.position
    one.acknowledge("ann", (0, 3, 1))
    one.confirm(one.records.log_start_moved(3))
    assert not one.fetch("bob", (10, 19), most=0)
    assert one.records.position == before


def test_the_position_changes_when_something_is_left() -> None:
    one = OnePartition()
    before = one.records.position
    one.fetch("ann", (0, 9), most=9, mode=RECORD_LIMIT)
    assert one.records.next_offset == 9
    assert one.records.position != before
