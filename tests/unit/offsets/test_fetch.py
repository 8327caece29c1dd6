"""OffsetFetch: what the scenarios of `offsets` do not show."""

from __future__ import annotations

from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchedOffset,
    FetchTopic,
)
from tests.unit.offsets.harness import OLD_ID, T1_ID, T2_ID, Shard, codes, offsets, topic

P0 = FetchTopic("t1", (0,))


def test_stored_offset_comes_back_whole(shard: Shard) -> None:
    shard.commit(topic(p0=CommitPartition(0, 42, 5, "m")))
    (entry,) = shard.fetch(P0).topics
    assert entry.partitions == (FetchedOffset(0, 42, 5, "m"),)


def test_offset_without_id_is_found_by_id(shard: Shard) -> None:
    shard.commit(topic(p0=5), version=3, retention_time_ms=1000)
    assert offsets(shard.fetch(FetchTopic("", (0,), T1_ID), version=10)) == {("t1", 0): 5}


def test_unknown_id_and_denied_topic_by_partition(shard: Shard) -> None:
    shard.allows = lambda operation, resource, name: name != "t2"
    reply = shard.fetch(
        FetchTopic("", (0,), T1_ID),
        FetchTopic("", (1,), OLD_ID),
        FetchTopic("", (0,), T2_ID),
        version=10,
    )
    assert [
        (entry.topic_id, entry.partitions[0].error, entry.partitions[0].offset)
        for entry in reply.topics
    ] == [(T1_ID, 0, -1), (OLD_ID, 100, -1), (T2_ID, 29, -1)]
    nothing_left = shard.fetch(FetchTopic("t2", (0,)), version=9)
    assert codes(nothing_left) == {("t2", 0): 29}
    assert shard.outcome is not None


def test_existence_is_not_checked_by_name_and_denied_topics_vanish(shard: Shard) -> None:
    assert codes(shard.fetch(FetchTopic("nope", (0,)))) == {("nope", 0): 0}
    shard.commit(topic(p0=1), topic("t2", p0=2))
    shard.allows = lambda operation, resource, name: name != "t1"
    assert offsets(shard.fetch_all()) == {("t2", 0): 2}
