"""The log start moves: what is before it is over (docs/spec/share-group.md#4.3, SG-102)."""

from __future__ import annotations

import pytest

from groupd.protocol.messages.share_fetch import ACCEPT, RELEASE
from groupd.protocol.messages.share_state import ACKNOWLEDGED, ARCHIVED, AVAILABLE
from tests.unit.share_partitions.one_partition import LOCK_MS, OnePartition, written


def _move(one: OnePartition, offset: int) -> None:
    write = one.records.log_start_moved(offset)
    assert not write.batches
    one.confirm(write)


def test_nothing_is_in_flight() -> None:
    one = OnePartition()
    _move(one, 20)
    assert one.offsets == (20, 20, 20)
    assert one.fetch("ann", (15, 29)) == ["20-29 x1"]


@pytest.mark.parametrize("offset", [0, 5, 10])
def test_it_does_not_move_back(offset: int) -> None:
    one = OnePartition(start=10)
    one.fetch("ann", (10, 19))
    before = one.records.position
    _move(one, offset)
    assert one.offsets == (10, 19, 20)
    assert one.records.position == before


@pytest.mark.parametrize(
    ("offset", "states", "complete"),
    [
        (
            2,
            [
                "2-4 available x1",
                "5-9 acquired x1 ann",
                "10-14 acknowledged x1",
                "15-19 acquired x1 ann",
            ],
            5,
        ),
        (5, ["5-9 acquired x1 ann", "10-14 acknowledged x1", "15-19 acquired x1 ann"], 5),
        (7, ["7-9 acquired x1 ann", "10-14 acknowledged x1", "15-19 acquired x1 ann"], 5),
        (12, ["15-19 acquired x1 ann"], 0),
        (16, ["16-19 acquired x1 ann"], 0),
        (20, [], 0),
        (30, [], 0),
    ],
)
def test_what_is_before_is_forgotten(offset: int, states: list[str], complete: int) -> None:
    one = OnePartition()
    for first in (0, 5, 10, 15):
        one.fetch("ann", (first, first + 4))
    one.acknowledge("ann", (0, 4, RELEASE), (10, 14, ACCEPT))
    assert one.records.delivery_complete_count == 5
    _move(one, offset)
    assert one.states == states
    assert one.records.delivery_complete_count == complete
    start = 15 if offset == 12 else offset
    assert one.records.start_offset == start
    assert one.records.next_offset == (2 if offset == 2 else max(20, offset))


def test_each_record_is_over_once() -> None:
    one = OnePartition((0, 4, AVAILABLE, 1), (5, 9, ARCHIVED, 1), (10, 14, AVAILABLE, 1))
    one.fetch("ann", (0, 4))
    _move(one, 12)
    assert one.finished == ["0-4 log start", "10-11 log start"]


def test_locks_on_what_is_before() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.now_ms = 1000
    one.fetch("bob", (10, 19))
    _move(one, 15)
    assert one.records.next_lock_ms == LOCK_MS + 1000
    assert not one.release("ann").batches
    assert not one.acknowledge("ann", (0, 9, ACCEPT)).batches
    assert written(one.acknowledge("bob", (10, 19, ACCEPT))) == ["15-19 acknowledged x1"]
    assert one.offsets == (20, 20, 20)


@pytest.mark.parametrize("durable", [True, False])
def test_writes_of_what_is_before(durable: bool) -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    write = one.begin("ann", (0, 9, ACCEPT))
    _move(one, 5)
    assert one.records.delivery_complete_count == 5
    if durable:
        one.confirm(write)
        assert one.offsets == (10, 10, 10)
        assert one.finished == ["0-4 log start", "5-9 accepted"]
    else:
        one.undo(write)
        assert one.states == ["5-9 acquired x1 ann"]
        assert one.records.delivery_complete_count == 0
        assert one.finished == ["0-4 log start"]


def test_a_hole_at_the_new_start_is_skipped() -> None:
    one = OnePartition((0, 4, AVAILABLE, 1), (8, 9, ACKNOWLEDGED, 1))
    one.fetch("ann", (0, 4), (8, 9))
    _move(one, 6)
    assert one.offsets == (6, 9, 10)
    one = OnePartition()
    one.fetch("ann", (0, 4))
    one.fetch("ann", (8, 9))
    _move(one, 6)
    assert one.offsets == (8, 9, 10)
