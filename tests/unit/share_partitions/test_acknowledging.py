"""Acknowledgements, and how the start offset follows them (docs/spec/share-group.md#4.6)."""

from __future__ import annotations

import pytest

from groupd.coordinator.share_partitions.acknowledgements import check_batches
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_fetch import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
)
from groupd.protocol.messages.share_state import ACKNOWLEDGED, AVAILABLE
from tests.unit.share_partitions.one_partition import LOCK_MS, OnePartition, written

# The form of a request ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "batches",
    [
        [(5, 4, b"\x01")],
        [(0, 9, b"")],
        [(0, 9, b"\x01\x01\x01")],
        [(0, 0, b"\x01\x01")],
        [(0, 9, b"\x05")],
        [(0, 9, b"\xff")],
        [(0, 9, b"\x04")],
        [(0, 9, b"\x01"), (8, 12, b"\x01")],
        [(5, 9, b"\x01"), (0, 4, b"\x01")],
    ],
    ids=(
        "reversed",
        "no types",
        "not a type each",
        "too many types",
        "unknown",
        "negative",
        "renew",
        "overlapping",
        "not in order",
    ),
)
def test_forms_that_are_refused(batches: list[tuple[int, int, bytes]]) -> None:
    """SG-108."""
    with pytest.raises(ApiError) as refused:
        check_batches([AcknowledgementBatch(*one) for one in batches], 2, is_renew_ack=False)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_forms_that_are_good() -> None:
    batches = [
        AcknowledgementBatch(0, 9, bytes((ACCEPT,))),
        AcknowledgementBatch(10, 11, bytes((GAP, REJECT))),
        AcknowledgementBatch(11, 12, bytes((RELEASE,))),  # as in Kafka, the ends may be equal
    ]
    check_batches(batches, 1, is_renew_ack=False)
    check_batches([AcknowledgementBatch(0, 9, bytes((RENEW,)))], 2, is_renew_ack=True)


def test_renewing_needs_version_2() -> None:
    """SG-109."""
    with pytest.raises(ApiError, match="unknown acknowledge type"):
        check_batches([AcknowledgementBatch(0, 9, bytes((RENEW,)))], 1, is_renew_ack=True)


# States ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("types", [1, bytes((1,)) * 10])
def test_all_are_accepted(types: int | bytes) -> None:
    """SG-107."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    write = one.begin("ann", (0, 9, types))
    assert one.states == ["0-9 acknowledged x1 ann ..."]
    assert written(write) == ["0-9 acknowledged x1"]
    assert one.written == (0, 10)
    assert one.offsets == (0, 9, 10)
    one.confirm(write)
    assert one.offsets == (10, 10, 10)
    assert one.records.delivery_complete_count == 0
    assert one.records.next_lock_ms is None
    assert one.finished == ["0-9 accepted"]


def test_each_type() -> None:
    """SG-115 among them: a gap is over."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    write = one.begin("ann", (0, 9, bytes((2, 1, 1, 0, 3, 3, 2, 2, 1, 4))))
    assert one.written == (0, 6)
    one.confirm(write)
    assert written(write) == [
        "0-0 available x1",
        "1-2 acknowledged x1",
        "3-5 archived x1",
        "6-7 available x1",
        "8-8 acknowledged x1",
    ]
    assert one.finished == ["1-2 accepted", "3-3 gap", "4-5 rejected", "8-8 accepted"]
    assert one.fetch("bob", (0, 9)) == ["0-0 x2", "6-7 x2"]


def test_the_next_write_tells_the_start() -> None:
    """SG-45: the start offset is one write behind, with the count it is exact."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.acknowledge("ann", (0, 4, ACCEPT))
    one.begin("ann", (5, 8, ACCEPT))
    assert one.written == (5, 4)


@pytest.mark.parametrize(("durable", "told"), [(True, (5, 4)), (False, (0, 4))])
def test_a_write_counts_no_changes_but_its_own_and_durable_ones(
    durable: bool, told: tuple[int, int]
) -> None:
    one = OnePartition()
    one.fetch("ann", (0, 19))
    first = one.begin("ann", (0, 4, ACCEPT))
    second = one.begin("ann", (5, 8, ACCEPT))
    one.begin("ann", (9, 12, ACCEPT), (13, 13, RELEASE))
    assert one.records.complete_with(first) == 5
    if durable:
        one.confirm(first)
    else:
        one.undo(first)
    assert (one.records.start_offset, one.records.complete_with(second)) == told


@pytest.mark.parametrize(("last_kind", "complete"), [(RELEASE, 5), (REJECT, 10)])
def test_how_many_are_complete(last_kind: int, complete: int) -> None:
    """SG-46."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    first = one.begin("ann", (0, 4, ACCEPT))
    assert one.written == (0, 5)
    one.confirm(first)
    one.begin("ann", (5, 9, last_kind))
    assert one.written == (5, complete - 5)


def test_the_start_waits_for_what_is_held() -> None:
    """SG-98."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.acknowledge("ann", (5, 9, ACCEPT))
    assert one.offsets == (0, 9, 10)
    assert one.states == ["0-4 acquired x1 ann", "5-9 acknowledged x1"]
    one.acknowledge("ann", (0, 3, ACCEPT))
    assert one.offsets == (4, 9, 10)
    assert one.records.delivery_complete_count == 5
    one.acknowledge("ann", (4, 4, ACCEPT))
    assert one.offsets == (10, 10, 10)


def test_the_start_waits_for_writes() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 4))
    one.fetch("bob", (5, 9))
    first, second = one.begin("ann", (0, 4, ACCEPT)), one.begin("bob", (5, 9, ACCEPT))
    one.confirm(second)
    assert one.offsets == (0, 9, 10)
    one.confirm(first)
    assert one.offsets == (10, 10, 10)


def test_an_acknowledgement_over_several_batches() -> None:
    one = OnePartition()
    for first in (0, 5, 10):
        one.fetch("ann", (first, first + 4))
    write = one.acknowledge("ann", (3, 12, ACCEPT))
    assert written(write) == ["3-12 acknowledged x1"]
    assert one.states == [
        "0-2 acquired x1 ann",
        "3-4 acknowledged x1",
        "5-9 acknowledged x1",
        "10-12 acknowledged x1",
        "13-14 acquired x1 ann",
    ]


def test_one_by_one_leaves_one_range() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 99))
    for offset in range(99, 0, -1):
        one.acknowledge("ann", (offset, offset, ACCEPT))
    assert one.states == ["0-0 acquired x1 ann", "1-99 acknowledged x1"]


# Errors ---------------------------------------------------------------------------------------


def _held_by_two() -> OnePartition:
    one = OnePartition(start=10)
    one.fetch("ann", (10, 19))
    one.fetch("bob", (20, 29))
    one.fetch("ann", (35, 39))
    one.acknowledge("ann", (15, 15, RELEASE), (16, 16, ACCEPT))
    return one


@pytest.mark.parametrize(
    ("batches", "code"),
    [
        ([(20, 29, 1)], ErrorCode.INVALID_RECORD_STATE),
        ([(10, 14, 1), (20, 29, 1)], ErrorCode.INVALID_RECORD_STATE),
        ([(12, 22, 1)], ErrorCode.INVALID_RECORD_STATE),
        ([(15, 15, 1)], ErrorCode.INVALID_RECORD_STATE),
        ([(16, 16, 1)], ErrorCode.INVALID_RECORD_STATE),
        ([(10, 14, 1), (14, 14, 2)], ErrorCode.INVALID_RECORD_STATE),
        ([(17, 17, 4), (18, 18, 1), (20, 20, 1)], ErrorCode.INVALID_RECORD_STATE),
        ([(35, 45, 1)], ErrorCode.INVALID_REQUEST),
        ([(40, 45, 1)], ErrorCode.INVALID_REQUEST),
        ([(31, 33, 1)], ErrorCode.INVALID_REQUEST),
        ([(10, 14, 1), (40, 41, 1)], ErrorCode.INVALID_REQUEST),
        ([(10, 14, bytes((1, 1, 1, 1, 2))), (17, 50, 1)], ErrorCode.INVALID_REQUEST),
    ],
    ids=(
        "SG-111 of another member",
        "SG-113 one batch of another member",
        "partly of another member",
        "released",
        "accepted",
        "twice in one request",
        "renewed before the error",
        "SG-112 the end is not in flight",
        "SG-112 not in flight",
        "in a hole",
        "one batch not in flight",
        "divided before the error",
    ),
)
def test_errors_change_nothing(
    batches: list[tuple[int, int, int | bytes]], code: ErrorCode
) -> None:
    one = _held_by_two()
    one.now_ms += 1000
    before = list(one.records.ranges())
    counts = one.records.delivery_complete_count, one.records.next_lock_ms
    with pytest.raises(ApiError) as refused:
        one.begin("ann", *batches)
    assert refused.value.code == code
    assert refused.value.message
    assert list(one.records.ranges()) == before
    assert (one.records.delivery_complete_count, one.records.next_lock_ms) == counts
    one.acknowledge("ann", (10, 14, ACCEPT))
    assert one.records.start_offset == 15


@pytest.mark.parametrize("first", [0, 7])
def test_what_nobody_has_acquired(first: int) -> None:
    one = OnePartition(*([(10, 19, ACKNOWLEDGED, 1)] if first else []))
    with pytest.raises(ApiError) as refused:
        one.begin("ann", (first, 9, ACCEPT))
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE


def test_what_is_loaded_is_not_held() -> None:
    one = OnePartition((0, 9, AVAILABLE, 1))
    with pytest.raises(ApiError) as refused:
        one.begin("ann", (0, 9, ACCEPT))
    assert refused.value.code == ErrorCode.INVALID_RECORD_STATE


def test_a_write_under_way_refuses_another() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    write = one.begin("ann", (0, 9, RELEASE))
    for first, last in ((0, 9), (3, 3)):
        with pytest.raises(ApiError) as refused:
            one.begin("ann", (first, last, ACCEPT))
        assert refused.value.code == ErrorCode.INVALID_RECORD_STATE
    assert not one.records.release("ann", 5, dead_letters=False).batches
    one.confirm(write)
    assert one.states == ["0-9 available x1"]


def test_offsets_before_the_start_are_skipped() -> None:
    """SG-112."""
    one = OnePartition(start=10)
    one.fetch("ann", (10, 19))
    assert not one.acknowledge("ann", (0, 9, ACCEPT)).batches
    write = one.acknowledge("ann", (5, 14, bytes((2, 2, 2, 2, 2, 1, 1, 3, 3, 3))))
    assert written(write) == ["10-11 acknowledged x1", "12-14 archived x1"]
    assert one.offsets == (15, 19, 20)


def test_a_hole_in_the_range_is_skipped() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 4))
    one.fetch("ann", (8, 9))
    assert written(one.acknowledge("ann", (0, 9, ACCEPT))) == [
        "0-4 acknowledged x1",
        "8-9 acknowledged x1",
    ]
    assert one.offsets == (10, 10, 10)


# Writes that fail -----------------------------------------------------------------------------


@pytest.mark.parametrize("types", [ACCEPT, RELEASE, bytes((1, 2, 3, 0, 1, 1, 1, 1, 2, 2))])
def test_a_failed_write_changes_nothing(types: int | bytes) -> None:
    """SG-117."""
    one = OnePartition()
    one.fetch("ann", (0, 9))
    one.undo(one.begin("ann", (0, 9, types)))
    assert {state.split(" ", 1)[1] for state in one.states} == {"acquired x1 ann"}
    assert one.records.delivery_complete_count == 0
    assert one.offsets == (0, 9, 10)
    assert one.finished == []
    assert one.records.next_lock_ms == LOCK_MS
    one.acknowledge("ann", (0, 9, ACCEPT))
    assert one.offsets == (10, 10, 10)


def test_one_write_fails_and_another_does_not() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 9))
    first, second = one.begin("ann", (0, 4, ACCEPT)), one.begin("ann", (5, 9, ACCEPT))
    one.undo(first)
    one.confirm(second)
    assert one.states == ["0-4 acquired x1 ann", "5-9 acknowledged x1"]
    assert one.records.delivery_complete_count == 5
