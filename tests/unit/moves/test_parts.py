"""What one request carries, and what is said when one is refused."""

from __future__ import annotations

import pytest

from groupd.coordinator.moves.mover import PART_BYTES, PART_PARTITIONS, parts_of, refused_text
from groupd.coordinator.moves.plan import Current
from groupd.protocol.messages import TopicPartition


def test_a_part_has_a_most_of_partitions() -> None:
    wanted = {("t", number): Current(number) for number in range(2 * PART_PARTITIONS + 1)}
    parts = list(parts_of("g", wanted))
    assert [len(part) for part in parts] == [PART_PARTITIONS, PART_PARTITIONS, 1]
    assert {place: one for part in parts for place, one in part.items()} == wanted


@pytest.mark.parametrize(
    ("group_id", "topic", "metadata"),
    [
        ("g" * 20_000, "t", ""),
        ("g", "t" * 20_000, ""),
        ("g", "t", "x" * 20_000),
        ("g", "t", "😀" * 5000),
    ],
)
def test_a_part_has_a_most_of_bytes(group_id: str, topic: str, metadata: str) -> None:
    """Every record has the names of the group and the topic, and its metadata."""
    wanted = {(topic, number): Current(1, 0, metadata) for number in range(50)}
    sizes = [len(part) for part in parts_of(group_id, wanted)]
    assert sum(sizes) == 50
    assert max(sizes) == PART_BYTES // 20_102 == 19


def test_what_is_larger_than_a_part_goes_alone() -> None:
    places = {("t", number): None for number in range(3)}
    assert [len(part) for part in parts_of("g", places, 10)] == [1, 1, 1]
    assert list(parts_of("g", {})) == []


REFUSED = {("t", 7): "UNKNOWN_MEMBER_ID"}
UNSURE = {("t", 5): "REQUEST_TIMED_OUT", ("t", 6): "COORDINATOR_NOT_AVAILABLE"}


@pytest.mark.parametrize(
    ("errors", "written", "count", "told"),
    [
        (
            REFUSED,
            0,
            1,
            "1 of 1 partition refused, such as t-7: UNKNOWN_MEMBER_ID. Nothing has been written",
        ),
        (
            REFUSED,
            3,
            9,
            (
                "1 of 9 partitions refused, such as t-7: UNKNOWN_MEMBER_ID. "
                "3 have been written, 5 not tried"
            ),
        ),
        (UNSURE, 0, 2, "2 of 2 partitions may have been written, such as t-5: REQUEST_TIMED_OUT"),
        (
            UNSURE | REFUSED,
            1,
            4,
            (
                "1 of 4 partitions refused, such as t-7: UNKNOWN_MEMBER_ID. "
                "2 of 4 partitions may have been written, such as t-5: REQUEST_TIMED_OUT. "
                "1 has been written"
            ),
        ),
        (
            UNSURE,
            0,
            9,
            "2 of 9 partitions may have been written, such as t-5: REQUEST_TIMED_OUT. 7 not tried",
        ),
    ],
)
def test_errors_are_told_with_what_was_written(
    errors: dict[TopicPartition, str], written: int, count: int, told: str
) -> None:
    assert refused_text(errors, written, count) == told
