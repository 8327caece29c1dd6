"""Records that are delivered often do not use up the deliveries of others
(docs/spec/share-group.md#4.4, "Bad-batch throttling")."""

from __future__ import annotations

from groupd.protocol.messages.share_fetch import RECORD_LIMIT
from groupd.protocol.messages.share_state import ARCHIVED, AVAILABLE
from tests.unit.share_partitions.one_partition import OnePartition


def test_a_batch_that_always_fails() -> None:
    """SG-96: 100, 100, 100, 50, then 1 at a time; then the other half."""
    one = OnePartition()
    sizes: list[str] = []
    while one.records.start_offset < 100:
        sizes += one.fetch("ann", (0, 99))
        one.release("ann")
    assert sizes == [
        *("0-99 x1", "0-99 x2", "0-99 x3", "0-49 x4"),
        *(f"{offset}-{offset} x5" for offset in range(50)),
        "50-99 x4",
        *(f"{offset}-{offset} x5" for offset in range(50, 100)),
    ]
    assert one.finished == [f"{offset}-{offset} delivery limit" for offset in range(100)]


def test_the_fewer_the_more_often() -> None:
    one = OnePartition((15, 34, AVAILABLE, 4), start=15, limit=7)
    assert one.fetch("ann", (15, 34)) == ["15-24 x5"]
    one.let_locks_end()
    assert one.fetch("ann", (15, 34)) == ["15-19 x6"]
    one.let_locks_end()
    for offset in range(15, 20):
        assert one.fetch("ann", (15, 34)) == [f"{offset}-{offset} x7"]
    assert one.fetch("ann", (15, 34)) == ["20-24 x6"]
    assert one.fetch("ann", (15, 34)) == ["25-34 x5"]


def test_they_do_not_follow_others() -> None:
    one = OnePartition(
        (15, 19, AVAILABLE, 2), (20, 22, ARCHIVED, 3), (26, 30, AVAILABLE, 3), start=5
    )
    assert one.fetch("ann", (7, 19), (20, 40)) == ["7-14 x1", "15-19 x3", "23-25 x1"]
    assert one.records.next_offset == 26
    assert one.fetch("ann", (20, 40)) == ["26-27 x4"]


def test_the_last_delivery_is_alone() -> None:
    """SG-97 for a record in the middle and at the front."""
    one = OnePartition((15, 34, AVAILABLE, 2), start=15)
    one.fetch("ann", (15, 34))
    one.acknowledge("ann", (17, 17, 2), (20, 20, 2))
    assert one.fetch("ann", (15, 34)) == ["17-17 x4", "20-20 x4"]
    one.acknowledge("ann", (15, 34, 2))
    assert one.fetch("ann", (15, 34)) == ["15-16 x4"]
    assert one.fetch("ann", (15, 34)) == ["17-17 x5"]
    assert one.fetch("ann", (15, 34)) == ["18-19 x4"]


def test_those_of_others_do_not_count() -> None:
    one = OnePartition((15, 19, AVAILABLE, 1), start=15)
    one.fetch("ann", (15, 19))
    one.acknowledge("ann", (15, 15, 2))
    assert one.fetch("bob", (15, 19)) == ["15-15 x3"]
    one.acknowledge("ann", (16, 19, 2))
    assert one.fetch("ann", (15, 19), (20, 24)) == ["16-19 x3", "20-24 x1"]


def test_a_limit_of_two_has_no_last_delivery_alone() -> None:
    """SG-95."""
    one = OnePartition(limit=2)
    one.fetch("ann", (0, 9))
    one.release("ann")
    assert one.fetch("ann", (0, 9)) == ["0-9 x2"]
    one.release("ann")
    assert one.offsets == (10, 10, 10)
    assert one.finished == ["0-9 delivery limit"]


def test_a_lower_delivery_limit_works_at_once() -> None:
    """SG-40."""
    one = OnePartition((0, 9, AVAILABLE, 2))
    one.fetch("ann", (0, 9))
    one.limit = 2
    one.release("ann")
    assert one.offsets == (10, 10, 10)


def test_record_limit_is_kept() -> None:
    one = OnePartition((0, 99, AVAILABLE, 3))
    assert one.fetch("ann", (0, 99), most=10, mode=RECORD_LIMIT) == ["0-9 x4"]
    assert one.fetch("ann", (0, 99), most=80, mode=RECORD_LIMIT) == ["10-59 x4"]


def test_those_before_them_in_the_batch_count() -> None:
    one = OnePartition()
    one.fetch("ann", (0, 99))
    for _ in range(2):
        one.acknowledge("ann", (10, 99, 2))
        one.fetch("ann", (0, 99))
    one.release("ann")
    assert one.states == ["0-9 available x1", "10-99 available x3"]
    assert one.fetch("ann", (0, 99)) == ["0-9 x2", "10-49 x4"]
