"""Records for the dead-letter queue (KIP-1191, docs/spec/share-group.md#4.7)."""

from __future__ import annotations

from groupd.coordinator.share_partitions.in_flight_types import DeadLetters
from groupd.coordinator.share_partitions.runs import DeliveryEnd
from groupd.protocol.messages.share_fetch import ACCEPT, GAP, REJECT
from groupd.protocol.messages.share_state import ARCHIVING, AVAILABLE
from tests.unit.share_partitions.one_partition import LOCK_MS, OnePartition, written


def test_rejected_records() -> None:
    one = OnePartition(dead_letters=True)
    one.fetch("ann", (0, 9))
    write = one.begin("ann", (0, 3, REJECT), (4, 4, GAP), (5, 9, ACCEPT))
    assert written(write) == ["0-3 archiving x1", "4-4 archived x1", "5-9 acknowledged x1"]
    assert one.written == (0, 6)
    assert one.records.to_dead_letter() == []
    one.confirm(write)
    assert one.offsets == (0, 9, 10)
    assert one.records.to_dead_letter() == [DeadLetters(0, 3, 1, DeliveryEnd.REJECTED)]
    assert one.records.to_dead_letter() == []
    assert one.finished == ["4-4 gap", "5-9 accepted"]
    write = one.records.dead_lettered([(0, 3)])
    assert written(write) == ["0-3 archived x1"]
    assert one.written == (0, 10)
    assert one.offsets == (0, 9, 10)
    one.confirm(write)
    assert one.offsets == (10, 10, 10)
    assert one.finished[2:] == ["0-3 rejected"]


def test_a_rejection_whose_write_fails() -> None:
    one = OnePartition(dead_letters=True)
    one.fetch("ann", (0, 9))
    one.undo(one.begin("ann", (0, 9, REJECT)))
    assert one.states == ["0-9 acquired x1 ann"]
    assert one.records.to_dead_letter() == []


def test_exhausted_records() -> None:
    one = OnePartition((0, 4, AVAILABLE, 1), (5, 9, AVAILABLE, 0), limit=2, dead_letters=True)
    one.fetch("ann", (0, 9))
    write = one.release("ann")
    assert written(write) == ["0-4 archiving x2", "5-9 available x1"]
    assert one.records.to_dead_letter() == [DeadLetters(0, 4, 2, DeliveryEnd.LIMIT)]
    assert one.records.next_offset == 5


def test_exhausted_by_time_although_the_write_fails() -> None:
    one = OnePartition((0, 9, AVAILABLE, 1), limit=2, dead_letters=True)
    one.fetch("ann", (0, 9))
    one.now_ms = LOCK_MS
    write = one.begin_expiry()
    assert written(write) == ["0-9 archiving x2"]
    one.undo(write)
    assert one.records.to_dead_letter() == [DeadLetters(0, 9, 2, DeliveryEnd.LIMIT)]
    one.undo(one.records.dead_lettered([(0, 9)]))
    assert one.offsets == (10, 10, 10)
    assert one.finished == ["0-9 delivery limit"]


def test_a_new_leader_goes_on() -> None:
    one = OnePartition(
        (0, 4, ARCHIVING, 5), (5, 9, ARCHIVING, 2), (10, 14, AVAILABLE, 1), dead_letters=True
    )
    assert one.offsets == (0, 14, 10)
    assert one.records.delivery_complete_count == 0
    assert one.records.to_dead_letter() == [
        DeadLetters(0, 4, 5, DeliveryEnd.LIMIT),
        DeadLetters(5, 9, 2, DeliveryEnd.REJECTED),
    ]
    one.confirm(one.records.dead_lettered([(0, 9)]))
    assert one.offsets == (10, 14, 10)
    assert one.finished == ["0-4 delivery limit", "5-9 rejected"]


def test_the_log_start_moves_over_them() -> None:
    one = OnePartition((0, 9, ARCHIVING, 5), dead_letters=True)
    one.confirm(one.records.log_start_moved(5))
    assert written(one.confirm(one.records.dead_lettered([(0, 9)]))) == ["5-9 archived x5"]
    assert one.offsets == (10, 10, 10)
    assert one.finished == ["0-4 log start", "5-9 delivery limit"]


def test_only_what_is_archiving_becomes_archived() -> None:
    one = OnePartition(dead_letters=True)
    one.fetch("ann", (0, 9))
    assert not one.confirm(one.records.dead_lettered([(0, 9)])).batches
    assert one.states == ["0-9 acquired x1 ann"]
