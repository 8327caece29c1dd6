"""The transaction index alone: what is unstable, what was aborted where."""

from __future__ import annotations

from groupd.coordinator.producers import producer_state
from groupd.coordinator.producers.producer_state import (
    ProducerStates,
    Verifications,
)
from groupd.coordinator.producers.transaction_index import TransactionIndex
from groupd.coordinator.producers.transactions import Marker


def test_without_transactions_all_is_stable() -> None:
    index = TransactionIndex()
    assert index.last_stable_offset(0) == 0
    assert index.last_stable_offset(9) == 9
    assert index.aborted(0, 9) == ()


def test_what_is_above_the_high_watermark_does_not_hold_back() -> None:
    index = TransactionIndex()
    index.begin(1, 5)
    assert index.last_stable_offset(3) == 3
    assert index.last_stable_offset(8) == 5


def test_an_ended_transaction_is_unstable_until_its_marker_is_durable() -> None:
    index = TransactionIndex()
    index.begin(1, 2)
    index.begin(2, 3)
    index.end(2, 3, 6, committed=True)
    index.end(1, 2, 7, committed=True)
    assert index.last_stable_offset(6) == 2
    index.durable(7)
    assert index.last_stable_offset(7) == 2
    index.durable(8)
    assert index.last_stable_offset(8) == 8


def test_aborted_transactions_are_found_by_overlap() -> None:
    index = TransactionIndex()
    index.begin(1, 0)  # open until 9
    index.begin(2, 1)
    index.end(2, 1, 3, committed=False)
    index.begin(2, 4)
    index.end(2, 4, 5, committed=False)
    index.end(1, 0, 9, committed=False)
    assert index.aborted(0, 1) == ((1, 0),)
    assert index.aborted(2, 3) == ((2, 1), (1, 0))
    assert index.aborted(4, 5) == ((2, 4), (1, 0))
    assert index.aborted(6, 20) == ((1, 0),)
    assert index.aborted(10, 20) == ()


def test_the_search_ends_where_no_later_one_can_begin() -> None:
    index = TransactionIndex()
    for at in range(0, 2000, 2):
        index.begin(1, at)
        index.end(1, at, at + 1, committed=False)
    assert index.aborted(10, 12) == ((1, 10),)
    index.forget_below(1000)
    assert len(index.aborted(0, 2000)) == 500
    assert index.aborted(0, 1002) == ((1, 1000),)


def test_a_producer_in_a_transaction_is_never_forgotten() -> None:
    states = ProducerStates()
    states.written(1, 0, 0, 1, 0)
    for producer_id in range(2, producer_state.PRODUCERS_MAX + 10):
        states.marked(Marker(producer_id, 0, True, 0, 1), producer_id, 0)
    assert states.count == producer_state.PRODUCERS_MAX
    assert states.in_transaction(1, 0)
    assert not states.in_transaction(2, 0)


def test_the_oldest_verification_is_forgotten() -> None:
    verifications = Verifications(2)
    first, second, third = (verifications.start(number, 0, 0, False) for number in (1, 2, 3))
    assert not verifications.holds(1, first)
    assert verifications.holds(2, second)
    assert verifications.holds(3, third)
