"""How locks end: release, time, renewal (docs/spec/share-group.md#4.5 and 4.6)."""

from __future__ import annotations

import pytest

from groupd.coordinator.share_partitions.locks import EMPTY_LOCKS, RecordLock, RecordLocks
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_fetch import ACCEPT, REJECT, RELEASE, RENEW
from groupd.protocol.messages.share_state import AVAILABLE
from tests.unit.share_partitions.one_partition import LOCK_MS, OnePartition, written


def test_a_member_that_goes_releases_what_it_holds() -> None:
    """SG-72 to SG-74: the count stays."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.fetch("bob", (10, 14))
    one.fetch("ann", (15, 19))
    one.acknowledge("ann", (0, 4, ACCEPT))
    assert written(one.release("ann")) == ["5-9 available x1", "15-19 available x1"]
    assert one.states == ["5-9 available x1", "10-14 acquired x1 bob", "15-19 available x1"]
    assert one.fetch("bob", (0, 9), (10, 14), (15, 19)) == ["5-9 x2", "15-19 x2"]
    assert not one.release("ann").batches


def test_a_failed_release_keeps_the_locks() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.undo(one.records.release("ann", 5, dead_letters=False))
    assert one.states == ["0-9 acquired x1 ann"]
    assert one.records.next_lock_ms == LOCK_MS
    assert written(one.release("ann")) == ["0-9 available x1"]


def test_the_last_delivery() -> None:
    one = OnePartition((0, 4, AVAILABLE, 1), (5, 9, AVAILABLE, 0), limit=2)
    one.fetch("ann", (0, 9))
    assert written(one.release("ann")) == ["0-4 archived x2", "5-9 available x1"]
    assert one.offsets == (5, 9, 5)
    assert one.finished == ["0-4 delivery limit"]


def test_a_lock_ends_after_its_time() -> None:
    """SG-94."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.now_ms = 10
    one.fetch("ann", (10, 19))
    assert one.records.next_lock_ms == LOCK_MS
    one.now_ms = LOCK_MS - 1
    assert not one.begin_expiry().batches
    one.now_ms = LOCK_MS
    assert written(one.begin_expiry()) == ["0-9 available x1"]
    assert one.records.next_lock_ms == LOCK_MS + 10
    assert one.fetch("bob", (0, 9)) == ["0-9 x2"]
    with pytest.raises(ApiError) as refused:
        one.begin("ann", (0, 9, ACCEPT))
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE


def test_what_was_acknowledged_has_no_lock() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.acknowledge("ann", (3, 5, ACCEPT), (7, 7, RELEASE))
    assert one.fetch("bob", (0, 9)) == ["7-7 x2"]
    one.now_ms = LOCK_MS - 1
    one.acknowledge("bob", (7, 7, RELEASE))
    one.now_ms = LOCK_MS
    assert written(one.begin_expiry()) == [
        "0-2 available x1",
        "6-6 available x1",
        "8-9 available x1",
    ]
    assert one.records.next_lock_ms is None


def test_time_passes_although_its_write_fails() -> None:
    one = OnePartition((0, 4, AVAILABLE, 1), (5, 9, AVAILABLE, 0), limit=2)
    one.fetch("ann", (0, 9))
    one.now_ms = LOCK_MS
    write = one.begin_expiry()
    assert written(write) == ["0-4 archived x2", "5-9 available x1"]
    assert one.written == (0, 5)
    assert one.offsets == (0, 9, 5)
    one.undo(write)
    assert one.offsets == (5, 9, 5)
    assert one.finished == ["0-4 delivery limit"]
    assert one.fetch("bob", (0, 9)) == ["5-9 x2"]


@pytest.mark.parametrize("kind", [ACCEPT, RELEASE])
@pytest.mark.parametrize("durable", [True, False])
def test_time_passes_during_a_write(kind: int, durable: bool) -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    write = one.begin("ann", (0, 9, kind))
    one.now_ms = LOCK_MS
    assert not one.begin_expiry().batches
    if durable:
        one.confirm(write)
        assert one.records.next_lock_ms is None
        assert one.offsets == ((10, 10, 10) if kind == ACCEPT else (0, 9, 0))
    else:
        one.undo(write)
        assert one.records.next_lock_ms == LOCK_MS
        assert written(one.begin_expiry()) == ["0-9 available x1"]


def test_time_passes_during_the_write_of_the_last_delivery() -> None:
    one = OnePartition((0, 9, AVAILABLE, 1), limit=2)
    one.fetch("ann", (0, 9))
    write = one.begin("ann", (0, 9, ACCEPT))
    one.now_ms = LOCK_MS
    one.begin_expiry()
    one.undo(write)
    assert written(one.confirm(one.begin_expiry())) == ["0-9 archived x2"]
    assert one.offsets == (10, 10, 10)


# Renewal --------------------------------------------------------------------------------------


def test_a_renewed_lock_runs_again() -> None:
    """SG-109."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.now_ms = 1000
    write = one.acknowledge("ann", (0, 9, RENEW))
    assert not write.batches
    assert one.states == ["0-9 acquired x1 ann"]
    assert one.records.next_lock_ms == LOCK_MS + 1000
    one.now_ms = LOCK_MS
    assert not one.begin_expiry().batches
    one.now_ms = LOCK_MS + 1000
    assert written(one.begin_expiry()) == ["0-9 available x1"]


def test_some_are_renewed() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.now_ms = 1000
    write = one.acknowledge("ann", (0, 4, bytes((RENEW, RENEW, 1, 1, RENEW))), (5, 6, RENEW))
    assert written(write) == ["2-3 acknowledged x1"]
    one.now_ms = LOCK_MS
    assert written(one.begin_expiry()) == ["7-9 available x1"]
    assert written(one.release("ann")) == ["0-1 available x1", "4-6 available x1"]
    assert one.records.next_lock_ms is None


def test_renewed_records_are_over_once() -> None:
    one = OnePartition((0, 9, AVAILABLE, 1), limit=2)
    one.fetch("ann", (0, 9))
    one.acknowledge("ann", (5, 9, RENEW))
    assert written(one.release("ann")) == ["0-9 archived x2"]
    assert one.finished == ["0-4 delivery limit", "5-9 delivery limit"]


def test_a_failed_write_keeps_renewals() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.now_ms = 1000
    one.undo(one.begin("ann", (0, 4, RENEW), (5, 9, REJECT)))
    one.now_ms = LOCK_MS
    assert written(one.begin_expiry()) == ["5-9 available x1"]


def test_renewed_and_acknowledged_in_one_request() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    write = one.acknowledge("ann", (0, 9, RENEW), (9, 9, ACCEPT))
    assert written(write) == ["9-9 acknowledged x1"]


@pytest.mark.parametrize("types", [RENEW, bytes((1, RENEW))])
def test_the_group_does_not_allow_renewals(types: int | bytes) -> None:
    one = OnePartition()
    one.fetch("ann", (0, 1))
    with pytest.raises(ApiError, match="not enabled") as refused:
        one.begin("ann", (0, 1, types), renew=False)
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE
    assert one.states == ["0-1 acquired x1 ann"]


def test_a_lock_that_is_over_cannot_be_renewed() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.let_locks_end()
    with pytest.raises(ApiError) as refused:
        one.begin("ann", (0, 9, RENEW))
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE


# The queue of locks ---------------------------------------------------------------------------


def test_locks_that_hold_nothing_do_not_pile_up() -> None:
    locks = RecordLocks()
    kept = [RecordLock("ann", 1_000_000 - n, n, 1) for n in range(10)]
    for lock in kept:
        locks.add(lock)
    for n in range(10 * EMPTY_LOCKS):
        lock = RecordLock("bob", n, n, 2)
        locks.add(lock)
        locks.let_go(lock, 1)
        locks.let_go(lock, 1)
        assert len(locks) <= 2 * EMPTY_LOCKS + 2 * len(kept)
    assert locks.of_member("bob") == []
    assert locks.of_member("ann") == kept[::-1]
    assert locks.next_ms() == 1_000_000 - 9
    assert locks.pop_over(1_000_000) == kept[::-1]
