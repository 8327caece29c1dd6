"""Kafka's string hash: LG-03 and the examples of docs/spec/offsets-and-log.md#1 and
docs/spec/classic-group.md#7."""

from __future__ import annotations

import pytest

from groupd.coordinator.core import partitioning
from groupd.coordinator.core.partitioning import KEPT_LENGTH, partition_for, string_hash

EXAMPLES = [
    ("", 0, 0),
    ("a", 97, 47),
    ("my-group", -1906497762, 12),
    ("test-group", 627841412, 12),
    ("group-id", 506313513, 13),
    ("connect-cluster", 1440343063, 13),
    ("группа", 1749938458, 8),
    ("消费者组", 871131088, 38),
    ("\U0001f600", 1772899, 49),
    ("grp-\U0001f600", -1235730613, 13),
    ("polygenelubricants", -2147483648, 0),
]


@pytest.mark.parametrize(("key", "value", "partition"), EXAMPLES)
def test_classic_spec_examples(key: str, value: int, partition: int) -> None:
    assert (string_hash(key), partition_for(key, 50)) == (value, partition)


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ("", 0),
        ("g1", 42),
        ("my-group", 12),
        ("test-consumer-group", 31),
        ("\U0001f642", 15),
        ("polygenelubricants", 0),
    ],
)
def test_lg_03_offsets_spec_examples(key: str, partition: int) -> None:
    assert partition_for(key, 50) == partition


def test_partitions_take_part() -> None:
    assert [partition_for("a", partitions) for partitions in (1, 10, 50)] == [0, 7, 47]


def test_hashes_of_long_keys_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[str] = []

    def noted(key: str) -> int:
        hashed.append(key)
        return string_hash(key)

    monkeypatch.setattr(partitioning, "string_hash", noted)
    longest, too_long = "y" * KEPT_LENGTH, "y" * (KEPT_LENGTH + 1)
    for key in (longest, too_long) * 2:
        assert partition_for(key, 50) == abs(string_hash(key)) % 50
    assert hashed == [longest, too_long, too_long]
