"""A fetch of many offsets is answered out of a copy: the same answer, whatever happens before it
is read."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.offsets.fetch import MANY
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    FetchedOffset,
    FetchTopic,
    commit_topic,
)
from tests.unit.offsets.harness import T1_ID, Shard

COUNT = MANY + 1


@pytest.fixture
def many() -> Shard:
    shard = Shard()
    shard.group()
    shard.state.image = MetadataImage([TopicImage(T1_ID, "t1", 5 * COUNT)])
    # Descending, and not all: the order of the store is not that of the reply.
    shard.commit(entries(range(COUNT * 2 - 1, 0, -2), 100))
    return shard


def entries(partitions: Any, base: int) -> CommitTopic:
    return commit_topic(
        "t1", tuple(CommitPartition(p, base + p, 3, f"m{p % 3}") for p in partitions)
    )


def expected(partitions: Any) -> tuple[FetchedOffset, ...]:
    return tuple(FetchedOffset(p, 100 + p, 3, f"m{p % 3}") for p in partitions)


def only(reply: Any) -> Any:
    (entry,) = reply.topics
    return entry.partitions


def test_all_in_the_order_of_partitions(many: Shard) -> None:
    found = only(many.fetch_all())
    assert isinstance(found, Lazily)
    assert tuple(found) == expected(range(1, 2 * COUNT, 2))


def test_few_among_many_partitions_come_sorted_too(many: Shard) -> None:
    many.commit(entries([5 * COUNT - 1], 100))
    found = only(many.fetch_all())
    assert tuple(found) == expected([*range(1, 2 * COUNT, 2), 5 * COUNT - 1])


def test_what_changes_before_it_is_read_is_not_in_it(many: Shard) -> None:
    found = only(many.fetch_all())
    reading = iter(found)
    assert next(reading) == expected([1])[0]
    many.commit(entries([1, 2, 3], 7))
    many.delete(FetchTopic("t1", (5,)))
    assert tuple(reading) == expected(range(3, 2 * COUNT, 2))
    assert only(many.fetch(FetchTopic("t1", (1, 2, 3, 5)))) == (
        FetchedOffset(1, 8, 3, "m1"),
        FetchedOffset(2, 9, 3, "m2"),
        FetchedOffset(3, 10, 3, "m0"),
        FetchedOffset(5),
    )


def test_a_long_list_of_partitions_in_the_order_asked(many: Shard) -> None:
    asked = tuple(range(2 * COUNT, -1, -1))
    found = only(many.fetch(FetchTopic("t1", asked)))
    assert isinstance(found, Lazily)
    one_by_one = tuple(only(many.fetch(FetchTopic("t1", (p,))))[0] for p in asked)
    assert tuple(found) == one_by_one


@pytest.mark.parametrize("everything", [True, False])
def test_unstable_ones_are_those_at_the_fetch(many: Shard, *, everything: bool) -> None:
    many.txn_commit(entries([3, 4], 900))
    asked = FetchTopic("t1", tuple(range(COUNT)))
    reply = many.fetch_all if everything else lambda **how: many.fetch(asked, **how)
    stable, dirty = only(reply(require_stable=True)), only(reply())
    many.marker(commit=True)
    unstable = {offset.partition for offset in stable if offset.error}
    assert unstable == ({3} if everything else {3, 4})
    assert {offset.error for offset in stable} == {
        ErrorCode.NONE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
    assert {o.partition: o.offset for o in dirty}[3] == 103, "as committed before"
